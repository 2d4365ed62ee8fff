"""Which packet brought which bytes of a stream first, and when: pieces of a batch of streams."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import distinct
from capture_analyzer.model.packets import FIN
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.tcp.coverage import Coverage
from capture_analyzer.pipeline.tcp.needless import VERDICT
from capture_analyzer.pipeline.tcp.resends import Resends
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments


@quick_dataclass
class BatchPieces:
    """Pieces of a batch: as `Pieces`, but by stream instead of bounds."""

    packet: NDArray[np.int32]
    skip: NDArray[np.int32]
    stream: Ints
    begin: Ints
    length: Ints
    arrival: Ints
    end: Ints  # per stream
    mid: Bools  # per stream


def find_pieces(
    segments: Segments, coverage: Coverage, resends: Resends, at_receiver: Bools
) -> BatchPieces:
    """Find the pieces of a batch.

    What was sent again and needed arrived with its last sending, for a capture at the sender.
    """
    element, begin, stop = coverage.piece_element, coverage.piece_begin, coverage.piece_end
    again = resends.resent & (resends.original >= 0)
    again &= (resends.spurious != VERDICT["true"]) & ~at_receiver[segments.stream[resends.element]]
    rows = resends.element[again]
    if len(rows) and len(element):
        floor = segments.stream[rows] * SPAN
        low = np.maximum(segments.begin[rows], 0) + floor
        # Of a large segment (offload) only a part was lost: what lies before it did arrive.
        splits = distinct(low)
        at = np.searchsorted(begin, splits, "right") - 1
        inside = (at >= 0) & (splits > begin[at]) & (splits < stop[at])
        splits, at = splits[inside], at[inside]
        element = np.insert(element, at + 1, element[at])
        stop = np.insert(stop, at + 1, stop[at])
        begin = np.insert(begin, at + 1, splits)
        stop[:-1] = np.minimum(stop[:-1], begin[1:])
        arrival = segments.time[element]
        first = np.searchsorted(stop, low, "right")
        last = np.searchsorted(begin, segments.end[rows] + floor, "left")
        # A segment repeats a few pieces at most, save where someone plays tricks.
        last = np.minimum(last, first + 64)
        for step in range(int((last - first).max(initial=0))):
            hit = first + step < last
            np.maximum.at(arrival, first[hit] + step, segments.time[rows[hit]])
    else:
        arrival = segments.time[element]
    stream = segments.stream[element]

    some = np.flatnonzero(segments.counts)
    end = np.zeros(len(segments.counts), np.int64)
    np.maximum.at(end, stream, stop - stream * SPAN)
    fin = np.flatnonzero(segments.carries & ((segments.flags & FIN) != 0))
    np.maximum.at(end, segments.stream[fin], segments.end[fin])
    last = segments.starts[some] + segments.counts[some] - 1
    acked = np.zeros(len(segments.counts), np.int64)
    acked[some ^ 1] = segments.ack_top[last] - some * SPAN
    # One byte acknowledged beyond the last is the FIN's, seen or not (RFC 9293, 3.4).
    end = np.where(acked > end + 1, acked, end)
    length = stop - begin
    begin = begin - stream * SPAN
    return BatchPieces(
        packet=segments.index[element].astype(np.int32),
        skip=(begin - segments.begin[element]).astype(np.int32),
        stream=stream,
        begin=begin,
        length=length,
        arrival=arrival,
        end=end,
        mid=segments.mid,
    )
