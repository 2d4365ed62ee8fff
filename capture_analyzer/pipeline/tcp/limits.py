"""What held senders back (table `limits`): windows, the congestion window, Nagle's algorithm.

All three are seen as a sender that stops with something left to send and goes on the moment
that an acknowledgement reaches it. That moment is, seen from anywhere, one round trip between
the capture point and the sender before its next segment passes; so the same rules serve for a
capture at the sender (where that round trip is next to nothing), at the receiver and between.

=================  ====================================================================
zero_window        the receiver said 0, and data or probes were waiting for the update
window_full        what was sent had come within a segment of the offered window's edge
congestion_window  it had not, and more than that acknowledgement freed was still in flight
idle_restart       likewise, with fewer in flight than the sender had before an idle time
nagle...           see `pipeline.tcp.nagle`
=================  ====================================================================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME, concatenate
from capture_analyzer.model.limits import LIMIT_CODE, Limits
from capture_analyzer.model.packets import (
    ACK,
    HAS_MSS,
    HAS_TIMESTAMPS,
    HAS_WINDOW_SCALE,
    RST,
    SYN,
    Packets,
)
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.intervals import bisect_right
from capture_analyzer.pipeline.tcp.handshake import Handshakes
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments

_COMMON_MSS: Final = 1460  # Ethernet's, where no SYN was captured
_LEAST_UNKNOWN_MSS: Final = 1000
_TIMESTAMP_BYTES: Final = 12  # of a segment's room, where both sides use them (RFC 7323)
_MAX_SHIFT: Final = 14  # RFC 7323, section 2.3

_LEAST_GAP_NS: Final = 1_000_000
"""Shorter gaps between segments are the sender's own pace, not a wait."""

_PROMPT_NS: Final = 2_000_000  # a stack that may go on does so within this
_IDLE_NS: Final = 200_000_000
"""What a sender's retransmission timer has above the round trip at least (Linux): after so
long without sending it starts over (RFC 5681, section 4.1)."""

_IDLE_SEGMENTS: Final = 10  # with which it starts over at most (RFC 6928)
_RECENT_NS: Final = 1_000_000_000


@quick_dataclass
class Path:
    """What is known of the streams of a batch, one element a stream.

    Attributes:
        first_connection: number of the batch's first connection.
        mss: payload of a full segment.
        scale: shift of the windows that its sender offers; -1 = unknown.
        near: smallest round trip between the capture point and its sender; NO_TIME unknown.
    """

    first_connection: int
    mss: Ints
    scale: Ints
    near: Ints

    @classmethod
    def nothing(cls) -> Path:
        """Of no streams."""
        return cls(0, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Path]) -> Path:
        """Of the streams of all batches, in order."""
        if not parts:
            return cls.nothing()
        return cls(
            0,
            np.concatenate([part.mss for part in parts]),
            np.concatenate([part.scale for part in parts]),
            np.concatenate([part.near for part in parts]),
        )

    @property
    def far(self) -> Ints:
        """Smallest round trip between the capture point and its receiver."""
        other: Ints = self.near[np.arange(len(self.near)) ^ 1]
        return other

    @property
    def whole(self) -> Ints:
        """Both together; NO_TIME where one is unknown."""
        far = self.far
        known = (self.near != NO_TIME) & (far != NO_TIME)
        return np.where(known, np.where(known, self.near, 0) + far, NO_TIME)


def path_of(
    packets: Packets,
    segments: Segments,
    handshakes: Handshakes,
    near: Ints,
    first: int,
    last: int,
) -> Path:
    """Collect it for the connections first .. last - 1."""
    mss = np.zeros(2 * (last - first), np.int64)
    scale = np.zeros_like(mss)
    client, server = handshakes.client_options[first:last], handshakes.server_options[first:last]
    options = packets.options
    stamped = (client >= 0) & (server >= 0)
    stamped &= (options[client] & options[server] & HAS_TIMESTAMPS) != 0
    unscaled = np.zeros(last - first, np.bool_)
    for own in (client, server):
        unscaled |= (own >= 0) & ((options[own] & HAS_WINDOW_SCALE) == 0)
    for way, own, other in ((0, client, server), (1, server, client)):
        shift = np.minimum(packets.window_scale[own], _MAX_SHIFT).astype(np.int64)
        scale[way::2] = np.where(own >= 0, np.where(unscaled, 0, shift), -1)
        told = (other >= 0) & ((options[other] & HAS_MSS) != 0)
        size = packets.mss[other].astype(np.int64) - np.where(stamped, _TIMESTAMP_BYTES, 0)
        mss[way::2] = np.where(told, np.maximum(size, 1), 0)
    some = np.flatnonzero(segments.counts)
    longest = np.zeros_like(mss)
    if len(some):
        longest[some] = np.maximum.reduceat(segments.length, segments.starts[some])
    guess = np.clip(longest, _LEAST_UNKNOWN_MSS, _COMMON_MSS)
    return Path(first, np.where(mss > 0, mss, guess), scale, near)


def fresh_data(segments: Segments) -> NDArray[np.intp]:
    """Elements that bring data for the first time, in order, each beyond all before it."""
    elements: NDArray[np.intp] = np.flatnonzero(
        segments.carries & (segments.length > 0) & (segments.end > segments.before)
    )
    return elements


def find_limits(
    segments: Segments, path: Path, probes: NDArray[np.intp], fresh: NDArray[np.intp]
) -> Limits:
    """Stretches in which windows held a sender back.

    Args:
        segments: a batch.
        path: what is known of its streams.
        probes: its zero-window probes.
        fresh: its elements with new data.
    """
    if not len(fresh):
        return Limits()
    closed = _zero_windows(segments, path, probes, fresh)
    return concatenate(Limits, [closed, _used_up(segments, path, fresh, closed)])


def sorted_rows(limits: Limits) -> Limits:
    """Rows by connection, then time; ties by direction and kind."""
    columns = (limits.kind, limits.from_client, limits.from_ns, limits.connection_no)
    order = np.lexsort(columns)
    fields = dataclasses.fields(Limits)
    return Limits(**{field.name: getattr(limits, field.name)[order] for field in fields})


def table(
    segments: Segments,
    path: Path,
    kind: str | NDArray[np.uint8],
    before: NDArray[np.intp],
    freed: NDArray[np.intp],
    behind: NDArray[np.intp],
    from_ns: Ints,
    to_ns: Ints,
    in_flight: Ints,
    confidence: NDArray[np.float64] | float,
) -> Limits:
    """Rows by elements: the last segment before, what let go, the next; -1 = none."""
    stream = segments.stream[before]
    count = len(before)

    def packet(elements: NDArray[np.intp]) -> NDArray[np.int32]:
        return np.where(elements >= 0, segments.index[elements] + 1, 0).astype(np.int32)

    return Limits(
        connection_no=(stream // 2 + path.first_connection).astype(np.int32),
        from_client=stream % 2 == 0,
        kind=np.full(count, LIMIT_CODE[kind], np.uint8) if isinstance(kind, str) else kind,
        from_ns=from_ns,
        to_ns=to_ns,
        from_packet_no=packet(before),
        to_packet_no=packet(behind),
        freed_packet_no=packet(freed),
        in_flight_bytes=in_flight,
        confidence=np.broadcast_to(np.asarray(confidence, np.float32), count).copy(),
    )


def _zero_windows(
    segments: Segments, path: Path, probes: NDArray[np.intp], fresh: NDArray[np.intp]
) -> Limits:
    """From the last segment that a receiver had room for to the first after it had again."""
    offers = (segments.flags & (ACK | SYN | RST)) == ACK
    closed = np.flatnonzero(offers & (segments.window == 0))
    if not len(closed):
        return Limits()
    # Of each run of offers of 0 in a stream, the first; and the offer that ended it.
    offering = np.flatnonzero(offers)
    place = np.searchsorted(offering, closed)
    earlier = offering[np.maximum(place - 1, 0)]
    again = (place > 0) & (segments.stream[earlier] == segments.stream[closed])
    again &= segments.window[earlier] == 0
    closed = closed[~again]
    open_ = np.flatnonzero(offers & (segments.window > 0))
    opener = _next_of_stream(segments, open_, closed)
    end_of_stream = segments.starts + segments.counts - 1
    receiver = segments.stream[closed]
    sender = receiver ^ 1
    last = np.where(opener >= 0, opener, end_of_stream[receiver])

    # The sender's last new data before the window opened, and its first behind that.
    time = segments.time
    at = np.searchsorted(fresh, segments.peer[last], "right")
    before = fresh[np.maximum(at - 1, 0)]
    there = (at > 0) & (segments.stream[before] == sender)
    behind = np.where(at < len(fresh), fresh[np.minimum(at, len(fresh) - 1)], -1)
    resumed = (behind >= 0) & (opener >= 0) & (segments.stream[np.maximum(behind, 0)] == sender)
    near = np.maximum(path.near[sender], 0)
    waited = np.where(resumed, time[np.maximum(behind, 0)] - time[last] - near, 0)
    prompt = resumed & (waited <= _PROMPT_NS + near // 2)
    probed = np.searchsorted(probes, segments.peer[last], "right") > np.searchsorted(
        probes, np.maximum(segments.peer[closed], 0), "left"
    )
    probed &= len(probes) > 0
    use = there & (prompt | probed)
    closed, opener, before, behind = closed[use], opener[use], before[use], behind[use]
    prompt, last = prompt[use], last[use]
    # A sender that had long been silent was not held up by the window at that time.
    begin = np.maximum(time[before], time[closed] - _RECENT_NS)
    end = np.where(prompt, time[behind], time[last])
    flight = segments.end[before] - (segments.ack_top[closed] - segments.stream[closed] * SPAN)
    keep = end > begin
    return table(
        segments,
        path,
        "zero_window",
        before[keep],
        opener[keep],
        np.where(prompt, behind, -1)[keep],
        begin[keep],
        end[keep],
        np.maximum(flight, 0)[keep],
        0.95,
    )


def _next_of_stream(
    segments: Segments, candidates: NDArray[np.intp], elements: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The first of the ascending candidates behind each element, in its stream; -1 = none."""
    if not len(candidates):
        return np.full(len(elements), -1)
    at = np.searchsorted(candidates, elements, "right")
    found = candidates[np.minimum(at, len(candidates) - 1)]
    same = (at < len(candidates)) & (segments.stream[found] == segments.stream[elements])
    return np.where(same, found, -1)


def _used_up(segments: Segments, path: Path, fresh: NDArray[np.intp], closed: Limits) -> Limits:
    """Gaps between full segments that an acknowledgement ended."""
    if len(fresh) < 2:
        return Limits()
    before, behind = fresh[:-1], fresh[1:]
    time, stream = segments.time, segments.stream
    gap = time[behind] - time[before]
    chosen = np.flatnonzero(gap >= _LEAST_GAP_NS)
    before, behind, gap = before[chosen], behind[chosen], gap[chosen]
    mine = stream[before]
    near, whole = path.near[mine], path.whole[mine]
    full = segments.length[before] >= path.mss[mine]
    use = (stream[behind] == mine) & full & (whole != NO_TIME)
    # A wait for an acknowledgement takes a round trip, less the time that the flight itself
    # took; one that lasts for several was something else.
    use &= (gap >= whole // 4) & (gap <= 2 * whole + _IDLE_NS)
    kept = np.flatnonzero(use)
    before, behind, gap, mine = before[kept], behind[kept], gap[kept], mine[kept]
    near, whole = near[kept], whole[kept]
    if not len(before):
        return Limits()

    # When the sender must have heard: one round trip to it before its next segment.
    heard = time[behind] - near
    slack = np.minimum(_PROMPT_NS + near // 16, gap // 3)
    other = mine ^ 1
    low, high = segments.starts[other], segments.starts[other] + segments.counts[other]
    at = bisect_right(time, low, high, heard + _PROMPT_NS // 4 + near // 32)
    freed = at - 1
    use = (at > low) & (time[np.maximum(freed, 0)] >= heard - slack)
    before, behind, mine, freed, heard = (
        column[use] for column in (before, behind, mine, freed, heard)
    )
    low, slack, whole = low[use], slack[use], whole[use]
    other = mine ^ 1
    # What it knew until then.
    known = bisect_right(time, low, freed, heard - slack) - 1
    use = known >= low
    before, behind, mine, freed, known, whole = (
        column[use] for column in (before, behind, mine, freed, known, whole)
    )
    if not len(before):
        return Limits()
    other = mine ^ 1
    acked = segments.ack_top[known] - other * SPAN
    now_acked = segments.ack_top[freed] - other * SPAN
    sent = segments.end[before]
    flight = sent - acked
    edge, now_edge = (
        _edges(segments, path, other, known, acked),
        _edges(segments, path, other, freed, now_acked),
    )
    known_scale = path.scale[other] >= 0
    fits = path.mss[mine]
    window_full = known_scale & (edge - sent < fits) & (now_edge > edge)
    window_full &= segments.end[behind] <= now_edge + fits
    # The first acknowledgement of a flight lets the next segment go; most is still on its way.
    first = np.minimum(np.searchsorted(segments.ack_top, segments.ack_top[known] + 1), freed)
    congestion = ~window_full & (now_acked > acked) & (flight >= 2 * fits)
    congestion &= segments.ack_top[first] - other * SPAN < sent
    kind = np.where(window_full, LIMIT_CODE["window_full"], LIMIT_CODE["congestion_window"])
    kind = kind.astype(np.uint8)
    freed = np.where(congestion, first, freed)
    use = window_full | congestion
    restart = _after_idle(segments, path, fresh, closed, before, flight, mine) & congestion
    kind[restart] = LIMIT_CODE["idle_restart"]
    confidence = np.where(window_full, 0.9, np.where(known_scale, 0.8, 0.6))
    return table(
        segments,
        path,
        kind[use],
        before[use],
        freed[use],
        behind[use],
        time[before[use]],
        time[behind[use]],
        flight[use],
        confidence[use],
    )


def _edges(
    segments: Segments, path: Path, stream: Ints, elements: NDArray[np.intp], acked: Ints
) -> Ints:
    """The right edge of the window that each element's sender offers, as offset of its peer.

    It never moves back (RFC 9293, section 3.8.6), so an element that acknowledges less than one
    before it offers at least as much; that is left out of account.
    """
    shift = np.maximum(path.scale[stream], 0)
    shift[(segments.flags[elements] & SYN) != 0] = 0  # a SYN's own window is never scaled
    window: Ints = segments.window[elements].astype(np.int64) << shift
    return acked + window


def _after_idle(
    segments: Segments,
    path: Path,
    fresh: NDArray[np.intp],
    closed: Limits,
    before: NDArray[np.intp],
    flight: Ints,
    mine: Ints,
) -> Bools:
    """Which gaps come from a start over: behind an idle time, with less in flight than before it.

    Args:
        segments: a batch.
        path: what is known of its streams.
        fresh: its elements with new data.
        closed: its windows of 0, which are no idle times.
        before: the element before each gap, ascending.
        flight: what was in flight in each gap.
        mine: the stream of each gap.
    """
    time, stream = segments.time, segments.stream
    if not len(before):
        return np.zeros(0, np.bool_)
    long = np.flatnonzero(time[fresh[1:]] - time[fresh[:-1]] > _IDLE_NS)
    ends, starts = fresh[long], fresh[long + 1]
    idle = stream[ends] == stream[starts]
    idle &= time[starts] - time[ends] > np.maximum(path.whole[stream[starts]], 0) * 2 + _IDLE_NS
    starts = starts[idle]
    starts = starts[~np.isin(segments.index[starts] + 1, closed.to_packet_no)]
    at = np.searchsorted(starts, before, "right") - 1
    start = np.where(at >= 0, starts[np.maximum(at, 0)] if len(starts) else 0, -1)
    start[(start >= 0) & (stream[np.maximum(start, 0)] != mine)] = -1
    result = np.zeros(len(before), np.bool_)
    candidates = np.flatnonzero(start >= 0)
    if not len(candidates):
        return result
    # The most in flight that a stream ever waited with, up to its last idle time.
    most: dict[int, tuple[int, int, int]] = {}  # stream → (most, most since start, start)
    wanted = np.zeros(len(segments.counts), np.bool_)
    wanted[mine[candidates]] = True
    concerned = np.flatnonzero(wanted[mine])
    rows = (column[concerned].tolist() for column in (mine, start, flight))
    limit = (path.mss * _IDLE_SEGMENTS).tolist()
    restarts: list[int] = []
    for row, of, begin, bytes_ in zip(concerned.tolist(), *rows, strict=True):
        before_idle, since, last_start = most.get(of, (0, 0, -1))
        if begin != last_start:
            before_idle, since = max(before_idle, since), 0
        first_flight = since == 0
        since = max(since, bytes_)
        most[of] = (before_idle, since, begin)
        if begin < 0 or bytes_ >= before_idle:
            continue
        # The first flight shows that it did start over; later ones grow from there.
        if first_flight and bytes_ > limit[of]:
            most[of] = (before_idle, before_idle, begin)
            continue
        if since < before_idle:
            restarts.append(row)
    result[restarts] = True
    return result
