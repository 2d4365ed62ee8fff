"""Which exchanges a hole in a stream held up, and whether it was made of their own bytes.

In HTTP/1.1 all bytes of a direction belong to the exchange that is open. HTTP/2 shares them:
a hole in the frames of one stream holds up the others as well, from the instant at which
bytes of theirs lie behind it (RFC 9113, section 5: multiplexing does not end that). Streams
that have nothing behind the hole lose nothing.

A hole shows when later bytes come, but its bytes were due before. Where they belong to a TLS
record whose first part is there, they were: a record is written as a whole, so they were lost
right behind that part, even if no later byte came for long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME, distinct
from capture_analyzer.model.frames import Frames
from capture_analyzer.model.holes import HOLE_KINDS, Holes
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import TlsRecords
from capture_analyzer.pipeline.causes.record_rows import find_records, record_end
from capture_analyzer.pipeline.intervals import Indices, Times, bisect_right
from capture_analyzer.pipeline.reassemble import Streams

NEVER: Final = int(np.iinfo(np.int64).max)


@quick_dataclass
class HeldUp:
    """Pairs of a hole and an exchange that it held up; one element each.

    Attributes:
        hole: index of the hole.
        exchange: the exchange.
        from_ns, to_ns: from when, until when; NEVER where the hole was not filled.
        own: the hole was made of its own bytes.
    """

    hole: Indices
    exchange: Indices
    from_ns: Times
    to_ns: Times
    own: NDArray[np.bool_]


_NOTHING: Final = np.empty(0, np.int64)
NOBODY: Final = HeldUp(_NOTHING, _NOTHING, _NOTHING, _NOTHING, np.empty(0, np.bool_))


def find_held_up(
    holes: Holes,
    frames: Frames,
    records: TlsRecords,
    streams: Streams,
    stream_id: NDArray[np.int64],
    exchanges_during: Callable[[NDArray[np.int32], Times, Times], tuple[Indices, Indices]],
) -> HeldUp:
    """All pairs, by hole.

    Args:
        holes: of all connections.
        frames: of the HTTP/2 connections that could be read.
        records: of all connections.
        streams: the bytes of all connections.
        stream_id: of each exchange; -1 = it has none.
        exchanges_during: pairs of spans (connection, begin, end) and exchanges open meanwhile.
    """
    begins = _due(holes, records, streams)
    ends = np.where(holes.filled_ns == NO_TIME, NEVER, holes.filled_ns)
    hole, exchange = exchanges_during(holes.connection_no, begins, ends)
    held = HeldUp(hole, exchange, begins[hole], ends[hole], np.ones(len(hole), np.bool_))
    number = 2 * holes.connection_no[hole].astype(np.int64) + ~holes.from_client[hole]
    frame_stream = 2 * frames.connection_no.astype(np.int64) + ~frames.from_client
    parted = np.flatnonzero((stream_id[exchange] >= 0) & np.isin(number, frame_stream))
    if not len(parted):
        return held
    by_exchange = _ByExchange.of(frames, frame_stream)
    number, wanted = number[parted], stream_id[exchange[parted]]
    offset = holes.offset[hole[parted]]
    stop = offset + holes.length[hole[parted]]
    first = by_exchange.first_behind(number, wanted, offset)
    own = (first >= 0) & (frames.offset[first] < stop)
    # Not its own: held up once bytes of it lie behind the hole.
    behind = by_exchange.first_behind(number, wanted, stop)
    arrived = _when(
        streams, streams.seen_ns, number, np.where(behind >= 0, frames.offset[behind], 0)
    )
    waits = (behind >= 0) & (arrived != NO_TIME) & (arrived < held.to_ns[parted])
    held.own[parted] = own
    held.from_ns[parted] = np.where(
        own | ~waits, held.from_ns[parted], np.maximum(held.from_ns[parted], arrived)
    )
    kept = np.ones(len(hole), np.bool_)
    kept[parted] = own | waits
    return HeldUp(
        held.hole[kept], held.exchange[kept], held.from_ns[kept], held.to_ns[kept], held.own[kept]
    )


def delivery(request_end: Times, response_seen: Times, holes: Holes, held: HeldUp) -> Times:
    """When the whole request of each exchange had passed to the server's side.

    Its last byte, or where bytes of it were lost the arrival of the last repeat; NO_TIME
    where that never came. What the capture lacks was delivered at some time, surely before
    the answer began.

    Args:
        request_end: when the last byte of each request was seen.
        response_seen: when the first of its answer was; NO_TIME = never.
        holes: of all connections.
        held: which exchanges they held up.
    """
    delivered = request_end.copy()
    hole, exchange = held.hole, held.exchange
    # Bytes that are late once the answer has begun belong to something else.
    limit = np.where(response_seen == NO_TIME, NEVER, response_seen)[exchange]
    concerned = np.flatnonzero(
        holes.from_client[hole]
        & (holes.kind[hole] != HOLE_KINDS.index("capture"))
        & (held.from_ns < limit)
    )
    np.maximum.at(delivered, exchange[concerned], held.to_ns[concerned])
    delivered[delivered == NEVER] = NO_TIME
    return delivered


@quick_dataclass
class _ByExchange:
    """Frames by direction, then HTTP/2 stream, then offset."""

    order: Indices
    owner: Indices  # direction and HTTP/2 stream of each, as distinct numbers
    end: Times
    owners: NDArray[np.int64]  # the distinct pairs, ascending

    @classmethod
    def of(cls, frames: Frames, frame_stream: NDArray[np.int64]) -> _ByExchange:
        pair = (frame_stream << 31) | frames.stream_id
        owners, owner = np.unique(pair, return_inverse=True)
        order = np.argsort(owner, kind="stable")
        return cls(order, owner[order], frames.end_offset[order], owners)

    def first_behind(
        self, number: NDArray[np.int64], stream_id: NDArray[np.int64], offset: Times
    ) -> Indices:
        """The first frame of each exchange that ends behind an offset; -1 without one."""
        pair = (number << 31) | stream_id
        owner = np.searchsorted(self.owners, pair)
        known = owner < len(self.owners)
        known[known] = self.owners[owner[known]] == pair[known]
        low = np.searchsorted(self.owner, owner, "left")
        high = np.searchsorted(self.owner, owner, "right")
        place = bisect_right(self.end, low, high, offset)
        known &= place < high
        return np.where(known, self.order[np.where(known, place, 0)], -1)


def _due(holes: Holes, records: TlsRecords, streams: Streams) -> Times:
    """When the bytes of each hole were due: no later than it opened."""
    due = holes.opened_ns.copy()
    if not len(records):
        return due
    lost = np.flatnonzero((holes.kind == HOLE_KINDS.index("loss")) & (holes.offset > 0))
    number = 2 * holes.connection_no[lost].astype(np.int64) + ~holes.from_client[lost]
    before = holes.offset[lost] - 1
    record = find_records(records, number, before)
    inside = np.flatnonzero(record >= 0)
    inside = inside[record_end(records, record[inside]) > holes.offset[lost[inside]]]
    if len(inside):
        there = _when(streams, streams.in_order_ns, number[inside], before[inside])
        earlier = (there != NO_TIME) & (there < due[lost[inside]])
        due[lost[inside[earlier]]] = there[earlier]
    return due


def _when(streams: Streams, times: Times, number: NDArray[np.int64], offset: Times) -> Times:
    """The times of single bytes; NO_TIME where the capture lacks them.

    Args:
        streams: the bytes of all connections.
        times: one of its columns.
        number: of each byte, its stream.
        offset: its stream offset.
    """
    streams_asked = distinct(number)
    result = np.full(len(number), NO_TIME)
    for stream in streams_asked.tolist():
        low, high = int(streams.bounds[stream]), int(streams.bounds[stream + 1])
        mine = np.flatnonzero(number == stream)
        at = np.searchsorted(streams.starts[low:high], offset[mine], "right") - 1
        chunk = low + np.maximum(at, 0)
        there = (at >= 0) & (offset[mine] < streams.starts[chunk] + streams.lengths[chunk])
        result[mine[there]] = times[chunk[there]]
    return result
