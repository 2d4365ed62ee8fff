"""Packets → connections: TCP packets by 4-tuple, a reused 4-tuple told apart.

A 4-tuple (addresses and ports, either direction) holds one connection after another. A
new one begins at a SYN without ACK whose sequence number is not the one this direction
began with (RFC 9293, section 3.4.1: initial sequence numbers move on, so that connections
that use the same ports one after the other differ). A SYN with the same number is a
retransmission and begins nothing.

This is also how Wireshark 4.0 numbers ``tcp.stream``, so that our numbers and its agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import ACK, SYN, TCP, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.room import IN_MEMORY, Room, stretches

_HASH: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio (Fibonacci hashing)
_32: Final = np.uint64(32)

_16: Final = np.uint64(16)

SHARE_PACKETS: Final = 4_000_000
"""Most packets that are grouped at once, if connections are many and alike."""

FEW_PACKETS: Final = 131_072
"""As many are grouped at once where that takes at most FEW_SHARES shares: their keys stay in the
processor's cache."""

FEW_SHARES: Final = 16
"""Each share is one more look at all packets."""

_AT_ONCE: Final = 65_536  # packets that shares are found for, so few that they stay in the cache


@quick_dataclass
class Pieces:
    """Every stream byte once, and who brought it.

    Stream s is 2 · connection + (0 from the client, 1 from the server); its pieces are
    ``bounds[s]:bounds[s + 1]``, by offset.

    Attributes:
        packet: index of the packet that brought the bytes first.
        skip: where they begin in that packet's payload.
        begin, length: where they lie in the stream, and how many.
        arrival_ns: when the copy that counts passed the capture point: the first one, or in
            a sender's capture the last that was needed.
        bounds: as said; one more than there are streams.
        end: per stream: behind the last byte known to have been sent.
        mid_stream: per stream: offset 0 is only the first byte captured.
        fin_ns: per stream: its first FIN; NO_TIME without.
        reset_ns: per connection: its first RST; NO_TIME without.
    """

    packet: NDArray[np.int32]
    skip: NDArray[np.int32]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    arrival_ns: NDArray[np.int64]
    bounds: NDArray[np.int64]
    end: NDArray[np.int64]
    mid_stream: NDArray[np.bool_]
    fin_ns: NDArray[np.int64]
    reset_ns: NDArray[np.int64]


@quick_dataclass
class Flows:
    """TCP packets grouped by connection.

    Attributes:
        order: packet indices (packet_no - 1), connection by connection; capture order
            within one.
        bounds: connection c's packets are ``order[bounds[c]:bounds[c + 1]]``.
        from_low: for each element of `order`, whether the packet was sent by the lower
            of the connection's two endpoints (the order is arbitrary, but one for all).
        pieces: what each packet brought to its stream; written by ``pipeline/tcp``.
        stream_nos: Wireshark's number of each connection, if it is not the connection's own:
            a selection leaves some out.
    """

    order: NDArray[np.int32]
    bounds: NDArray[np.int64]
    from_low: NDArray[np.bool_]
    pieces: Pieces | None = None
    stream_nos: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        """Number of connections."""
        return len(self.bounds) - 1

    def packets_of(self, connection_no: int) -> NDArray[np.int32]:
        """Packet indices of a connection, in capture order."""
        return self.order[self.bounds[connection_no] : self.bounds[connection_no + 1]]


def group(packets: Packets, room: Room = IN_MEMORY) -> Flows:
    """Group TCP packets by connection; writes ``packets.connection_no``.

    Connections are numbered in order of their first packet. Packets without a readable
    TCP header belong to none (-1).

    Args:
        packets: the packets.
        room: where the grouping lies.
    """
    packets.connection_no[:] = -1
    shares = [_grouped(packets, share, room) for share in _shares(packets, room)]
    if not shares:
        empty = np.empty(0, np.int32)
        return Flows(order=empty, bounds=np.zeros(1, np.int64), from_low=empty.astype(np.bool_))

    # Number the groups by their first packet and lay them out in that order.
    lengths = np.concatenate([share.lengths() for share in shares])
    firsts = np.concatenate([share.indices[share.starts] for share in shares])
    by_first = np.argsort(firsts, kind="stable")
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths[by_first], out=bounds[1:])
    number = np.empty(len(lengths), np.int32)
    number[by_first] = np.arange(len(lengths), dtype=np.int32)
    order = room.zeros(int(bounds[-1]), np.int32)
    from_low = room.zeros(len(order), np.bool_)
    before = 0
    while shares:
        share = shares.pop(0)  # each is given up when it is laid out
        mine = number[before : before + len(share.starts)]
        before += len(mine)
        length = share.lengths()
        place = np.arange(len(share.indices)) + np.repeat(bounds[mine] - share.starts, length)
        order[place] = share.indices
        from_low[place] = share.low
        packets.connection_no[share.indices] = np.repeat(mine, length)
    return Flows(order=order, bounds=bounds, from_low=from_low)


@quick_dataclass
class _Grouped:
    """Some of the TCP packets, group by group.

    Attributes:
        indices: of the packets, in capture order within a group.
        starts: where each group begins.
        low: whether each packet was sent by the lower endpoint.
    """

    indices: NDArray[np.int32]
    starts: NDArray[np.int64]
    low: NDArray[np.bool_]

    def lengths(self) -> NDArray[np.int64]:
        """Packets of each group."""
        return np.diff(self.starts, append=len(self.indices))


def _shares(packets: Packets, room: Room) -> Iterator[NDArray[np.intp]]:
    """TCP packets in shares of whole connections: what grouping needs in between is small then.

    How many there are does not matter to the result.
    """
    count = len(packets)
    number = max(min(-(-count // FEW_PACKETS), FEW_SHARES), -(-count // SHARE_PACKETS))
    share = room.unshared().zeros(count, np.uint16)
    for start in range(0, count, _AT_ONCE):
        part = slice(start, min(start + _AT_ONCE, count))
        share[part] = _share_of(packets, part, number)
    for wanted in range(1, number + 1):
        chosen = [part.start + np.flatnonzero(share[part] == wanted) for part in stretches(count)]
        indices = chosen[0] if len(chosen) == 1 else np.concatenate(chosen)
        if len(indices):
            yield indices


def _share_of(packets: Packets, part: slice, number: int) -> NDArray[np.uint64]:
    """The share that each packet falls to, 1 .. number, by its endpoints; 0 = it is not TCP."""
    mixed = np.zeros(part.stop - part.start, np.uint64)
    for address, port in (("source", "source_port"), ("destination", "destination_port")):
        end = getattr(packets, address)[part].astype(np.uint64)
        end <<= _16
        end |= getattr(packets, port)[part]
        end *= _HASH
        mixed += end  # a sum: the same for both directions
    mixed >>= _32
    mixed *= np.uint64(number)
    mixed >>= _32
    mixed += np.uint64(1)
    mixed[(packets.protocol[part] != TCP) | (packets.tcp_header_bytes[part] == 0)] = 0
    return mixed


def _grouped(packets: Packets, tcp: NDArray[np.intp], room: Room) -> _Grouped:
    """Group TCP packets; the groups come in no meaningful order."""
    keys, from_low = endpoint_keys(packets, tcp)
    grouped, starts = _sort(keys)
    low = from_low[grouped]
    indices = tcp[grouped]
    starts = _split_reused(packets, indices, low, starts)
    return _Grouped(room.joined([indices.astype(np.int32)]), starts, room.joined([low]))


def endpoint_keys(
    packets: Packets, tcp: NDArray[np.intp]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """A number a 4-tuple, the same for both directions, and which end sent the packet."""
    source = packets.source[tcp].astype(np.uint64) << np.uint64(16)
    source |= packets.source_port[tcp]
    destination = packets.destination[tcp].astype(np.uint64) << np.uint64(16)
    destination |= packets.destination_port[tcp]
    if len(packets.addresses) > 0xFFFF:
        # 48 bits an endpoint: two don't fit. Number the endpoints instead.
        _, numbers = np.unique(np.concatenate((source, destination)), return_inverse=True)
        source = numbers[: len(tcp)].astype(np.uint64)
        destination = numbers[len(tcp) :].astype(np.uint64)
    from_low = source < destination
    keys = np.minimum(source, destination)
    keys <<= _32
    keys |= np.maximum(source, destination)
    return keys, from_low


def _sort(keys: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Stable order by key (groups in no meaningful order) and where each group starts.

    A stable sort of 16-bit numbers is a radix sort, several times faster than any other, so
    the two halves of a 32-bit hash are sorted by. Should two keys share a hash, the slow way
    is taken; the result never depends on the hash being good.
    """
    hashed = ((keys * _HASH) >> _32).astype(np.uint32)
    order = np.argsort(hashed.astype(np.uint16), kind="stable")
    order = order[np.argsort((hashed[order] >> np.uint32(16)).astype(np.uint16), kind="stable")]
    hashed = hashed[order]
    by_hash = np.flatnonzero(hashed[1:] != hashed[:-1])
    sorted_keys = keys[order]
    by_key = np.flatnonzero(sorted_keys[1:] != sorted_keys[:-1])
    if len(by_key) != len(by_hash):
        order = np.argsort(keys, kind="stable")
        sorted_keys = keys[order]
        by_key = np.flatnonzero(sorted_keys[1:] != sorted_keys[:-1])
    return order, np.concatenate(([0], by_key + 1))


def _split_reused(
    packets: Packets,
    indices: NDArray[np.intp],
    low: NDArray[np.bool_],
    starts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """`starts` with those connections added that reuse the 4-tuple of an earlier one."""
    flags = packets.flags[indices]
    pure_syn = np.flatnonzero((flags & (SYN | ACK)) == SYN)
    at = np.searchsorted(starts, pure_syn, "right") - 1
    later = pure_syn != starts[at]  # not the first packet of its 4-tuple
    if not later.any():
        return starts
    # Where, in the grouped layout, each side's packets and its ACKs lie: of those 4-tuples.
    concerned = np.zeros(len(starts), np.bool_)
    concerned[at[later]] = True
    theirs = np.flatnonzero(np.repeat(concerned, np.diff(starts, append=len(indices))))
    sent = {side: theirs[low[theirs] == side] for side in (False, True)}
    acked = {side: sent[side][(flags[sent[side]] & ACK) != 0] for side in (False, True)}
    answered = {
        side: sent[side][(flags[sent[side]] & (SYN | ACK)) == (SYN | ACK)] for side in (False, True)
    }
    seq, ack = packets.seq, packets.ack

    def first_behind(positions: NDArray[np.intp], start: int, stop: int) -> int:
        """The first of `positions` in [start, stop), else `stop`."""
        found = int(np.searchsorted(positions, start))
        return min(int(positions[found]), stop) if found < len(positions) else stop

    extra: list[int] = []
    start = -1
    last_group = -1
    for group_no, position in zip(at[later].tolist(), pure_syn[later].tolist(), strict=True):
        if group_no != last_group:
            last_group, start = group_no, int(starts[group_no])
        side = bool(low[position])
        own = first_behind(sent[side], start, position)
        told = first_behind(acked[not side], start, position)
        if min(own, told) == position:
            continue  # nothing says yet what number this direction began with
        answer = int(np.searchsorted(answered[side], position)) - 1
        if answer >= 0 and int(answered[side][answer]) >= start:
            number = int(seq[indices[answered[side][answer]]])  # a SYN-ACK has the last word
        elif own <= told:
            number = int(seq[indices[own]]) - (0 if flags[own] & SYN else 1)
        else:
            number = int(ack[indices[told]]) - 1
        if (number ^ int(seq[indices[position]])) & 0xFFFFFFFF:
            extra.append(position)
            start = position
    if not extra:
        return starts
    return np.sort(np.concatenate((starts, np.array(extra, np.int64))))
