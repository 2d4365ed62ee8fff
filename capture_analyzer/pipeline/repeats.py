"""What retransmitted bytes carry, and which exchanges their loss delayed (table `repeats`).

A retransmitted segment repeats a range of its stream's bytes. Records and frames have their
places in the same stream, so the range says what was lost, whether or not the segment begins
where they do. (Wireshark hands no retransmission to the dissectors of TLS and HTTP/2.)
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.frames import Frames
from capture_analyzer.model.holes import HOLE_KINDS, Holes
from capture_analyzer.model.packets import LABELS, SPURIOUS, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.repeats import Repeats
from capture_analyzer.model.tls_records import TlsRecords
from capture_analyzer.pipeline.tcp.limits import Path
from capture_analyzer.pipeline.tcp.segments import SPAN
from capture_analyzer.pipeline.tcp.senders.view import View, views

MAX_BEHIND: Final = 256
"""Frames behind one hole that are looked at: no more bytes than a window can wait, and a peer
that sent them in tinier frames would make each hole cost thousands of rows."""

_RECORD_HEADER: Final = 5  # RFC 8446, section 5.1
_AGAIN: Final = LABELS.index("retransmission")
_NEEDLESS: Final = SPURIOUS.index("true")
_LOSS: Final = HOLE_KINDS.index("loss")


@quick_dataclass(frozen=True)
class _Row:
    """A row of the table, in the order in which rows are sorted."""

    packet_no: int
    behind: bool
    offset: int
    connection_no: int
    from_client: bool
    length: int
    tls_record: int
    frame: int
    stream_id: int
    exchange_no: int
    delayed_ns: int


@quick_dataclass(frozen=True)
class Sources:
    """The tables that it is made of; `path` is what is known of all streams."""

    packets: Packets
    path: Path
    holes: Holes
    tls_records: TlsRecords
    frames: Frames
    exchanges: list[Exchange]


def add_repeats(table: Repeats, tables: Sources, numbers: NDArray[np.int64] | None = None) -> None:
    """Fill the table.

    Args:
        table: an empty one.
        tables: what it is made of.
        numbers: of these connections; None = of all.
    """
    packets = tables.packets
    again = (packets.label == _AGAIN) & (packets.payload_bytes > 0)
    if not again.any():
        return
    filled: dict[int, list[int]] = {}
    for row in np.flatnonzero(tables.holes.kind == _LOSS).tolist():
        filled.setdefault(int(tables.holes.filled_packet_no[row]), []).append(row)
    exchanges: dict[int, list[Exchange]] = {}
    for exchange in tables.exchanges:
        exchanges.setdefault(exchange.connection_no, []).append(exchange)
    rows: list[_Row] = []
    for view in views(packets, tables.path, numbers):
        segments = view.segments
        contents: _Contents | None = None
        for element in np.flatnonzero(again[segments.index] & (segments.end > 0)).tolist():
            stream = int(segments.stream[element])
            if contents is None or contents.stream != stream:
                connection = int(view.numbers[stream // 2])
                contents = _Contents(tables, view, stream, exchanges.get(connection, []))
            holes = filled.get(int(segments.index[element]) + 1, [])
            carried = contents.carried(element, holes)
            rows += carried
            rows += contents.behind(element, holes, {row.exchange_no for row in carried})
    rows.sort(key=lambda row: (row.packet_no, row.behind, row.offset))
    made = Repeats()
    for field in dataclasses.fields(_Row):
        values = [getattr(row, field.name) for row in rows]
        setattr(made, field.name, np.array(values, getattr(made, field.name).dtype))
    table.take(made)


class _Contents:
    """Where records, frames and exchanges lie in one stream."""

    def __init__(self, tables: Sources, view: View, stream: int, exchanges: list[Exchange]) -> None:
        self.tables = tables
        self.view = view
        self.stream = stream
        self.connection = int(view.numbers[stream // 2])
        self.from_client = stream % 2 == 0
        records, frames = tables.tls_records, tables.frames
        self.records = _direction(
            records.connection_no, records.from_client, self.connection, self.from_client
        )
        self.frames = _direction(
            frames.connection_no, frames.from_client, self.connection, self.from_client
        )
        self.of_stream = {row.stream_id: row.exchange_no for row in exchanges}
        begins = [(self._begin(row), row.exchange_no) for row in exchanges]
        known = sorted((begin, number) for begin, number in begins if begin is not None)
        self.begins = [begin for begin, _ in known]
        self.numbers = [number for _, number in known]

    def _begin(self, exchange: Exchange) -> int | None:
        """The first byte of an exchange in this stream; None = it has none that is known."""
        if not self.from_client:
            return exchange.response_offset
        if exchange.request_first_packet_no is None:
            return None
        segments = self.view.segments
        low = int(segments.starts[self.stream])
        mine = segments.index[low : low + int(segments.counts[self.stream])]
        at = int(np.searchsorted(mine, exchange.request_first_packet_no - 1))
        return int(segments.begin[low + at]) if at < len(mine) else None

    def carried(self, element: int, holes: list[int]) -> list[_Row]:
        """A row for each stretch of a segment that was sent again."""
        segments = self.view.segments
        begin, end = max(int(segments.begin[element]), 0), int(segments.end[element])
        records, frames = self.tables.tls_records, self.tables.frames
        cuts = {begin, end, *_within(records.offset[self.records], begin, end)}
        cuts.update(_within(np.array(self.begins, np.int64), begin, end))
        for start in _within(frames.offset[self.frames], begin, end):
            # A record's header goes with its first frame.
            record = self._record_at(start)
            header = record >= 0 and self._record_at(start - 1) == record
            if not header or self._frame_at(start - 1)[0] >= 0:
                cuts.add(start)
        edges = sorted(cuts)
        spurious = self.tables.packets.spurious[segments.index[element]] == _NEEDLESS
        return [
            self._row(
                element,
                offset,
                stop - offset,
                False,
                0 if spurious else self._waited(offset, stop, holes),
            )
            for offset, stop in pairwise(edges)
        ]

    def _waited(self, offset: int, stop: int, holes: list[int]) -> int:
        """How long the receiver lacked a stretch: the longest of the holes that it fills."""
        table = self.tables.holes
        waits = [
            int(table.filled_ns[row] - table.opened_ns[row])
            for row in holes
            if table.offset[row] < stop and table.offset[row] + table.length[row] > offset
        ]
        return max(waits, default=NO_TIME)

    def behind(self, element: int, holes: list[int], carried: set[int]) -> list[_Row]:
        """A row for each other exchange that waited behind the holes that a segment filled."""
        segments, table = self.view.segments, self.tables.holes
        rows: list[_Row] = []
        seen = set(carried)
        for hole in holes:
            low = int(table.offset[hole] + table.length[hole])
            high = int(segments.before[element])  # what had been sent, or had come, by then
            for offset in self._starts(low, high):
                row = self._row(element, offset, 0, True, NO_TIME)
                if row.exchange_no < 0 or row.exchange_no in seen:
                    continue
                key = offset + self.stream * SPAN
                came = int(segments.time[int(np.searchsorted(segments.top, key, "right"))])
                waited = int(table.filled_ns[hole]) - max(came, int(table.opened_ns[hole]))
                if waited > 0:
                    seen.add(row.exchange_no)
                    rows.append(dataclasses.replace(row, delayed_ns=waited))
        return rows

    def _starts(self, low: int, high: int) -> list[int]:
        """Where frames, or exchanges, begin in a range, and the range itself."""
        if high <= low:
            return []
        frames = self.tables.frames.offset[self.frames]
        starts = frames if len(frames) else np.array(self.begins, np.int64)
        first, last = np.searchsorted(starts, (low + 1, high)).tolist()
        return [low, *starts[first : min(last, first + MAX_BEHIND)].tolist()]

    def _row(self, element: int, offset: int, length: int, behind: bool, delayed: int) -> _Row:
        record = self._record_at(offset)
        frame, stream_id = self._frame_at(offset)
        if frame < 0 and record >= 0:  # in front of the record's first frame
            inside = _within(self.tables.frames.offset[self.frames], offset, self._end_of(record))
            frame, stream_id = self._frame_at(inside[0]) if inside else (-1, -1)
        exchange = self.of_stream.get(stream_id, -1) if frame >= 0 else self._exchange_at(offset)
        return _Row(
            packet_no=int(self.view.segments.index[element]) + 1,
            behind=behind,
            offset=offset,
            connection_no=self.connection,
            from_client=self.from_client,
            length=length,
            tls_record=record,
            frame=frame,
            stream_id=stream_id,
            exchange_no=exchange,
            delayed_ns=delayed,
        )

    def _record_at(self, offset: int) -> int:
        records = self.tables.tls_records
        row = (
            self.records.start
            - 1
            + int(np.searchsorted(records.offset[self.records], offset, "right"))
        )
        if row < self.records.start:
            return -1
        return row if offset < self._end_of(row) else -1

    def _end_of(self, record: int) -> int:
        records = self.tables.tls_records
        return int(records.offset[record]) + _RECORD_HEADER + int(records.length[record])

    def _frame_at(self, offset: int) -> tuple[int, int]:
        """The frame that holds a byte, and its stream; -1, -1 without."""
        frames = self.tables.frames
        row = (
            self.frames.start
            - 1
            + int(np.searchsorted(frames.offset[self.frames], offset, "right"))
        )
        if row < self.frames.start or offset >= frames.end_offset[row]:
            return -1, -1
        return row, int(frames.stream_id[row])

    def _exchange_at(self, offset: int) -> int:
        """The last exchange that had begun; none where streams share the bytes."""
        if self.frames.stop > self.frames.start:
            return -1
        at = bisect_right(self.begins, offset)
        return self.numbers[at - 1] if at else -1


def _within(starts: NDArray[np.int64], begin: int, end: int) -> list[int]:
    """Those of ascending offsets that lie between two, beyond the first."""
    low, high = np.searchsorted(starts, (begin + 1, end)).tolist()
    inside: list[int] = starts[low:high].tolist()
    return inside


def _direction(
    connections: NDArray[np.int32], clients: NDArray[np.bool_], connection: int, from_client: bool
) -> slice:
    """Rows of one direction in a table sorted by connection and direction, the client's first."""
    wanted = np.array((connection, connection + 1), connections.dtype)
    low, high = np.searchsorted(connections, wanted).tolist()
    middle = low + int(np.count_nonzero(clients[low:high]))
    return slice(low, middle) if from_client else slice(middle, high)
