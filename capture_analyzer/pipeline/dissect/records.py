"""The TLS records of many streams, as opening them needs them."""

from __future__ import annotations

import bisect
import dataclasses
import functools
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import TlsRecords
from capture_analyzer.protocols.tls.handshake import APPLICATION_DATA
from capture_analyzer.protocols.tls.records import HEADER_BYTES, Chunks

MOST_AT_ONCE: Final = 128
"""Records that are opened in one go: enough that the way there costs nothing."""


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

    def note(self, record: int, inner_type: int, size: int) -> None:
        """A record opened."""
        self.inner_types[record] = inner_type
        self.plaintext_bytes[record] = size


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
        record = self.first + index
        everything = self.everything
        return int(everything.offset[record]) + HEADER_BYTES + int(everything.length[record])


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
    """The records of a direction as lists, and their bytes without copying where possible."""

    def __init__(self, cipher: ByteStream, records: Records) -> None:
        mine = slice(records.first, records.stop)
        everything = records.everything
        self.offset: list[int] = everything.offset[mine].tolist()
        self.length: list[int] = everything.length[mine].tolist()
        self.content_type = everything.content_type[mine].tobytes()
        self.complete = everything.complete[mine].tobytes()
        self._at: list[int] = everything.at[mine].tolist()
        self._apart = everything.apart[mine].tobytes()
        self._records = records
        self._cipher = cipher
        self._view = memoryview(b"")  # the buffer that holds all that is not apart
        if self.offset:
            number = everything.chunks.buffer_nos[everything.first_chunk[records.first]]
            self._view = memoryview(everything.chunks.buffers[number])
        self._pieces: _Chunks | None = None

    def end(self, index: int) -> int:
        """Stream offset behind a record."""
        return self.offset[index] + HEADER_BYTES + self.length[index]

    def of(self, index: int) -> tuple[memoryview, memoryview]:
        """Header and fragment of a record that was captured whole."""
        view, at, length = self._view, self._at[index], self.length[index]
        if self._apart[index]:
            if self._pieces is None:
                self._pieces = _Chunks(self._cipher)
            view = self._pieces.joined(self.offset[index], HEADER_BYTES + length)
            at = HEADER_BYTES
        return view[at - HEADER_BYTES : at], view[at : at + length]

    def run(self, index: int) -> tuple[Sequence[memoryview], Sequence[memoryview]]:
        """Headers and fragments of this and the records that follow it with application data.

        The run ends where one holds something else, where something is missing, or where it
        is long enough: any record but the last may turn out to be of another kind.
        """
        records, view = self._records, self._view
        run_end = int(records.everything.run_end[records.first + index]) - records.first
        stop = min(run_end, index + MOST_AT_ONCE)
        if self._apart.find(1, index, stop) >= 0:
            headers, fragments = zip(*map(self.of, range(index, stop)), strict=True)
            return headers, fragments
        begins, lengths = self._at[index:stop], self.length[index:stop]
        return [view[at - HEADER_BYTES : at] for at in begins], [
            view[at : at + length] for at, length in zip(begins, lengths, strict=True)
        ]


class _Chunks:
    """The chunks of a stream as lists, to join those of a record."""

    def __init__(self, cipher: ByteStream) -> None:
        self._views = [memoryview(buffer) for buffer in cipher.buffers]
        self._numbers: list[int] = cipher.buffer_nos.tolist()
        self._starts: list[int] = cipher.starts.tolist()
        self._begins: list[int] = cipher.buffer_offsets.tolist()
        self._ends: list[int] = (cipher.buffer_offsets + cipher.lengths).tolist()

    def joined(self, offset: int, size: int) -> memoryview:
        """`size` bytes from a stream offset on, of which none is missing."""
        views, numbers, begins, ends = self._views, self._numbers, self._begins, self._ends
        first = bisect.bisect_right(self._starts, offset) - 1
        stop = bisect.bisect_left(self._starts, offset + size, first)
        parts = [views[numbers[n]][begins[n] : ends[n]] for n in range(first, stop)]
        begin = offset - self._starts[first]
        return memoryview(b"".join(parts))[begin : begin + size]
