"""The packets of a batch of whole connections, direction by direction, as stream offsets.

Layout: connection by connection, and in each the client's packets, then the server's, each
in capture order. Whatever needs the state of one direction is then a running maximum along
the array, and whatever needs the other direction's state looks it up through `peer`.

One running maximum serves all streams at once: stream s adds s · SPAN to its offsets, so
that later streams start above everything that earlier ones reached.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import ACK, FIN, RST, SYN, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.flows import Flows
from capture_analyzer.pipeline.tcp.duplicates import find_copies

SPAN: Final = 1 << 44
"""Room for the offsets of one stream (16 TiB): 2^18 streams of a batch fit into int64."""

_LIMIT: Final = (1 << 43) - 1  # offsets are kept within ± this; only nonsense goes beyond

FAR: Final = 1 << 24
"""A segment more than this beyond everything sent before, and not continued by the next
one, is set aside: no sender has that much in flight out of order, so its sequence number is
damaged or forged. (The largest window is 2^30, RFC 7323; real ones stay far below.)"""

_FAR_PASSES: Final = 4  # of setting aside; nonsense that persists longer is believed

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@quick_dataclass
class Segments:
    """One element a packet, in the layout described above; times in ns, offsets in bytes.

    Attributes:
        index: the packet's index (packet_no - 1).
        stream: 2 · (connection within the batch) + (0 from the client, 1 from the server).
        starts, counts: first element and number of elements of each stream (may be 0).
        time: capture time.
        flags, window, ip_id: header fields.
        length: payload bytes (0 on RST, whose payload is no stream data; RFC 9293, 3.5.3).
        begin, end: stream offsets of the payload; 0 is the first byte behind the SYN.
        acked: offset in the peer's stream up to which this packet acknowledges.
        peer: element of the peer's last packet before this one, -1 without.
        carries: takes sequence space: payload, SYN or FIN, and was not set aside.
        before: next offset expected from this stream before this packet (a FIN counts one).
        top: `before`, as of behind this packet, plus stream · SPAN: never decreases.
        ack_top: highest acknowledgement up to this packet, plus stream · SPAN.
        mid: per stream: begins in the middle, no SYN tells its first byte.
        far: elements set aside as out of any window.
        copies: elements that are copies of the packet before, set aside too.
    """

    index: NDArray[np.intp]
    stream: Ints
    starts: Ints
    counts: Ints
    time: Ints
    flags: NDArray[np.uint8]
    window: NDArray[np.uint16]
    ip_id: NDArray[np.uint16]
    length: Ints
    begin: Ints
    end: Ints
    acked: Ints
    peer: Ints
    carries: Bools
    before: Ints
    top: Ints
    ack_top: Ints
    mid: Bools
    far: NDArray[np.intp]
    copies: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.index)

    def peer_acked(self, elements: NDArray[np.intp] | slice) -> Ints:
        """Offset that the peer had acknowledged before each packet; -1 if nothing yet."""
        peer = self.peer[elements]
        value = self.ack_top[peer] - self.stream[peer] * SPAN
        value[peer < 0] = -1
        return value


def arrange(packets: Packets, flows: Flows, first: int, last: int, from_client: Bools) -> Segments:
    """Lay out the packets of connections first .. last - 1.

    Args:
        packets: the packets.
        flows: their grouping.
        first: first connection of the batch.
        last: one behind the last connection.
        from_client: for each element of ``flows.order``: sent by the client.
    """
    low, high = int(flows.bounds[first]), int(flows.bounds[last])
    of_client = from_client[low:high]
    streams = 2 * (last - first)
    counts, connection_start = _count(of_client, flows.bounds[first : last + 1] - low)
    starts = np.cumsum(counts) - counts
    stream = np.repeat(np.arange(streams), counts)
    permutation = np.empty(high - low, np.intp)
    client_part = np.repeat(np.arange(streams) & 1 == 0, counts)
    permutation[client_part] = np.flatnonzero(of_client)
    permutation[~client_part] = np.flatnonzero(~of_client)
    index = flows.order[low:high].take(permutation).astype(np.intp)

    # The peer's packets before mine: all before me, less my own before me.
    other = np.arange(streams) ^ 1
    peer = permutation - np.arange(high - low)
    peer += np.repeat(starts + starts[other] - connection_start - 1, counts)
    peer[peer < np.repeat(starts[other], counts)] = -1

    flags = packets.flags.take(index)
    seq, ack = packets.seq.take(index), packets.ack.take(index)
    length = packets.payload_bytes.take(index).astype(np.int64)
    length[(flags & RST) != 0] = 0
    base, mid = _bases(flags, seq, ack, stream, starts, counts, length)
    begin = _unwrap(seq, base, starts, counts)
    begin[(flags & SYN) != 0] += 1
    acked = _unwrap_acks(ack, flags, base[other], stream, starts, counts)
    if mid.any():
        _settle_middle(mid, stream, starts, counts, peer, length, begin, acked)
    end = begin + length
    time = packets.time_ns.take(index)
    ip_id = packets.ip_id.take(index)
    copies = find_copies(packets, index, stream, starts, counts, time, seq, ack, ip_id)
    carries = ((length > 0) | ((flags & (SYN | FIN)) != 0)) & ((flags & RST) == 0)
    carries[copies] = False
    segments = Segments(
        index=index,
        stream=stream,
        starts=starts,
        counts=counts,
        time=time,
        flags=flags,
        window=packets.window.take(index),
        ip_id=ip_id,
        length=length,
        begin=begin,
        end=end,
        acked=acked,
        peer=peer,
        carries=carries,
        before=begin,
        top=begin,
        ack_top=begin,
        mid=mid,
        far=np.empty(0, np.intp),
        copies=copies,
    )
    _run(segments)
    return segments


def _count(of_client: Bools, bounds: Ints) -> tuple[Ints, Ints]:
    """Packets of each stream, and where its connection begins.

    Args:
        of_client: for each packet, connection by connection: sent by the client.
        bounds: connection c's packets are ``bounds[c]:bounds[c + 1]``.
    """
    before = np.zeros(len(of_client) + 1, np.int64)
    np.cumsum(of_client.astype(np.int64), out=before[1:])
    counts = np.empty(2 * (len(bounds) - 1), np.int64)
    counts[0::2] = np.diff(before[bounds])
    counts[1::2] = np.diff(bounds) - counts[0::2]
    return counts, np.repeat(bounds[:-1], 2)


def _first_of_stream(elements: NDArray[np.intp], stream: Ints) -> NDArray[np.intp]:
    """Those of `elements` (ascending) that are the first of their stream among them."""
    if not len(elements):
        return elements
    owner = stream[elements]
    return elements[np.concatenate(([True], owner[1:] != owner[:-1]))]


def _bases(
    flags: NDArray[np.uint8],
    seq: NDArray[np.uint32],
    ack: NDArray[np.uint32],
    stream: Ints,
    starts: Ints,
    counts: Ints,
    length: Ints,
) -> tuple[NDArray[np.uint32], Bools]:
    """Raw sequence number of each stream's first byte, and where it is only a guess."""
    base = np.zeros(len(counts), np.uint32)
    mid = np.ones(len(counts), np.bool_)
    # From the weakest evidence to the strongest; each overwrites the ones before.
    acks = _first_of_stream(np.flatnonzero((flags & (ACK | RST)) == ACK), stream)
    base[stream[acks] ^ 1] = ack[acks]
    some = np.flatnonzero(counts)
    base[some] = seq[starts[some]]
    data = _first_of_stream(np.flatnonzero(length > 0), stream)
    base[stream[data]] = seq[data]
    syns = np.flatnonzero((flags & SYN) != 0)
    answers = _first_of_stream(syns[(flags[syns] & ACK) != 0], stream)
    base[stream[answers] ^ 1] = ack[answers]
    mid[stream[answers] ^ 1] = False
    own = _first_of_stream(syns, stream)
    base[stream[own]] = seq[own] + np.uint32(1)
    mid[stream[own]] = False
    return base, mid


def _unwrap(raw: NDArray[np.uint32], base: NDArray[np.uint32], starts: Ints, counts: Ints) -> Ints:
    """Offsets from `base` as int64, following the numbers through their wrap at 2^32.

    Each number is taken as the one nearest to its predecessor in the stream (RFC 9293,
    section 3.4: comparison modulo 2^32), so out-of-order segments around the wrap and
    streams of more than 4 GiB come out right, and a single wild number does no harm.
    """
    steps = np.empty(len(raw), np.int64)
    steps[1:] = (raw[1:] - raw[:-1]).view(np.int32)
    some = np.flatnonzero(counts)
    heads = starts[some]
    steps[heads] = (raw[heads] - base[some]).view(np.int32)
    head_steps = steps[heads]
    offsets = np.cumsum(steps)
    offsets -= np.repeat(offsets[heads] - head_steps, counts[some])
    if len(offsets) and (offsets.max() > _LIMIT or offsets.min() < -_LIMIT):
        np.clip(offsets, -_LIMIT, _LIMIT, out=offsets)
    return offsets


def _unwrap_acks(
    raw: NDArray[np.uint32],
    flags: NDArray[np.uint8],
    peer_base: NDArray[np.uint32],
    stream: Ints,
    starts: Ints,
    counts: Ints,
) -> Ints:
    """Like `_unwrap`; a packet without ACK repeats the acknowledgement before it."""
    without = np.flatnonzero((flags & ACK) == 0)
    if len(without):
        have = np.flatnonzero((flags & ACK) != 0)
        at = np.searchsorted(have, without) - 1
        source = have[np.maximum(at, 0)] if len(have) else at
        owner = stream[without]
        known = (at >= 0) & (source >= starts[owner])  # else no ACK in the stream up to here
        raw = raw.copy()
        raw[without] = np.where(known, raw[np.where(known, source, 0)], peer_base[owner])
    return _unwrap(raw, peer_base, starts, counts)


def _settle_middle(
    mid: Bools,
    stream: Ints,
    starts: Ints,
    counts: Ints,
    peer: Ints,
    length: Ints,
    begin: Ints,
    acked: Ints,
) -> None:
    """Move offset 0 of streams without a SYN to the first byte captured.

    The first segment captured may have overtaken others, so the lowest byte counts that
    the peer had not acknowledged when the capture began; what lies below is a repeat of
    bytes from before the capture and keeps a negative offset.
    """
    known = np.where(peer >= 0, acked[peer], -_LIMIT)
    use = (length > 0) & mid[stream] & (begin > -FAR) & (begin + length > known)
    if not use.any():
        return
    some = np.flatnonzero(counts)
    lowest = np.minimum.reduceat(np.where(use, begin, _LIMIT), starts[some])
    shift = np.zeros(len(counts), np.int64)
    shift[some] = np.minimum(lowest, 0)
    if shift.any():
        begin -= shift[stream]
        acked -= shift[stream ^ 1]


def _run(segments: Segments) -> None:
    """Fill `before`, `top`, `ack_top` and `far`."""
    floor = segments.stream * SPAN
    following = segments.end + ((segments.flags & FIN) != 0)
    np.maximum(following, 0, out=following)
    following += floor
    some = np.flatnonzero(segments.counts)
    heads = segments.starts[some]
    for _ in range(_FAR_PASSES):
        top = _reached(segments, following, floor, heads)
        before = _before(top, floor, heads)
        far = np.flatnonzero(segments.begin - before > FAR)
        far = far[segments.carries[far]]
        if not len(far):
            break
        # Believed if the stream's next segment lies near it.
        carrying = np.flatnonzero(segments.carries)
        after = np.searchsorted(carrying, far, "right")
        there = after < len(carrying)
        after = carrying[np.minimum(after, len(carrying) - 1)]
        near = np.abs(segments.begin[after] - segments.begin[far]) <= FAR
        aside = far[~(there & near & (segments.stream[after] == segments.stream[far]))]
        if not len(aside):
            break
        segments.carries[aside] = False
        segments.far = np.sort(np.concatenate((segments.far, aside)))
    segments.top, segments.before = top, before

    acked = np.where((segments.flags & (ACK | RST)) == ACK, segments.acked, 0)
    np.maximum(acked, 0, out=acked)
    # An acknowledgement far beyond all that its stream ever carried is nonsense too,
    # unless that direction is missing from the capture.
    reached = np.full(len(segments.counts), _LIMIT)
    last = heads + segments.counts[some] - 1
    reached[some] = top[last] - some * SPAN
    reached[reached == 0] = _LIMIT
    limit = reached + (1 << 30)
    other = np.arange(len(limit)) ^ 1
    wild = acked > np.repeat(limit[other], segments.counts)
    if wild.any():
        acked[wild] = 0
    acked += floor
    falling = segments.stream[1:][acked[1:] < acked[:-1]]
    segments.ack_top = _running_maximum(acked, falling, segments.counts)


def _reached(segments: Segments, following: Ints, floor: Ints, heads: Ints) -> Ints:
    """`top`, by the offset that follows each packet if it counts.

    Mostly each packet begins where the one before ended, and those that carry nothing say
    the same place again. Only streams in which that isn't so are looked at more closely.
    """
    before = np.empty_like(following)
    before[1:] = following[:-1]
    before[heads] = floor[heads]
    odd = following < before
    odd |= ~segments.carries & (following > before)
    rows = segments.stream[odd]
    if not len(rows):
        return following
    top = following.copy()
    concerned = np.zeros(len(segments.counts), np.bool_)
    concerned[rows] = True
    aside = np.repeat(concerned, segments.counts) & ~segments.carries
    top[aside] = floor[aside]
    return _running_maximum(top, rows, segments.counts)


def _before(top: Ints, floor: Ints, heads: Ints) -> Ints:
    """The offset reached before each packet, by `top`."""
    before = np.empty_like(top)
    before[1:] = top[:-1]
    before[heads] = floor[heads]
    before -= floor
    return before


def _running_maximum(values: Ints, falling: Ints, counts: Ints) -> Ints:
    """The running maximum, in place, of streams of which each lies above all before it.

    Args:
        values: one a packet.
        falling: the streams in which values fall anywhere; the others are left alone.
        counts: packets of each stream.
    """
    if not len(falling):
        return values
    chosen = np.zeros(len(counts), np.bool_)
    chosen[falling] = True
    elements = np.flatnonzero(np.repeat(chosen, counts))
    values[elements] = np.maximum.accumulate(values[elements])
    return values
