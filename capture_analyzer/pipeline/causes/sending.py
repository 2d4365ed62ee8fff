"""What held a sender's segments back: nothing (they left as they were written), or its stack.

A segment that a sender could have sent earlier waits in its stack for an acknowledgement:
Nagle's algorithm (RFC 9293, section 3.7.4), the congestion window, the peer's window. Then it
leaves the moment that one arrives. What leaves at another moment, or when nothing was
outstanding, was written then: before it the application paused.

All instants are those of the capture point. An acknowledgement that passed there reaches the
sender, and what it sets free comes by, one round trip beyond the capture point later.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.holes import HOLE_KINDS, Holes
from capture_analyzer.model.packets import ACK, HAS_TIMESTAMPS, SYN, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.causes.arrivals import Pauses
from capture_analyzer.pipeline.causes.links import Links
from capture_analyzer.pipeline.intervals import (
    Indices,
    Times,
    bisect_right,
    group_bounds,
    running_maximum,
)
from capture_analyzer.pipeline.lists import in_parts, places, stable_order, starts_of
from capture_analyzer.pipeline.reassemble import Streams

STEP_NS: Final = 1_000_000
"""Segments closer than this are one write, or as close as a slow link lets them be."""

JITTER_NS: Final = 500_000
"""What a host needs between an acknowledgement and the segment that it sets free; beside it a
tenth of the round trip for the variation of the path."""

FEW_SEGMENTS: Final = 8
"""With fewer outstanding no congestion window holds back: it begins with ten (RFC 6928)."""

SHY_ROUND_TRIPS: Final = 4
"""But behind a loss: from one segment (RFC 5681, section 3.1) it takes three to get there."""

LATE_NS: Final = 30_000_000
"""A segment that was this much longer on its way than the one before it was delayed there."""

_SEGMENTS_AT_ONCE: Final = 16_384

_LOSS: Final = HOLE_KINDS.index("loss")

_CLOCKS_HZ: Final = (100, 250, 1000, 1_000_000)
"""Rates at which senders count TCP timestamps (RFC 7323, section 5.4, asks for 1 to 1000 Hz)."""


@quick_dataclass
class Sending:
    """Segments of some servers, in the order of their bytes: one element each.

    Attributes:
        stream: number of the stream, ascending.
        start, end: its bytes by stream offset.
        seen: when it was captured.
        left: when it would have been captured had it not been delayed on its way.
        packet_no: its packet.
        free: nothing held it back, so it was written just before it left.
    """

    stream: Indices
    start: Times
    end: Times
    seen: Times
    left: Times
    packet_no: NDArray[np.int32]
    free: NDArray[np.bool_]

    def rows(self, part: slice) -> Sending:
        """Some of the elements; what is written to them is written to these."""
        return Sending(
            self.stream[part],
            self.start[part],
            self.end[part],
            self.seen[part],
            self.left[part],
            self.packet_no[part],
            self.free[part],
        )

    def holding(self, stream: Indices, offset: Times) -> Indices:
        """The elements that hold these bytes; -1 where the capture lacks them."""
        result = np.full(len(stream), -1, np.intp)
        if not len(self.stream):
            return result
        bounds = np.append(
            0, np.cumsum(np.bincount(self.stream, minlength=stream.max(initial=0) + 1))
        )
        for first in range(0, len(stream), _SEGMENTS_AT_ONCE):
            part = slice(first, first + _SEGMENTS_AT_ONCE)
            number, wanted = stream[part], offset[part]
            low = bounds[number]
            found = bisect_right(self.start, low, bounds[number + 1], wanted) - 1
            real = found >= low
            real[real] = wanted[real] < self.end[found[real]]
            result[part][real] = found[real]
        return result

    def released(self, element: Indices) -> Indices:
        """The last free element of the stream up to each; -1 without one."""
        if not len(self.stream):
            return np.full(len(element), -1, np.intp)
        latest = np.maximum.accumulate(np.where(self.free, np.arange(len(self.free)), -1))
        found = np.where(element >= 0, latest[element], -1)
        same = (found >= 0) & (self.stream[found] == self.stream[element])
        return np.where(same, found, -1)


def of_servers(
    streams: Streams,
    packets: Packets,
    wanted: NDArray[np.bool_],
    links: Links,
    holes: Holes,
) -> Sending:
    """How the servers of some connections sent.

    Args:
        streams: the bytes of all connections.
        packets: all packets.
        wanted: by connection: whether to look at it.
        links: of all connections.
        holes: of all connections.
    """
    connections = np.flatnonzero(wanted)
    numbers = 2 * connections + 1
    counts = streams.bounds[numbers + 1] - streams.bounds[numbers]
    stream = np.repeat(numbers, counts)
    element = places(streams.bounds[numbers], counts)
    seen = streams.seen_ns[element]
    start = streams.starts[element]
    sending = Sending(
        stream=stream,
        start=start,
        end=start + streams.lengths[element],
        seen=seen,
        left=seen.copy(),
        packet_no=streams.packet_nos[element],
        free=np.zeros(len(stream), np.bool_),
    )
    acks = _Acks.of(packets, wanted)
    repairs = _Repairs.of(holes)
    bounds = np.append(starts_of(counts), len(stream))
    for first, stop in in_parts(bounds, _SEGMENTS_AT_ONCE):
        part = slice(int(bounds[first]), int(bounds[stop]))
        if part.start == part.stop:
            continue
        acked = _Acknowledged.of(
            streams,
            element[part],
            packets,
            stream[part],
            acks.of_connections(connections[first:stop]),
        )
        _judge(sending.rows(part), packets, links, acked, repairs)
    return sending


def _judge(
    sending: Sending, packets: Packets, links: Links, acked: _Acknowledged, repairs: _Repairs
) -> None:
    """Fill in `free` and `left` of whole streams."""
    stream, seen = sending.stream, sending.seen
    opens = np.ones(len(stream), np.bool_)
    opens[1:] = stream[1:] != stream[:-1]
    # Fresh: all before it was there, and nothing behind it was.
    before, earliest = seen.copy(), seen
    before[1:] = seen[:-1]
    if np.any((before > seen) & ~opens):
        before[1:] = running_maximum(stream, seen)[:-1]
        earliest = -running_maximum(-stream[::-1], -seen[::-1])[::-1]
    gap = np.where((earliest >= seen) & ~opens, seen - before, -1)
    fresh = np.flatnonzero(gap >= STEP_NS)
    if not len(fresh):
        return
    connection, start = stream[fresh] >> 1, sending.start[fresh]
    bounds = np.append(np.flatnonzero(opens), len(stream))
    place = np.searchsorted(bounds, fresh, "right")

    known = links.beyond[connection] != NO_TIME
    beyond = np.where(known, links.beyond[connection], 0)
    slack = JITTER_NS + beyond // 10
    surely, perhaps = acked.between(
        stream[fresh], seen[fresh] - beyond - slack, seen[fresh] - beyond + slack
    )
    earlier = fresh - FEW_SEGMENTS
    few = (earlier < bounds[place - 1]) | (sending.end[np.maximum(earlier, 0)] <= surely)
    few &= seen[fresh] - repairs.last_before(stream[fresh], seen[fresh]) > (
        SHY_ROUND_TRIPS * links.round_trip[connection]
    )

    full = links.full[connection]
    small = sending.end[fresh] - start < full
    after_small = sending.end[fresh - 1] - sending.start[fresh - 1] < full
    idle = surely >= start
    # Sent while a small segment was outstanding: no Nagle's algorithm here.
    hasty = small & after_small & (perhaps < start)
    without_nagle = np.bincount(place[hasty], minlength=len(bounds) + 1)[place] >= 2
    # It lets the last small segment go when all is acknowledged, and full ones as they fill.
    may_be_nagle = ((perhaps >= start) | ~small) & ~idle & ~without_nagle
    unheld = idle | (after_small & ~may_be_nagle & (few | (surely == perhaps)))
    free = (unheld & known) | (gap[fresh] > links.longest_stop[connection])
    sending.free[fresh[free]] = True
    long = fresh[free & (gap[fresh] > LATE_NS)]
    if len(long):
        sending.left[long] -= _delay(sending, long, gap[long], packets)


@quick_dataclass
class _Repairs:
    """When losses were repaired: one element each, by stream, then time."""

    stream: Indices
    time: Times

    @classmethod
    def of(cls, holes: Holes) -> _Repairs:
        """Those of all streams."""
        lost = np.flatnonzero((holes.kind == _LOSS) & (holes.filled_ns != NO_TIME))
        stream = 2 * holes.connection_no[lost].astype(np.int64) + ~holes.from_client[lost]
        time = holes.filled_ns[lost]
        order = np.lexsort((time, stream))
        return cls(stream[order], time[order])

    def last_before(self, stream: Indices, times: Times) -> Times:
        """The last one of each stream before an instant; long ago if there is none."""
        never = np.iinfo(np.int64).min // 4
        if not len(self.time):
            return np.full(len(stream), never)
        low, high = group_bounds(self.stream, stream)
        found = bisect_right(self.time, low, high, times) - 1
        return np.where(found >= low, self.time[found], never)


@quick_dataclass
class _Acks:
    """Acknowledgements of some clients: indices of packets, by connection."""

    packet: Indices
    bounds: Indices
    """Where those of each connection begin, and behind the last where they end."""

    @classmethod
    def of(cls, packets: Packets, wanted: NDArray[np.bool_]) -> _Acks:
        """Those of the connections that are wanted."""
        asked = np.append(wanted, False)  # the last: of no connection
        chosen = np.flatnonzero(
            (packets.from_client == 1) & ((packets.flags & ACK) != 0) & asked[packets.connection_no]
        )
        owner = packets.connection_no[chosen]
        count = np.bincount(owner, minlength=len(wanted))
        return cls(chosen[stable_order(owner)], np.append(0, np.cumsum(count)))

    def of_connections(self, numbers: Indices) -> Indices:
        """The packets of some connections, none of the wanted ones between them left out."""
        return self.packet[self.bounds[numbers[0]] : self.bounds[numbers[-1] + 1]]


@quick_dataclass
class _Acknowledged:
    """How far the clients had acknowledged: one element an acknowledgement, by stream, time."""

    stream: Indices
    time: Times
    offset: Times  # the highest so far

    @classmethod
    def of(
        cls, streams: Streams, element: Indices, packets: Packets, stream: Indices, ack: Indices
    ) -> _Acknowledged:
        """Read them off the clients' packets.

        Args:
            streams: the bytes of all connections.
            element: chunks of `streams`.
            packets: all packets.
            stream: the stream of each element, ascending.
            ack: indices of the clients' packets, by connection.
        """
        opens = np.flatnonzero(np.concatenate(([True], stream[1:] != stream[:-1])))
        first = element[opens]
        packet = streams.packet_nos[first] - 1
        skipped = streams.buffer_offsets[first] - packets.payload_offset[packet]
        skipped += (packets.flags[packet] & SYN) != 0
        base = packets.seq[packet].astype(np.int64) + skipped - streams.starts[first]
        number = 2 * packets.connection_no[ack].astype(np.int64) + 1
        owner = np.searchsorted(stream[opens], number)
        sent = stream[opens][np.minimum(owner, len(opens) - 1)] == number
        if not sent.all():  # those of servers that sent nothing
            ack, owner = ack[sent], owner[sent]
        if not len(ack):
            nothing = np.empty(0, np.int64)
            return cls(nothing, nothing, nothing)
        # Sequence numbers wrap: add up the steps, each less than half the circle.
        number = packets.ack[ack].astype(np.int64)
        new = np.ones(len(owner), np.bool_)
        new[1:] = owner[1:] != owner[:-1]
        step = np.diff(number, prepend=0)
        step[new] = number[new] - base[owner[new]]
        step = ((step + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
        total = np.cumsum(step)
        # The sums of earlier streams are in every later one.
        starts = np.flatnonzero(new)
        total -= np.repeat(
            np.concatenate(([0], total[starts[1:] - 1])),
            np.diff(np.append(starts, len(owner))),
        )
        return cls(
            stream=stream[opens][owner],
            time=running_maximum(owner, packets.time_ns[ack]),
            offset=running_maximum(owner, total),
        )

    def between(self, stream: Indices, early: Times, late: Times) -> tuple[Times, Times]:
        """Stream offsets up to which each stream was acknowledged at two instants."""
        low, high = group_bounds(self.stream, stream)
        first = bisect_right(self.time, low, high, early)
        second = first.copy()
        if len(self.time):  # mostly nothing was acknowledged in between
            following = self.time[np.minimum(first, len(self.time) - 1)]
            more = np.flatnonzero((first < high) & (following <= late))
            second[more] = bisect_right(self.time, first[more], high[more], late[more])
        return self._offset(first - 1, low), self._offset(second - 1, low)

    def _offset(self, found: Indices, low: Indices) -> Times:
        """The offset of these elements; 0 for one in front of `low`."""
        return np.where(found >= low, self.offset[found] if len(self.offset) else 0, 0)


def _delay(sending: Sending, late: Indices, gap: Times, packets: Packets) -> Times:
    """How much longer segments were on their way than the ones before them, by timestamps.

    Args:
        sending: all segments.
        late: those in question, behind a gap.
        gap: the time between them and the ones before.
        packets: all packets.
    """
    low, high = group_bounds(sending.stream, sending.stream[late])
    high -= 1
    span = sending.seen[high] - sending.seen[low]
    first, last, before, behind = (
        sending.packet_no[index] - 1 for index in (low, high, late - 1, late)
    )
    usable = span > 10 * LATE_NS
    for packet in (first, last, before, behind):
        usable &= (packets.options[packet] & HAS_TIMESTAMPS) != 0
    rate = _steps(packets.tsval[first], packets.tsval[last]) * 1e9 / np.maximum(span, 1)
    clock = np.zeros(len(late))
    for hertz in _CLOCKS_HZ:
        # What was late makes the clock look slow.
        clock[(rate > hertz * 0.6) & (rate < hertz * 1.1)] = hertz
    usable &= clock > 0
    paused = _steps(packets.tsval[before], packets.tsval[behind]) * 1e9 / np.maximum(clock, 1)
    delay = np.where(usable, gap - paused.astype(np.int64), 0)
    return np.where(delay > LATE_NS, np.minimum(delay, gap), 0)


def _steps(earlier: NDArray[np.uint32], later: NDArray[np.uint32]) -> NDArray[np.int64]:
    """From one timestamp to another, which wrap at 32 bits."""
    return ((later.astype(np.int64) - earlier + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def end_pauses(pauses: Pauses, sending: Sending) -> None:
    """End pauses where the segment behind them left its server, if it was late on its way."""
    late = np.flatnonzero(sending.left < sending.seen)
    if not len(late):
        return
    place = {
        (connection_no, to_ns): index
        for index, (connection_no, to_ns, from_client) in enumerate(
            zip(
                pauses.connection_no.tolist(),
                pauses.to_ns.tolist(),
                pauses.from_client.tolist(),
                strict=True,
            )
        )
        if not from_client
    }
    for element in late.tolist():
        index = place.get((int(sending.stream[element]) >> 1, int(sending.seen[element])))
        if index is not None:
            pauses.to_ns[index] = max(sending.left[element], pauses.from_ns[index])
