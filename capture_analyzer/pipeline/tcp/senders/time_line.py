"""What limited each sender from its first segment to its last (table `sender_limits`).

In the manner of T-RAT (Zhang et al., SIGCOMM 2002) and Dapper (Ghasemi et al., SOSR 2017), which
work from headers seen anywhere on the path. The time between two segments with new data is
judged by the first of these that fits:

1. *recovery*: a loss was being repaired: from when the receiver lacked it to when it was filled
   (table `holes`), from a sender's last packet to the repeat that its timer sent, and from a
   repeat until its acknowledgement reached the sender; or there was a pause of more than a round
   trip, several segments were in flight, and no acknowledgement came;
2. *receiver_window, congestion_window, nagle*: a wait that table `limits` has; or the next
   segment would not have fitted into the offered window; or it left on an acknowledgement, behind
   a full segment, with several in flight;
3. *sending*: the segments followed each other without a pause, as far as the network's pace
   goes (a quarter of a round trip, while more is in flight);
4. *application*: the one before was not full, or everything was acknowledged, or there was room
   in the receiver's window and no acknowledgement let the next one go;
5. *unknown*.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME, concatenate
from capture_analyzer.model.holes import HOLE_KINDS, Holes
from capture_analyzer.model.limits import LIMIT_NAMES, Limits
from capture_analyzer.model.packets import MECHANISMS, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.sender_limits import (
    SENDER_LIMIT_CODE,
    SENDER_LIMIT_NAMES,
    SenderLimits,
)
from capture_analyzer.pipeline.intervals import bisect_right
from capture_analyzer.pipeline.tcp.limits import Path, fresh_data
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints
from capture_analyzer.pipeline.tcp.senders.view import Elements, View, knowledge, repeats, views

PACE_NS: Final = 1_000_000  # shorter gaps between segments are the sender's own pace
PACE_SHARE: Final = 4
"""Gaps of so much of a round trip, between full segments with others in flight, are the pace of
the network; table `limits` has single waits from there on."""

PROMPT_NS: Final = 2_000_000  # a stack that may go on does so within this

_OF_LIMITS: Final = {
    "zero_window": "receiver_window",
    "window_full": "receiver_window",
    "congestion_window": "congestion_window",
    "idle_restart": "congestion_window",
    "nagle_delayed_ack": "nagle",
    "nagle": "nagle",
}
_LOSS: Final = HOLE_KINDS.index("loss")
_TIMERS: Final = [MECHANISMS.index(name) for name in ("tlp", "rto")]
_CODE: Final = SENDER_LIMIT_CODE
_SURE: Final = 0.9
_FAIR: Final = 0.7
_WEAK: Final = 0.5


@quick_dataclass
class _Spans:
    """Stretches of streams with a limit each; they may overlap."""

    stream: Ints
    begin: Ints
    end: Ints
    limit: NDArray[np.uint8]
    confidence: NDArray[np.float64]


def add_sender_limits(
    table: SenderLimits,
    packets: Packets,
    path: Path,
    holes: Holes,
    limits: Limits,
    numbers: NDArray[np.int64] | None = None,
) -> None:
    """Fill the table.

    Args:
        table: an empty one.
        packets: with labels and mechanisms.
        path: what is known of all streams.
        holes: what receivers had to wait for.
        limits: single waits of senders.
        numbers: of these connections; None = of all.
    """
    parts = [_batch(packets, view, holes, limits) for view in views(packets, path, numbers)]
    table.take(concatenate(SenderLimits, parts))


def _batch(packets: Packets, view: View, holes: Holes, limits: Limits) -> SenderLimits:
    fresh = fresh_data(view.segments)
    if not len(fresh):
        return SenderLimits()
    gaps = _gaps(view, fresh)
    held = (_recoveries(packets, view, holes), _waits(view, limits))
    columns = [
        np.concatenate([getattr(part, field.name) for part in (gaps, *held)])
        for field in dataclasses.fields(_Spans)
    ]
    spans = _Spans(*columns)
    has_data = np.zeros(len(view.segments.counts), np.bool_)
    has_data[view.segments.stream[fresh]] = True
    real = has_data[spans.stream] & (spans.end > spans.begin)
    spans = _Spans(*(getattr(spans, field.name)[real] for field in dataclasses.fields(_Spans)))
    painted = _painted(spans)
    return _table(view, fresh, _joined(_smoothed(view, painted)))


def _gaps(view: View, fresh: Elements) -> _Spans:
    """The time between each two segments of a stream with new data, and what limited it."""
    segments, path = view.segments, view.path
    mine = segments.stream[fresh]
    at = np.flatnonzero(mine[1:] == mine[:-1])
    before, behind, mine = fresh[at], fresh[at + 1], mine[at]
    told, then = knowledge(view, behind), knowledge(view, before)
    time, mss = segments.time, path.mss[mine]
    gap = time[behind] - time[before]
    near, whole = np.where(told.known, path.near[mine], 0), path.whole[mine]
    sent = segments.end[before]
    flight = sent - told.acked
    # Did an acknowledgement that had just reached the sender let it go?
    let_go = (told.heard > then.heard) & (told.acked > then.acked)
    let_go &= time[behind] - near - time[np.maximum(told.heard, 0)] <= PROMPT_NS + near // 16
    full = segments.length[before] >= mss
    # By what it knew when it sent the one before: was there room for another?
    room = then.acked + then.window - sent
    no_room = (then.window >= 0) & (room < mss)
    trip = np.where(whole == NO_TIME, 0, whole)
    pace = np.where(full & (flight > 0), np.maximum(PACE_NS, trip // PACE_SHARE), PACE_NS)
    unheard = (told.acked == then.acked) & (flight >= 2 * mss) & (trip > 0) & (2 * gap > 3 * trip)
    conditions: list[tuple[Bools, str, float]] = [
        (~told.known, "unknown", 0.0),
        (no_room & let_go & full, "receiver_window", _SURE),
        (gap < pace, "sending", _SURE),
        (full & unheard, "recovery", _FAIR),
        (~full | (flight <= 0), "application", _SURE),
        (let_go & (flight + (told.acked - then.acked) >= 2 * mss), "congestion_window", _FAIR),
        (~let_go & (then.window >= 0) & (room >= 2 * mss), "application", _FAIR),
        (~let_go, "application", _WEAK),
    ]
    limit = np.select(
        [condition for condition, _, _ in conditions],
        [np.uint8(_CODE[name]) for _, name, _ in conditions],
        np.uint8(_CODE["unknown"]),
    )
    confidence = np.select(
        [condition for condition, _, _ in conditions], [sure for _, _, sure in conditions], 0.0
    )
    return _Spans(mine, time[before], time[behind], limit.astype(np.uint8), confidence)


def _recoveries(packets: Packets, view: View, holes: Holes) -> _Spans:
    """When losses were being repaired, and when timers were waited for."""
    rows, local = view.rows_of(holes.connection_no)
    use = (holes.kind[rows] == _LOSS) & (holes.filled_ns[rows] != NO_TIME)
    rows, local = rows[use], local[use]
    segments = view.segments
    element = repeats(packets, segments)
    timer = np.isin(packets.mechanism[segments.index[element]], _TIMERS)
    answered = _answered(view, element)
    # A timer ran since the last packet before the repeat.
    timer &= element > segments.starts[segments.stream[element]]
    begin = segments.time[np.where(timer, element - 1, element)]
    stream = np.concatenate((2 * local + ~holes.from_client[rows], segments.stream[element]))
    return _Spans(
        stream.astype(np.int64),
        np.concatenate((holes.opened_ns[rows], begin)),
        np.concatenate((holes.filled_ns[rows], np.maximum(answered, segments.time[element]))),
        np.full(len(stream), _CODE["recovery"], np.uint8),
        np.concatenate((holes.confidence[rows].astype(float), np.full(len(element), _SURE))),
    )


def _answered(view: View, elements: Elements) -> Ints:
    """When what a sender does on the acknowledgement of each element passes; 0 = it never came."""
    segments = view.segments
    mine = segments.stream[elements]
    answer = np.searchsorted(segments.ack_top, segments.end[elements] + (mine ^ 1) * SPAN)
    there = answer < len(segments)
    answer = np.minimum(answer, len(segments) - 1)
    there &= segments.stream[answer] == (mine ^ 1)
    # What was acknowledged before: any sign of the peer that came behind it.
    sign = np.where(
        segments.peer[elements] >= 0, segments.peer[elements] + 1, segments.starts[mine ^ 1]
    )
    answer = np.maximum(answer, np.minimum(sign, len(segments) - 1))
    there &= segments.stream[answer] == (mine ^ 1)
    near = np.where(view.path.near[mine] == NO_TIME, 0, view.path.near[mine])
    return np.where(there, segments.time[answer] + near, 0)


def _waits(view: View, limits: Limits) -> _Spans:
    """The single waits of table `limits`."""
    rows, local = view.rows_of(limits.connection_no)
    codes = np.array([_CODE[_OF_LIMITS[name]] for name in LIMIT_NAMES], np.uint8)
    return _Spans(
        (2 * local + ~limits.from_client[rows]).astype(np.int64),
        limits.from_ns[rows],
        limits.to_ns[rows],
        codes[limits.kind[rows]],
        limits.confidence[rows].astype(float),
    )


def _painted(spans: _Spans) -> _Spans:
    """The strongest limit at every instant: stretches that touch, by stream and time."""
    count = len(spans.stream)
    streams = np.concatenate((spans.stream, spans.stream))
    times = np.concatenate((spans.begin, spans.end))
    order = np.lexsort((times, streams))
    new = np.ones(2 * count, np.bool_)
    new[1:] = streams[order][1:] != streams[order][:-1]
    new[1:] |= times[order][1:] != times[order][:-1]
    position = np.empty(2 * count, np.int64)
    position[order] = np.cumsum(new) - 1
    stream, time = streams[order][new], times[order][new]
    limit = np.zeros(len(time), np.uint8)
    confidence = np.zeros(len(time))
    for code in range(1, len(SENDER_LIMIT_NAMES)):  # the strongest writes last
        mine = np.flatnonzero(spans.limit == code)
        if not len(mine):
            continue
        begin, end = position[mine], position[mine + count]
        depth = np.zeros(len(time) + 1, np.int64)
        np.add.at(depth, begin, 1)
        np.subtract.at(depth, end, 1)
        covered = np.flatnonzero(np.cumsum(depth[:-1]) > 0)
        limit[covered] = code
        # What a piece is worth: that of the span that began last before it.
        by_begin = np.argsort(begin, kind="stable")
        last = np.searchsorted(begin[by_begin], covered, "right") - 1
        confidence[covered] = spans.confidence[mine[by_begin[last]]]
    piece = np.flatnonzero(stream[1:] == stream[:-1])
    return _Spans(stream[piece], time[piece], time[piece + 1], limit[piece], confidence[piece])


def _smoothed(view: View, pieces: _Spans) -> _Spans:
    """A flight between two waits for one window belongs to the window."""
    pieces = _joined(pieces)
    stream, limit = pieces.stream, pieces.limit.copy()
    if len(limit) < 3:
        return pieces
    whole = view.path.whole[stream]
    trip = np.where(whole == NO_TIME, 0, whole)
    inner = (limit == _CODE["sending"]) & (pieces.end - pieces.begin <= trip)
    windows = np.isin(limit, [_CODE[name] for name in ("receiver_window", "congestion_window")])
    between = np.zeros(len(limit), np.bool_)
    between[1:-1] = inner[1:-1] & windows[:-2] & (limit[:-2] == limit[2:])
    between[1:-1] &= (stream[:-2] == stream[1:-1]) & (stream[2:] == stream[1:-1])
    rows = np.flatnonzero(between)
    limit[rows] = limit[rows - 1]
    confidence = pieces.confidence.copy()
    confidence[rows] = np.minimum(confidence[rows], confidence[rows - 1])
    return dataclasses.replace(pieces, limit=limit, confidence=confidence)


def _joined(pieces: _Spans) -> _Spans:
    """Neighbouring stretches of one limit as one, as certain as their mean by time."""
    if not len(pieces.stream):
        return pieces
    new = np.ones(len(pieces.stream), np.bool_)
    new[1:] = (pieces.stream[1:] != pieces.stream[:-1]) | (pieces.limit[1:] != pieces.limit[:-1])
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(new)) - 1
    weight = (pieces.end - pieces.begin).astype(float)
    sums = np.add.reduceat(weight * pieces.confidence, first)
    return _Spans(
        pieces.stream[first],
        pieces.begin[first],
        pieces.end[last],
        pieces.limit[first],
        sums / np.add.reduceat(weight, first),
    )


def _table(view: View, fresh: Elements, pieces: _Spans) -> SenderLimits:
    segments = view.segments
    stream = segments.stream[fresh]
    time = segments.time[fresh]
    new = segments.end[fresh] - np.maximum(segments.begin[fresh], segments.before[fresh])
    total = np.append(0, np.cumsum(new))
    # Sorted by stream already; within a stream by capture order, which is time save for errors.
    low = np.searchsorted(stream, pieces.stream, "left")
    high = np.searchsorted(stream, pieces.stream, "right")
    begun = bisect_right(time, low, high, pieces.begin)
    ended = bisect_right(time, low, high, pieces.end)
    packet = np.append(segments.index[fresh] + 1, 0).astype(np.int32)
    return SenderLimits(
        connection_no=view.numbers[pieces.stream // 2],
        from_client=pieces.stream % 2 == 0,
        limit=pieces.limit,
        from_ns=pieces.begin,
        to_ns=pieces.end,
        from_packet_no=packet[np.maximum(begun - 1, low)],
        to_packet_no=packet[np.maximum(ended - 1, low)],
        bytes=total[ended] - total[begun],
        confidence=np.where(pieces.limit == _CODE["unknown"], 0.0, pieces.confidence).astype(
            np.float32
        ),
    )
