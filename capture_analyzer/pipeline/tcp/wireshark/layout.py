"""The packets of a batch as Wireshark's bookkeeping sees them, while nothing upsets it.

Laid out connection by connection, in each one side's packets, then the other's, each in
capture order. In an undisturbed connection the highest sequence number seen is a running
maximum and everything else is what the packet before said, so the rules need no loop.
`upset` says for which connections that holds.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import ACK, FIN, HAS_WINDOW_SCALE, SYN, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Elements = NDArray[np.intp]

_SPAN: Final = 1 << 44  # room for the offsets of one stream: a batch has up to 2^17 streams
_LIMIT: Final = 1 << 42  # offsets are kept within ± this
_JUMP: Final = 1 << 30  # a step this wide leaves open which way it went


@quick_dataclass
class Layout:
    """One element a packet.

    Attributes:
        index: the packet's index (packet_no - 1).
        stream: 2 · (connection within the batch) + side.
        later: it is not the first of its stream.
        peer: element of the other side's last packet before this one, -1 without.
        time, seq, ack, length, window, flags: of the packet.
        carried: sequence numbers that it takes: payload, and one for a SYN or FIN.
        offset: of `seq`, counted from the first of the stream.
        before: offset behind the highest byte that its stream held before it.
        reached: likewise behind it; both valid where later.
        first_seq: raw sequence number of offset 0 of its stream.
    """

    index: Elements
    stream: Ints
    later: Bools
    peer: Elements
    time: Ints
    seq: NDArray[np.uint32]
    ack: NDArray[np.uint32]
    length: Ints
    window: Ints
    flags: NDArray[np.uint8]
    carried: Ints
    offset: Ints
    before: Ints
    reached: Ints
    first_seq: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.index)


def arrange(packets: Packets, indices: NDArray[np.int32], connection: Ints, count: int) -> Layout:
    """Lay out the packets of `count` whole connections.

    Args:
        packets: all packets.
        indices: those of the batch, by connection, capture order in each.
        connection: number of each one's connection within the batch, ascending.
        count: how many connections.
    """
    key = connection * 2 + (packets.from_client[indices] == 0)
    # A stable sort of 16-bit keys is a radix sort, linear and by far the fastest.
    small = key.astype(np.uint16) if 2 * count <= 0x10000 else key
    permutation = np.argsort(small, kind="stable")
    stream = key[permutation]
    counts = np.bincount(key, minlength=2 * count)
    starts = np.cumsum(counts) - counts
    some = np.flatnonzero(counts)
    heads = starts[some]
    later = np.ones(len(indices), np.bool_)
    later[heads] = False

    # The peer's packets before mine: all before me, less my own before me.
    beginning = np.repeat(np.minimum(starts[0::2], starts[1::2]), 2)
    others = np.arange(2 * count) ^ 1
    before_me = permutation - np.arange(len(indices)) + np.repeat(starts - beginning, counts)
    peer = np.repeat(starts[others], counts) + before_me - 1
    peer[before_me <= 0] = -1

    index = indices[permutation].astype(np.intp)
    seq, flags = packets.seq[index], packets.flags[index]
    length = packets.payload_bytes[index].astype(np.int64)
    carried = length + ((flags & (SYN | FIN)) != 0)
    first_seq = np.repeat(seq[heads], counts[some])
    offset = _offsets(seq, heads, counts[some])
    floor = stream * _SPAN
    highest = np.maximum.accumulate(offset + carried + floor)
    reached = highest - floor
    before = np.empty_like(reached)
    before[1:] = highest[:-1]
    before -= floor
    return Layout(
        index=index,
        stream=stream,
        later=later,
        peer=peer,
        time=packets.time_ns[index],
        seq=seq,
        ack=packets.ack[index],
        length=length,
        window=packets.window[index].astype(np.int64),
        flags=flags,
        carried=carried,
        offset=offset,
        before=before,
        reached=reached,
        first_seq=first_seq,
    )


def _offsets(seq: NDArray[np.uint32], heads: Elements, counts: Ints) -> Ints:
    """Offsets from each stream's first number, each taken as the nearest to the one before."""
    steps = np.zeros(len(seq), np.int64)
    steps[1:] = (seq[1:] - seq[:-1]).view(np.int32)
    steps[heads] = 0
    offsets = np.cumsum(steps)
    offsets -= np.repeat(offsets[heads], counts)
    if len(offsets) and (offsets.max() > _LIMIT or offsets.min() < -_LIMIT):
        np.clip(offsets, -_LIMIT, _LIMIT, out=offsets)
    return offsets


def upset(packets: Packets, layout: Layout, count: int) -> Bools:
    """For each connection: something in it makes Wireshark's state more than running maxima.

    That is what makes it suspect missing packets, what it takes for zero-window probes,
    handshakes out of the ordinary, and the number 0, which it takes for "not seen yet".
    """
    flags, seq, later, peer = layout.flags, layout.seq, layout.later, layout.peer
    offset, before, length = layout.offset, layout.before, layout.length
    has_ack, has_syn = (flags & ACK) != 0, (flags & SYN) != 0
    known = peer >= 0

    odd = later & (offset != before) & (layout.reached > before)
    odd |= later & (np.abs(offset - before) > _JUMP)
    odd |= seq + layout.carried.astype(np.uint32) == 0
    odd |= ~later & (seq == 0xFFFFFFFF)
    probes = np.flatnonzero((length == 1) & known)
    odd[probes] |= layout.window[peer[probes]] == 0
    answers = np.flatnonzero(known & has_ack)
    others = peer[answers]
    seen = layout.first_seq[others] + layout.reached[others].astype(np.uint32)
    odd[answers] |= (layout.ack[answers] - seen).view(np.int32) > 0
    # Acknowledged before any of it was seen.
    data = np.flatnonzero(known & (length > 0) & ~(later & (offset < before)))
    ahead = (layout.ack[peer[data]] - seq[data] - length[data].astype(np.uint32)).view(np.int32)
    odd[data] |= (ahead >= 0) & (layout.ack[peer[data]] != 0)

    # Ordinary: SYN first of all, SYN-ACK first of its side, both once.
    syns = np.flatnonzero(has_syn)
    other = np.maximum(peer[syns], 0)
    ordinary = ~later[syns] & ((peer[syns] < 0) | (has_ack[syns] & ~later[other] & ~has_ack[other]))
    odd[syns] |= ~ordinary
    neither = np.flatnonzero(~has_ack & ~has_syn)  # keeps the SYN's window in force
    odd[neither] |= later[neither] & has_syn[neither - 1]
    scaled = np.flatnonzero(packets.options[layout.index] & HAS_WINDOW_SCALE)
    odd[scaled] |= ~has_syn[scaled]

    result = np.zeros(count, np.bool_)
    result[layout.stream[odd] // 2] = True
    return result
