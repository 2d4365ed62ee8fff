"""Reordering beyond the capture point, as the receiver's reports show it.

In a sender's own capture segments are in order. That some overtook others on the way is told by
the receiver: a selective acknowledgement (RFC 2018) says that later bytes are there and earlier
ones not, and then the earlier ones are acknowledged although nobody sent them again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.holes import HOLE_KINDS
from capture_analyzer.pipeline.tcp.coverage import Coverage
from capture_analyzer.pipeline.tcp.resends import Resends
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments
from capture_analyzer.pipeline.tcp.selective import Selective

_CONFIDENCE = 0.9  # the capture may lack the repeat


def reported_holes(
    segments: Segments,
    coverage: Coverage,
    selective: Selective,
    resends: Resends,
    at_receiver: Bools,
) -> list[Ints]:
    """Columns of such holes, from the first report to the acknowledgement.

    Returns:
        As `holes` has them: key, length, kind, opened, filled, opener, filler, confidence.
    """
    element = selective.element
    answer_stream = segments.stream[element]
    stream = answer_stream ^ 1
    begin = segments.acked[element] + stream * SPAN
    # The lowest block behind the acknowledgement; blocks below it repeat (RFC 2883).
    beyond = (selective.left > begin[:, None]) & (selective.right > selective.left)
    end = np.where(beyond, selective.left, np.iinfo(np.int64).max).min(axis=1, initial=2**62)
    rows = np.flatnonzero(beyond.any(axis=1) & ~at_receiver[stream] & (begin >= stream * SPAN))
    # What was never seen to be sent may have been sent again unseen.
    peer = segments.peer[element[rows]]
    rows = rows[(peer >= 0) & (segments.top[np.maximum(peer, 0)] >= end[rows])]
    # Several reports of one hole: the first counts.
    _, first = np.unique(begin[rows], return_index=True)
    rows = rows[first]
    begin, end, opener = begin[rows], end[rows], element[rows]
    there = ~_touched(begin, end, _resent(segments, resends))
    there &= ~_touched(begin, end, (coverage.gap_begin, coverage.gap_end))
    begin, end, opener = begin[there], end[there], opener[there]
    stream = segments.stream[opener] ^ 1

    filler = np.searchsorted(segments.ack_top, end + ((stream ^ 1) - stream) * SPAN)
    answered = filler < len(segments)
    filler = np.minimum(filler, max(len(segments) - 1, 0))
    answered &= segments.stream[filler] == stream ^ 1
    begin, end, opener, filler = (column[answered] for column in (begin, end, opener, filler))
    count = len(begin)
    return [
        begin,
        end - begin,
        np.full(count, HOLE_KINDS.index("reordering")),
        segments.time[opener],
        segments.time[filler],
        opener,
        filler,
        np.full(count, _CONFIDENCE),
    ]


def _resent(segments: Segments, resends: Resends) -> tuple[Ints, Ints]:
    """What was sent again, as keys, by where it begins; the ends as a running maximum."""
    element = resends.element[resends.resent]
    floor = segments.stream[element] * SPAN
    begin, end = segments.begin[element] + floor, segments.end[element] + floor
    order = np.argsort(begin, kind="stable")
    return begin[order], np.maximum.accumulate(end[order])


def _touched(begin: Ints, end: Ints, spans: tuple[Ints, Ints]) -> NDArray[np.bool_]:
    """Whether each [begin, end) shares bytes with any of the sorted spans."""
    begins, ends = spans
    if not len(begins):
        return np.zeros(len(begin), np.bool_)
    at = np.searchsorted(begins, end, "left") - 1
    touched: NDArray[np.bool_] = (at >= 0) & (ends[np.maximum(at, 0)] > begin)
    return touched
