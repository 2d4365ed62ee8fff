"""Holes: what a receiver had to wait for (table `holes`)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.holes import HOLE_KINDS, Holes
from capture_analyzer.pipeline.tcp.coverage import Coverage
from capture_analyzer.pipeline.tcp.needless import VERDICT
from capture_analyzer.pipeline.tcp.overtaken import reported_holes
from capture_analyzer.pipeline.tcp.resends import Resends
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments
from capture_analyzer.pipeline.tcp.selective import Selective

_LOSS = HOLE_KINDS.index("loss")
_REORDERING = HOLE_KINDS.index("reordering")
_CAPTURE = HOLE_KINDS.index("capture")

_PROBE_NS: Final = 200_000_000
"""What a sender adds to two round trips before it probes for a lost single segment (RFC 8985,
section 7.2: the longest delay of an acknowledgement)."""


def find_holes(
    segments: Segments,
    coverage: Coverage,
    selective: Selective,
    resends: Resends,
    first_connection: int,
    at_receiver: Bools,
    round_trip: Ints,
) -> Holes:
    """Holes of a batch.

    A gap in what was captured is a hole before the capture point: lost or overtaken, or, if
    the receiver acknowledged bytes that never passed, missed by the capture. Bytes that
    passed and were sent again because they were lost are a hole beyond the capture point,
    from their first sending to the last repeat. A lost tail is one too, as long as the
    sender's timer must have waited at least. What the receiver reported missing, and then
    acknowledged though nobody sent it again, was overtaken beyond the capture point.

    Args:
        segments: a batch.
        coverage: its coverage.
        selective: its selective acknowledgements.
        resends: its segments sent again or overtaken.
        first_connection: number of its first connection.
        at_receiver: for each stream: captured at its receiver.
        round_trip: for each stream, smallest round trip of the whole path; NO_TIME unknown.
    """
    kinds = (
        _gaps(segments, coverage, resends),
        _beyond(segments, resends, at_receiver),
        _tails(segments, resends, round_trip),
        reported_holes(segments, coverage, selective, resends, at_receiver),
    )
    found = [columns for columns in kinds if len(columns[0])]
    if not found:
        return Holes()
    columns = (
        found[0]
        if len(found) == 1
        else [np.concatenate(parts) for parts in zip(*found, strict=True)]
    )
    del kinds, found  # there may be as many holes as packets
    key, length, kind, opened, filled, opener, filler, confidence = columns
    # Captures of several queues may run backwards a little; no hole closes before it opens.
    filled = np.where(filled == NO_TIME, NO_TIME, np.maximum(filled, opened))
    stream = key // SPAN
    order = np.lexsort((key, opened, stream // 2))

    def packet(elements: NDArray[np.intp]) -> NDArray[np.int32]:
        """Packet numbers; 0 for -1."""
        return np.where(elements >= 0, segments.index[elements] + 1, 0).astype(np.int32)

    return Holes(
        connection_no=(stream // 2 + first_connection)[order].astype(np.int32),
        from_client=(stream % 2 == 0)[order],
        offset=(key % SPAN)[order],
        length=length[order],
        kind=kind[order].astype(np.uint8),
        opened_ns=opened[order],
        filled_ns=filled[order],
        opened_packet_no=packet(opener[order]),
        filled_packet_no=packet(filler[order]),
        confidence=confidence[order].astype(np.float32),
    )


def _gaps(segments: Segments, coverage: Coverage, resends: Resends) -> list[Ints]:
    """Columns of the gaps: key, length, kind, opened, filled, opener, filler, confidence."""
    count = len(coverage.gap_begin)
    opener = coverage.gap_opener
    opened = segments.time[opener]
    complete = coverage.gap_missing == 0
    filler = np.where(complete, coverage.gap_filler, -1)
    filled = np.where(complete, segments.time[filler], NO_TIME)
    # Overtaken only if all that filled it was.
    overtaken = np.zeros(count, np.int64)
    np.add.at(overtaken, resends.gap[(resends.gap >= 0) & ~resends.resent], 1)
    fillers = np.zeros(count, np.int64)
    np.add.at(fillers, resends.gap[resends.gap >= 0], 1)
    kind = np.where(complete & (fillers > 0) & (overtaken == fillers), _REORDERING, _LOSS)
    confidence = np.ones(count)
    np.minimum.at(confidence, resends.gap[resends.gap >= 0], resends.certain[resends.gap >= 0])
    never = np.flatnonzero(~complete)
    if len(never):
        key = coverage.gap_end[never]
        stream = segments.stream[opener[never]]
        answer_key = key + (1 - 2 * (stream & 1)) * SPAN
        ack = np.searchsorted(segments.ack_top, answer_key)
        there = ack < len(segments)
        there &= segments.stream[np.minimum(ack, len(segments) - 1)] == (stream ^ 1)
        acked = never[there]
        kind[acked] = _CAPTURE
        confidence[acked] = 0.95
        filler[acked] = ack[there]
        filled[acked] = np.maximum(segments.time[ack[there]], opened[acked])
        confidence[never[~there]] = 0.5  # the end of the capture may hide the repeat
    columns = [
        coverage.gap_begin,
        coverage.gap_end - coverage.gap_begin,
        kind,
        opened,
        filled,
        opener,
        filler,
        confidence,
    ]
    before = _before_the_capture(segments, opener[never])
    if not before.any():
        return columns
    kept = np.ones(count, np.bool_)
    kept[never[before]] = False
    return [column[kept] for column in columns]


def _before_the_capture(segments: Segments, opener: NDArray[np.intp]) -> Bools:
    """Whether what each gap lacks passed before the capture began.

    So it is if the first data of a stream without a SYN opened it: bytes below were already
    there, save the lost ones whose repeat comes later.
    """
    stream = segments.stream[opener]
    before = segments.mid[stream]
    data = np.flatnonzero(segments.carries & (segments.length > 0))
    if before.any() and not len(data):  # a FIN opened it
        return np.zeros(len(opener), np.bool_)
    if before.any():
        at = np.searchsorted(data, segments.starts[stream])
        before = before & (data[np.minimum(at, len(data) - 1)] == opener)
    return before


def _beyond(segments: Segments, resends: Resends, at_receiver: Bools) -> list[Ints]:
    """Like `_gaps`, for bytes that passed the capture point and were lost behind it."""
    needed = resends.resent & (resends.original >= 0)
    needed &= resends.spurious != VERDICT["true"]
    needed &= ~at_receiver[segments.stream[resends.element]]
    rows = np.flatnonzero(needed)
    element, original = resends.element[rows], resends.original[rows]
    start = np.maximum(segments.begin[element], 0)
    begin = start + segments.stream[element] * SPAN
    # Several repeats of the same bytes are one hole, until the last of them.
    last = np.ones(len(rows), np.bool_)
    order = np.lexsort((element, begin))
    last[:-1] = begin[order][1:] != begin[order][:-1]
    keep = order[last]
    element, original, begin = element[keep], original[keep], begin[keep]
    length = segments.end[element] - start[keep]
    known = resends.spurious[rows[keep]] == VERDICT["false"]
    return [
        begin,
        length,
        np.full(len(keep), _LOSS),
        segments.time[original],
        segments.time[element],
        original,
        element,
        np.where(known, 0.9, 0.6),
    ]


def _tails(segments: Segments, resends: Resends, round_trip: Ints) -> list[Ints]:
    """Like `_gaps`, for lost tails: no packet shows when they should have come."""
    element = resends.element[resends.tail]
    stream = segments.stream[element]
    trip = round_trip[stream]
    timer = np.where(trip == NO_TIME, 0, trip) * 2 + _PROBE_NS
    return [
        segments.begin[element] + stream * SPAN,
        segments.length[element],
        np.full(len(element), _LOSS),
        np.maximum(segments.time[element - 1], segments.time[element] - timer),
        segments.time[element],
        element - 1,
        element,
        np.full(len(element), 0.6),
    ]
