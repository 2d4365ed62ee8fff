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
from capture_analyzer.pipeline.lists import stable_order
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

    def holding(self, stream: Indices, offset: Times) -> Indices:
        """The elements that hold these bytes; -1 where the capture lacks them."""
        low, high = group_bounds(self.stream, stream)
        found = bisect_right(self.start, low, high, offset) - 1
        real = found >= low
        real[real] = offset[real] < self.end[found[real]]
        return np.where(real, found, -1)

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
    first = np.cumsum(counts) - counts
    element = np.arange(len(stream)) + np.repeat(streams.bounds[numbers] - first, counts)
    sending = Sending(
        stream=stream,
        start=streams.starts[element],
        end=streams.starts[element] + streams.lengths[element],
        seen=streams.seen_ns[element],
        left=streams.seen_ns[element].copy(),
        packet_no=streams.packet_nos[element],
        free=np.zeros(len(stream), np.bool_),
    )
    if len(stream):
        _judge(sending, streams, element, packets, links, holes)
    return sending


def _judge(
    sending: Sending,
    streams: Streams,
    element: Indices,
    packets: Packets,
    links: Links,
    holes: Holes,
) -> None:
    """Fill in `free` and `left`."""
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
    acked = _Acknowledged.of(streams, element, packets, stream)
    slack = JITTER_NS + beyond // 10
    surely, perhaps = acked.between(
        stream[fresh], seen[fresh] - beyond - slack, seen[fresh] - beyond + slack
    )
    earlier = fresh - FEW_SEGMENTS
    few = (earlier < bounds[place - 1]) | (sending.end[np.maximum(earlier, 0)] <= surely)
    few &= seen[fresh] - _last_repair(holes, stream[fresh], seen[fresh]) > (
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


def _last_repair(holes: Holes, stream: Indices, times: Times) -> Times:
    """When the last loss of each stream before an instant was repaired; long ago if never."""
    lost = np.flatnonzero((holes.kind == _LOSS) & (holes.filled_ns != NO_TIME))
    owner = 2 * holes.connection_no[lost].astype(np.int64) + ~holes.from_client[lost]
    order = np.lexsort((holes.filled_ns[lost], owner))
    owner, filled = owner[order], holes.filled_ns[lost[order]]
    low, high = group_bounds(owner, stream)
    found = bisect_right(filled, low, high, times) - 1
    never = np.iinfo(np.int64).min // 4
    if not len(filled):
        return np.full(len(stream), never)
    return np.where(found >= low, filled[found], never)


@quick_dataclass
class _Acknowledged:
    """How far the clients had acknowledged: one element an acknowledgement, by stream, time."""

    stream: Indices
    time: Times
    offset: Times  # the highest so far

    @classmethod
    def of(
        cls, streams: Streams, element: Indices, packets: Packets, stream: Indices
    ) -> _Acknowledged:
        """Read them off the clients' packets.

        Args:
            streams: the bytes of all connections.
            element: chunks of `streams`.
            packets: all packets.
            stream: the stream of each element, ascending.
        """
        opens = np.flatnonzero(np.concatenate(([True], stream[1:] != stream[:-1])))
        first = element[opens]
        packet = streams.packet_nos[first] - 1
        skipped = streams.buffer_offsets[first] - packets.payload_offset[packet]
        skipped += (packets.flags[packet] & SYN) != 0
        base = packets.seq[packet].astype(np.int64) + skipped - streams.starts[first]
        place = np.full(len(streams) // 2 + 1, -1, np.int32)  # the last: of no connection
        place[stream[opens] >> 1] = np.arange(len(opens))
        client = (packets.from_client == 1) & ((packets.flags & ACK) != 0)
        chosen = np.flatnonzero(client & (place >= 0)[packets.connection_no])
        owner = place[packets.connection_no[chosen]]
        if not len(chosen):
            nothing = np.empty(0, np.int64)
            return cls(nothing, nothing, nothing)
        order = stable_order(owner)
        chosen, owner = chosen[order], owner[order]
        # Sequence numbers wrap: add up the steps, each less than half the circle.
        number = packets.ack[chosen].astype(np.int64)
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
            time=running_maximum(owner, packets.time_ns[chosen]),
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
