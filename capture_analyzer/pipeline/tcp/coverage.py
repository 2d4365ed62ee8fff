"""Which bytes of a stream each segment brought for the first time, and the holes between.

A segment either brings bytes beyond everything before (nearly all do), or lies below. When
one begins beyond the next expected byte, a gap opens; gaps of a stream are disjoint and
ascending by construction, so what lies below is matched to them by binary search. Only
segments that fall into a gap need closer looks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import distinct, in_rows
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.tcp.segments import SPAN, Ints, Segments

MAX_GAPS_A_SEGMENT: Final = 64
"""Gaps that one segment is allowed to fill; a 64 KiB segment over thousands of one-byte gaps
would otherwise cost quadratic time. What it would fill beyond stays a gap."""

MAX_PIECES_A_GAP: Final = 4096
"""Pieces kept of one gap that is filled by partly overlapping segments; likewise."""


@quick_dataclass
class Coverage:
    """Bytes of a batch's streams, each once, and the gaps.

    Offsets are keys: stream offset plus stream · SPAN.

    Attributes:
        piece_element, piece_begin, piece_end: new bytes by stream and offset: the element
            of Segments that brought them, and their keys.
        gap_begin, gap_end: keys of every gap that ever opened, ascending.
        gap_opener: the element that opened it (the first one beyond).
        gap_missing: bytes of it that never came.
        gap_filler: the last element that filled some of it; -1 = none.
        below: elements with payload below the next expected offset.
        below_new: how many bytes each of them brought for the first time.
        below_gap: the first gap each of them fell into; -1 = none.
    """

    piece_element: NDArray[np.intp]
    piece_begin: Ints
    piece_end: Ints
    gap_begin: Ints
    gap_end: Ints
    gap_opener: NDArray[np.intp]
    gap_missing: Ints
    gap_filler: Ints
    below: NDArray[np.intp]
    below_new: Ints
    below_gap: Ints


def cover(segments: Segments) -> Coverage:
    """Work out first copies and gaps of a batch."""
    data = segments.carries & (segments.length > 0)
    elements = np.flatnonzero(data & (segments.end > segments.before))
    begin, before = segments.begin[elements], segments.before[elements]
    floor = segments.stream[elements] * SPAN
    piece_begin = np.maximum(begin, before) + floor
    piece_end = segments.end[elements] + floor
    # A bare FIN shows a gap before it as well as data does.
    jumps = np.flatnonzero(segments.carries & (segments.begin > segments.before))
    gap_begin = segments.before[jumps] + segments.stream[jumps] * SPAN
    gap_end = segments.begin[jumps] + segments.stream[jumps] * SPAN
    below = np.flatnonzero(data & (segments.begin < segments.before))
    # What lies before offset 0 is no stream data, save where the capture began later.
    real = np.maximum(segments.begin[below], 0) < segments.before[below]
    real &= segments.end[below] > 0
    below = below[real | (segments.mid[segments.stream[below]] & (segments.end[below] <= 0))]
    coverage = Coverage(
        piece_element=elements,
        piece_begin=piece_begin,
        piece_end=piece_end,
        gap_begin=gap_begin,
        gap_end=gap_end,
        gap_opener=jumps,
        gap_missing=gap_end - gap_begin,
        gap_filler=np.full(len(jumps), -1),
        below=below,
        below_new=np.zeros(len(below), np.int64),
        below_gap=np.full(len(below), -1),
    )
    if len(below) and len(jumps):
        _fill(segments, coverage)
    return coverage


def _in_gaps(segments: Segments, coverage: Coverage) -> list[Ints]:
    """What of each segment below falls into which gap, in no order.

    Writes ``coverage.below_gap``.

    Returns:
        Columns: the gap, the row of `below`, begin and end (keys).
    """
    below = coverage.below
    floor = segments.stream[below] * SPAN
    begin = np.maximum(segments.begin[below], 0) + floor
    end = np.minimum(segments.end[below], segments.before[below]) + floor
    first = np.searchsorted(coverage.gap_end, begin, "right")
    last = np.searchsorted(coverage.gap_begin, end, "left")
    count = np.clip(last - first, 0, MAX_GAPS_A_SEGMENT)
    count[end <= begin] = 0
    hit = np.flatnonzero(count)
    coverage.below_gap[hit] = first[hit]
    source = np.repeat(hit, count[hit])
    within = np.arange(len(source)) - np.repeat(np.cumsum(count[hit]) - count[hit], count[hit])
    gap = first[source] + within
    piece_begin = np.maximum(begin[source], coverage.gap_begin[gap])
    piece_end = np.minimum(end[source], coverage.gap_end[gap])
    return [gap, source, piece_begin, piece_end]


def _fill(segments: Segments, coverage: Coverage) -> None:
    """Find out what segments below brought for the first time."""
    below = coverage.below
    gap, source, piece_begin, piece_end = _in_gaps(segments, coverage)
    if not len(gap):
        return
    order = np.lexsort((source, piece_begin, gap))
    gap, source = gap[order], source[order]
    piece_begin, piece_end = piece_begin[order], piece_end[order]
    same = gap[1:] == gap[:-1]
    repeated = same & (piece_begin[1:] == piece_begin[:-1]) & (piece_end[1:] == piece_end[:-1])
    tangled = same & ~repeated & (piece_begin[1:] < piece_end[:-1])
    keep = np.concatenate(([True], ~repeated))
    if tangled.any():
        odd_gaps = distinct(gap[1:][tangled])
        odd = np.isin(gap, odd_gaps)
        columns = _untangle(gap[odd], source[odd], piece_begin[odd], piece_end[odd])
        keep &= ~odd
        gap = np.concatenate((gap[keep], columns[0]))
        source = np.concatenate((source[keep], columns[1]))
        piece_begin = np.concatenate((piece_begin[keep], columns[2]))
        piece_end = np.concatenate((piece_end[keep], columns[3]))
        order = np.argsort(piece_begin, kind="stable")
        gap, source = gap[order], source[order]
        piece_begin, piece_end = piece_begin[order], piece_end[order]
    else:
        gap, source = gap[keep], source[keep]
        piece_begin, piece_end = piece_begin[keep], piece_end[keep]

    size = piece_end - piece_begin
    np.add.at(coverage.below_new, source, size)
    np.subtract.at(coverage.gap_missing, gap, size)
    np.maximum.at(coverage.gap_filler, gap, below[source])
    at = np.searchsorted(coverage.piece_begin, piece_begin)
    coverage.piece_element = np.insert(coverage.piece_element, at, below[source])
    coverage.piece_begin = np.insert(coverage.piece_begin, at, piece_begin)
    coverage.piece_end = np.insert(coverage.piece_end, at, piece_end)


def _untangle(gap: Ints, source: Ints, begin: Ints, end: Ints) -> list[Ints]:
    """First copies among partly overlapping pieces: whoever came first keeps its bytes."""
    rows: list[tuple[int, int, int, int]] = []
    order = np.lexsort((begin, source, gap))  # by gap, then time
    current = -1
    starts: list[int] = []
    ends: list[int] = []
    columns = (gap[order], source[order], begin[order], end[order])
    for gap_no, element, low, high in in_rows(*columns):
        if gap_no != current:
            current, starts, ends = gap_no, [], []
        if len(starts) > MAX_PIECES_A_GAP:
            continue
        # Kept pieces [first:last] touch or overlap this one; they become one.
        first, last = bisect_left(ends, low), bisect_right(starts, high)
        at = low
        for i in range(first, last):
            if starts[i] > at:
                rows.append((gap_no, element, at, starts[i]))
            at = max(at, ends[i])
        if at < high:
            rows.append((gap_no, element, at, high))
        joined_low = min(low, starts[first]) if first < last else low
        joined_high = max(high, ends[last - 1]) if first < last else high
        starts[first:last] = [joined_low]
        ends[first:last] = [joined_high]
    table = np.array(rows, np.int64).reshape(-1, 4)
    return [table[:, i] for i in range(4)]
