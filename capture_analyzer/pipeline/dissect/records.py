"""The TLS records of many streams, as opening them needs them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import TlsRecords
from capture_analyzer.protocols.tls.handshake import APPLICATION_DATA
from capture_analyzer.protocols.tls.records import HEADER_BYTES, Chunks
from capture_analyzer.wire.windows import Windows

MOST_AT_ONCE: Final = 128
"""Records that are opened in one go: enough that the way there costs nothing."""


class Cells(NamedTuple):
    """Columns of records, from which a single value is taken faster than from an array."""

    offset: memoryview
    length: memoryview
    run_end: memoryview
    content_type: memoryview
    complete: memoryview


@dataclasses.dataclass
class AllRecords:
    """The records of many streams, by stream, then offset; what opening them needs and finds.

    Attributes:
        chunks: of all streams.
        offset .. complete: columns of `TlsRecords`.
        first_chunk, last_chunk: chunks with the first and the last captured byte of each.
        at: where the fragment of each begins in the buffer of its first chunk.
        run_end: behind the last of the records of application data that follow each with
            nothing missing in between, itself included; its own index if it holds other data.
        apart: it lies in several chunks, or in another buffer than the first of its stream.
        inner_types: inner content type, 0 where it was not opened.
        plaintext_bytes: column of `TlsRecords`.
        roles: (record, role) of those of which the role follows from more than the inner type.
    """

    chunks: Chunks
    offset: NDArray[np.int64]
    length: NDArray[np.int32]
    content_type: NDArray[np.uint8]
    complete_ns: NDArray[np.int64]
    complete: NDArray[np.bool_]
    first_chunk: NDArray[np.integer]
    last_chunk: NDArray[np.integer]
    at: NDArray[np.int64]
    run_end: NDArray[np.int64]
    apart: NDArray[np.bool_]
    inner_types: NDArray[np.uint8]
    plaintext_bytes: NDArray[np.int32]
    roles: list[tuple[int, int]] = dataclasses.field(default_factory=list)

    @classmethod
    def of(
        cls,
        chunks: Chunks,
        table: TlsRecords,
        row: NDArray[np.integer],
        first_chunk: NDArray[np.integer],
        last_chunk: NDArray[np.integer],
    ) -> AllRecords:
        """All records of a table.

        Args:
            chunks: of their streams.
            table: the records.
            row: the stream of each.
            first_chunk: the chunk with the first byte of each.
            last_chunk: the chunk with the last captured byte of each.
        """
        count = len(row)
        data = table.complete & (table.content_type == APPLICATION_DATA)
        end = table.offset + table.length + HEADER_BYTES
        same = row[1:] == row[:-1]
        goes_on = data[1:] & data[:-1] & same & (end[:-1] == table.offset[1:])
        stops = np.flatnonzero(np.append(~goes_on, np.ones(min(count, 1), np.bool_))) + 1
        run_end = np.repeat(stops, np.diff(stops, prepend=0))
        begins = np.flatnonzero(np.append(np.ones(min(count, 1), np.bool_), ~same))
        buffer_no = chunks.buffer_nos[first_chunk]
        of_stream = np.repeat(buffer_no[begins], np.diff(begins, append=count))
        return cls(
            chunks,
            table.offset,
            table.length,
            table.content_type,
            table.complete_ns,
            table.complete,
            first_chunk,
            last_chunk,
            chunks.buffer_offsets[first_chunk]
            + (table.offset - chunks.starts[first_chunk] + HEADER_BYTES),
            np.where(data, run_end, np.arange(count)),
            (first_chunk != last_chunk) | (buffer_no != of_stream),
            np.zeros(count, np.uint8),
            table.plaintext_bytes,
        )

    @functools.cached_property
    def chunk_ends(self) -> NDArray[np.int64]:
        """Where each chunk ends in its stream."""
        return self.chunks.starts + self.chunks.lengths

    @functools.cached_property
    def chunk_keys(self) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """(a number for the begin of each chunk, its stream, the span of numbers of a stream).

        A byte's number is its stream times the span, and its offset.
        """
        bounds = self.chunks.bounds
        rows = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        span = int(self.chunk_ends.max(initial=0)) + 1
        return self.chunks.starts + rows * span, rows, span

    @functools.cached_property
    def cells(self) -> Cells:
        """Columns of which single values are looked at."""
        columns = self.offset, self.length, self.run_end, self.content_type, self.complete
        return Cells(*(column.data for column in columns))

    @functools.cached_property
    def views(self) -> list[memoryview]:
        """The buffers, to be cut."""
        return [memoryview(buffer) for buffer in self.chunks.buffers]

    def view_of(self, record: int) -> memoryview:
        """The buffer with the first byte of a record."""
        views = self.views
        if len(views) == 1:
            return views[0]
        return views[int(self.chunks.buffer_nos[self.first_chunk[record]])]

    @functools.cached_property
    def in_pieces(self) -> bytes:
        """`apart`, to be searched."""
        return self.apart.tobytes()

    @functools.cached_property
    def behind(self) -> NDArray[np.int64]:
        """Where the fragment of each ends, as `at`."""
        return self.at + self.length

    @functools.cached_property
    def headers(self) -> NDArray[np.void]:
        """The header of each that is not apart."""
        found = np.zeros(len(self.at), f"V{HEADER_BYTES}")
        chunks = self.chunks
        buffer_nos = chunks.buffer_nos[self.first_chunk]
        for number in np.unique(buffer_nos).tolist():
            mine = np.flatnonzero((buffer_nos == number) & ~self.apart)
            windows = Windows(chunks.buffers[number])
            rows = windows.at(self.at[mine] - HEADER_BYTES, HEADER_BYTES)
            found[mine] = rows.view(found.dtype)[:, 0]
        return found

    @functools.cached_property
    def chunk_stops(self) -> NDArray[np.int64]:
        """Where each chunk ends in its buffer."""
        return self.chunks.buffer_offsets + self.chunks.lengths

    def note(self, record: int, inner_type: int, size: int) -> None:
        """A record opened."""
        inner_types, sizes = self._opened
        inner_types[record] = inner_type
        sizes[record] = size

    @functools.cached_property
    def _opened(self) -> tuple[memoryview, memoryview]:
        return self.inner_types.data, self.plaintext_bytes.data


class Records:
    """The records first .. stop - 1 of all, which are those of one direction in order."""

    __slots__ = ("everything", "first", "stop")

    def __init__(self, everything: AllRecords, first: int, stop: int) -> None:
        self.everything = everything
        self.first = first
        self.stop = stop

    @classmethod
    def of(cls, stream: ByteStream, table: TlsRecords) -> Records:
        """All rows of a table, which are those of one stream."""
        last = table.offset + table.length + (HEADER_BYTES - 1)
        everything = AllRecords.of(
            Chunks.of(stream),
            table,
            np.zeros(len(last), np.int32),
            np.searchsorted(stream.starts, table.offset, "right") - 1,
            np.searchsorted(stream.starts, last, "right") - 1,
        )
        return cls(everything, 0, len(last))

    def __len__(self) -> int:
        return self.stop - self.first

    @property
    def offset(self) -> NDArray[np.int64]:
        """Stream offset of each."""
        return self.everything.offset[self.first : self.stop]

    @property
    def content_type(self) -> NDArray[np.uint8]:
        """Outer content type of each."""
        return self.everything.content_type[self.first : self.stop]

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Whether all bytes of each were captured."""
        return self.everything.complete[self.first : self.stop]

    @property
    def inner_types(self) -> NDArray[np.uint8]:
        """Inner content type of each, 0 where it was not opened."""
        return self.everything.inner_types[self.first : self.stop]

    @property
    def plaintext_bytes(self) -> NDArray[np.int32]:
        """Length of the plaintext of each, -1 where it was not opened."""
        return self.everything.plaintext_bytes[self.first : self.stop]

    def end(self, index: int) -> int:
        """Stream offset behind a record."""
        record, cells = self.first + index, self.everything.cells
        end: int = cells.offset[record] + HEADER_BYTES + cells.length[record]
        return end


@quick_dataclass
class Side:
    """One direction of a TLS connection.

    Attributes:
        stream: its bytes.
        records: its records.
        protected_from: index of the first of them that may be protected.
    """

    stream: ByteStream
    records: Records
    protected_from: int


class Fragments:
    """Headers and fragments of a direction's records that were captured whole.

    They are taken some at a time, without copying where possible.
    """

    def __init__(self, records: Records) -> None:
        self._everything = records.everything
        self._first = records.first
        # What was taken last, and the index of the first of it.
        self._at = 0
        self._headers: list[bytes] = []
        self._fragments: list[memoryview] = []

    def one(self, index: int) -> tuple[bytes, memoryview]:
        """Header and fragment of a record."""
        place = self._place(index)
        return self._headers[place], self._fragments[place]

    def run(self, index: int) -> tuple[list[bytes], list[memoryview]]:
        """Headers and fragments of this record and of those that follow it in a row.

        Those are of application data. The row ends where a record is of another type, where
        something is missing, or where it is long enough.
        """
        place = self._place(index)
        if not place:
            return self._headers, self._fragments
        return self._headers[place:], self._fragments[place:]

    def _place(self, index: int) -> int:
        """Where in what was taken last a record is; takes it and those behind it if needed."""
        if not self._at <= index < self._at + len(self._headers):
            self._take(self._first + index)
            self._at = index
        return index - self._at

    def _take(self, first: int) -> None:
        everything = self._everything
        stop = min(max(everything.cells.run_end[first], first + 1), first + MOST_AT_ONCE)
        if everything.in_pieces.find(1, first, stop) < 0:
            view = everything.view_of(first)
            begins, ends = everything.at[first:stop], everything.behind[first:stop]
            self._headers = everything.headers[first:stop].tolist()
        else:
            joined, shift = self._joined(first, stop - 1)
            view = memoryview(joined)
            begins = everything.offset[first:stop] + (HEADER_BYTES + shift)
            ends = begins + everything.length[first:stop]
            self._headers = [joined[at - HEADER_BYTES : at] for at in begins.tolist()]
        self._fragments = [
            view[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]

    def _joined(self, first: int, last: int) -> tuple[bytes, int]:
        """The chunks with these records end to end, and the way from an offset into them."""
        everything = self._everything
        chunks, views = everything.chunks, everything.views
        chunk = int(everything.first_chunk[first])
        mine = slice(chunk, int(everything.last_chunk[last]) + 1)
        begins, ends = chunks.buffer_offsets[mine].tolist(), everything.chunk_stops[mine].tolist()
        if len(views) == 1:
            (view,) = views
            parts = [view[begin:end] for begin, end in zip(begins, ends, strict=True)]
        else:
            numbers = chunks.buffer_nos[mine].tolist()
            parts = [
                views[number][begin:end]
                for number, begin, end in zip(numbers, begins, ends, strict=True)
            ]
        return b"".join(parts), -int(chunks.starts[chunk])
