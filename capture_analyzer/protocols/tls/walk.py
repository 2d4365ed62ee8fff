"""The walk itself: from header to header, in lockstep or one stream after another."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.protocols.tls.chunks import Chunks, LostBoundary, Walked

HEADER_BYTES: Final = 5
MAX_FRAGMENT: Final = 2**14 + 2048
"""Longest fragment of any version (RFC 5246, section 6.2.3; TLS 1.3 allows less)."""

SEARCH_BYTES: Final = 2 * (MAX_FRAGMENT + HEADER_BYTES)
"""How far a header is looked for: within one whole record there must be one, and as much again
because the first that looks like one may be ciphertext."""

MAX_LOST: Final = 64
"""How often a stream may lose its record boundaries without a gap before it is given up: each
time costs a search, and a peer that breaks the rules that often speaks no TLS."""

_COLUMN_TYPES: Final = (np.int32, np.int64, np.int32, np.uint8, np.int32, np.int32, np.bool_)
_LOCKSTEP_MIN: Final = 80  # below this many streams a Python loop is as fast as whole arrays
_HEADER: Final = re.compile(rb"[\x14-\x18]\x03[\x00-\x04]")


_unpack_header = struct.Struct(">BHH").unpack_from


def _plausible(kind: int, version: int, length: int) -> bool:
    return 20 <= kind <= 24 and 0x0300 <= version <= 0x0304 and length <= MAX_FRAGMENT


class Walk:
    """State of one walk: the chunks, and the records found so far."""

    def __init__(self, chunks: Chunks) -> None:
        self.chunks = chunks
        self.ends = chunks.starts + chunks.lengths
        # A chunk's byte at stream offset x lies at x + shift in its buffer.
        self.shifts = chunks.buffer_offsets - chunks.starts
        # row * span + offset orders the bytes of all streams.
        self.span = int(self.ends.max(initial=0)) + 2 * MAX_FRAGMENT
        self.views = [memoryview(buffer) for buffer in chunks.buffers]
        self.lost: list[LostBoundary] = []
        self.lost_without_gap: dict[int, int] = {}
        self.parts: list[tuple[NDArray[Any], ...]] = []  # columns as in Walked, part by part
        self.flat: list[int] = []  # likewise seven numbers a record, one record after the other

    def walk(self, rows: NDArray[np.int64]) -> Walked:
        """Walk these rows and put the records in order."""
        bounds = self.chunks.bounds
        rows = rows[bounds[rows] < bounds[rows + 1]]
        chunk = bounds[rows]
        offset = self.chunks.starts[chunk]
        # What a stream lacks before its first chunk may hold headers; what begins in
        # mid-record has none at its begin. Both are found by the same search as later losses.
        origins = self.chunks.origins
        begin = np.zeros_like(offset) if origins is None else origins[rows]
        late = np.flatnonzero(offset > begin)
        kept = np.ones(len(rows), np.bool_)
        for index in late.tolist():
            found = self.recover(int(rows[index]), int(begin[index]))
            if found is None:
                kept[index] = False
            else:
                offset[index], chunk[index] = found
        rows, offset, chunk = rows[kept], offset[kept], chunk[kept]
        if len(rows) >= _LOCKSTEP_MIN and self.span * len(bounds) < 2**62:
            rows, offset, chunk = self.hop(rows, offset, chunk)
        for row, at, index in zip(rows.tolist(), offset.tolist(), chunk.tolist(), strict=True):
            self.follow(row, at, index)
        return self.result()

    def result(self) -> Walked:
        """All records found so far, in order."""
        parts: list[Sequence[NDArray[Any]]] = [*self.parts]
        parts.append(list(np.array(self.flat, np.int64).reshape(-1, 7).T))
        columns: list[NDArray[Any]] = [
            np.concatenate([part[index] for part in parts]).astype(kind, copy=False)
            for index, kind in enumerate(_COLUMN_TYPES)
        ]
        if len(parts) > 1:
            # Every part is in order already, which a stable sort makes use of.
            order = np.argsort(columns[0] * np.int64(self.span) + columns[1], kind="stable")
            columns = [column[order] for column in columns]
        row, offset, length, kind, first, last, complete = columns
        return Walked(row, offset, length, kind, first, last, complete, self.lost)

    def hop(
        self, rows: NDArray[np.int64], offset: NDArray[np.int64], chunk: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Take one record of every stream a step; returns what is left when few are.

        `chunk` is the chunk that holds the byte at `offset`.
        """
        chunks, ends, starts = self.chunks, self.ends, self.chunks.starts
        counts = np.diff(chunks.bounds)
        row_of = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        keys = row_of * self.span + starts
        new_run = np.ones(len(starts), np.bool_)
        new_run[1:] = (starts[1:] != ends[:-1]) | (row_of[1:] != row_of[:-1])
        run = np.cumsum(new_run)
        stop = chunks.bounds[1:]
        starts_padded = np.append(starts, -1)
        while len(rows) >= _LOCKSTEP_MIN:
            ends_here = ends[chunk]
            kind, version, length = self.headers(offset, chunk, ends_here)
            odd = (kind < 20) | (kind > 24) | (version < 0x0300) | (version > 0x0304)
            odd |= length > MAX_FRAGMENT
            recovered: list[tuple[int, int, int]] = []
            if odd.any():
                for index in np.flatnonzero(odd).tolist():
                    row = int(rows[index])
                    found = self.step(row, int(offset[index]), int(chunk[index]))
                    if found is not None:
                        recovered.append((row, *found))
                even = ~odd
                rows, offset, chunk = rows[even], offset[even], chunk[even]
                length, kind, ends_here = length[even], kind[even], ends_here[even]
            after = offset + (HEADER_BYTES + length)
            # Mostly a record ends in the chunk of its header.
            last, ends_last = chunk, ends_here
            complete = after <= ends_here
            far = np.flatnonzero(~complete)
            if len(far):
                last, ends_last = chunk.copy(), ends_here.copy()
                keys_far = rows[far] * self.span + (after[far] - 1)
                last[far] = found_far = np.searchsorted(keys, keys_far, "right") - 1
                ends_last[far] = ends[found_far]
                complete[far] = (run[found_far] == run[chunk[far]]) & (after[far] <= ends_last[far])
            self.parts.append((rows, offset, length, kind, chunk, last, complete))
            # Where the next header begins: in the same chunk, in the next, in a gap, nowhere.
            inside = after < ends_last
            following = last + ~inside
            more = inside | (following < stop[rows])
            there = inside | (starts_padded[following] == after)
            for index in np.flatnonzero(more & ~there).tolist():
                row = int(rows[index])
                found = self.recover(row, int(after[index]))
                if found is not None:
                    recovered.append((row, *found))
            on = np.flatnonzero(more & there)
            rows, offset, chunk = rows[on], after[on], following[on]
            if recovered:
                rows, offset, chunk = np.concatenate(
                    (np.stack((rows, offset, chunk)), np.array(recovered, np.int64).T), axis=1
                )
                in_order = np.argsort(rows)
                rows, offset, chunk = rows[in_order], offset[in_order], chunk[in_order]
        return rows, offset, chunk

    def headers(
        self, offset: NDArray[np.int64], chunk: NDArray[np.int64], ends_here: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(type, version, length) of the headers at these offsets.

        Type 0 where the header does not lie in one chunk, or at the very end of a buffer.
        """
        chunks = self.chunks
        at = self.shifts[chunk] + offset
        at[ends_here - offset < HEADER_BYTES] = -1
        if len(chunks.buffers) == 1:
            raw = _first_five(chunks.buffers[0], at)
        else:
            raw = np.zeros(len(at), np.int64)
            which = chunks.buffer_nos[chunk]
            for buffer_no in np.flatnonzero(np.bincount(which)).tolist():
                mine = np.flatnonzero(which == buffer_no)
                raw[mine] = _first_five(chunks.buffers[buffer_no], at[mine])
        return raw >> 32, raw >> 16 & 0xFFFF, raw & 0xFFFF

    def follow(self, row: int, offset: int, chunk: int) -> None:
        """Walk one stream to its end; `chunk` is the chunk that holds the byte at `offset`."""
        low, high = chunk, int(self.chunks.bounds[row + 1])
        starts = self.chunks.starts[low:high].tolist()
        ends = self.ends[low:high].tolist()
        buffer_nos = self.chunks.buffer_nos[low:high].tolist()
        shifts = self.shifts[low:high].tolist()
        views, flat, count = self.views, self.flat, high - low
        index = 0
        found: tuple[int, int] | None
        while True:
            end = ends[index]
            if end - offset >= HEADER_BYTES:
                kind, version, length = _unpack_header(
                    views[buffer_nos[index]], shifts[index] + offset
                )
                odd = not (
                    20 <= kind <= 24 and 0x0300 <= version <= 0x0304 and length <= MAX_FRAGMENT
                )
            else:
                header = self.header(row, offset, low + index)
                odd = header is None
                if header is not None:
                    kind, length = header
            if odd:
                found = self.recover(row, offset)
            else:
                after = offset + HEADER_BYTES + length
                last = index
                complete = 1
                while after > ends[last]:
                    if last + 1 == count or starts[last + 1] >= after:
                        complete = 0
                        break
                    last += 1
                    if starts[last] != ends[last - 1]:
                        complete = 0
                flat += (row, offset, length, kind, low + index, low + last, complete)
                offset = after
                if after < ends[last]:
                    index = last
                    continue
                last += 1
                if last == count:
                    return
                if starts[last] == after:
                    index = last
                    continue
                found = self.recover(row, offset)
            if found is None:
                return
            offset, index = found[0], found[1] - low

    def step(self, row: int, offset: int, chunk: int) -> tuple[int, int] | None:
        """Take one record whose header does not lie in one chunk, or find the next header.

        Returns:
            (offset, chunk) of the next header to look at; None at the end of the stream.
        """
        header = self.header(row, offset, chunk)
        if header is None:
            return self.recover(row, offset)
        kind, length = header
        after = offset + HEADER_BYTES + length
        low, high = chunk, int(self.chunks.bounds[row + 1])
        last = low + int(np.searchsorted(self.chunks.starts[low:high], after - 1, "right")) - 1
        unbroken = (self.chunks.starts[low + 1 : last + 1] == self.ends[low:last]).all()
        complete = unbroken and after <= self.ends[last]
        self.flat += (row, offset, length, kind, chunk, last, int(complete))
        following = self.chunk_of(row, after)
        if following >= 0:
            return after, following
        return self.recover(row, after) if last + 1 < high else None

    def recover(self, row: int, offset: int) -> tuple[int, int] | None:
        """Find the next header behind `offset`, where one is due but missing or malformed.

        Returns:
            (offset, chunk) of it; None if there is none or the stream is given up.
        """
        low, high = int(self.chunks.bounds[row]), int(self.chunks.bounds[row + 1])
        chunk = low + int(np.searchsorted(self.ends[low:high], offset, "right"))
        if chunk == high:
            return None  # nothing captured behind it
        captured = self.read(row, max(chunk, low), offset, HEADER_BYTES)
        gap = len(captured) < HEADER_BYTES
        if gap and offset + len(captured) == self.ends[high - 1]:
            return None  # the capture ends in mid-header
        found = None
        if gap or self.lost_without_gap.get(row, 0) < MAX_LOST:
            if not gap:
                self.lost_without_gap[row] = self.lost_without_gap.get(row, 0) + 1
            found = self.search(row, chunk, offset + 1 if len(captured) else offset)
        packet_no = int(self.chunks.packet_nos[found[1] if found else chunk])
        self.lost.append(LostBoundary(row, offset, found and found[0], packet_no, gap))
        return found

    def search(self, row: int, chunk: int, offset: int) -> tuple[int, int] | None:
        """(offset, chunk) of the first header at or behind `offset` that chains to another.

        It chains if its record ends at a header, or where the captured bytes of its run end.
        """
        high = int(self.chunks.bounds[row + 1])
        starts = self.chunks.starts
        while chunk < high:
            begin = max(offset, int(starts[chunk]))
            data = self.read(row, chunk, begin, SEARCH_BYTES)
            run_end = begin + len(data) if len(data) < SEARCH_BYTES else -1
            for match in _HEADER.finditer(data):
                at = match.start()
                if at + HEADER_BYTES > len(data):
                    break
                length = data[at + 3] << 8 | data[at + 4]
                if length > MAX_FRAGMENT:
                    continue
                after = begin + at + HEADER_BYTES + length
                if after != run_end:
                    following = self.chunk_of(row, after)
                    if following < 0 or self.header(row, after, following) is None:
                        continue
                return begin + at, self.chunk_of(row, begin + at)
            # On to the next run.
            chunk += 1
            while chunk < high and starts[chunk] == self.ends[chunk - 1]:
                chunk += 1
        return None

    def chunk_of(self, row: int, offset: int) -> int:
        """The chunk of a row that holds the byte at `offset`; -1 if none does."""
        low, high = int(self.chunks.bounds[row]), int(self.chunks.bounds[row + 1])
        chunk = low + int(np.searchsorted(self.chunks.starts[low:high], offset, "right")) - 1
        return chunk if chunk >= low and offset < self.ends[chunk] else -1

    def header(self, row: int, offset: int, chunk: int) -> tuple[int, int] | None:
        """(type, length) of the header at `offset`, None if it is missing or implausible."""
        data = self.read(row, chunk, offset, HEADER_BYTES)
        if len(data) < HEADER_BYTES:
            return None
        kind, version, length = _unpack_header(data)
        return (kind, length) if _plausible(kind, version, length) else None

    def read(self, row: int, chunk: int, offset: int, count: int) -> bytes:
        """Up to `count` bytes from `offset` in `chunk` on, ending at the first gap."""
        chunks, high = self.chunks, int(self.chunks.bounds[row + 1])
        parts: list[memoryview] = []
        while chunk < high and count > 0 and chunks.starts[chunk] <= offset < self.ends[chunk]:
            take = min(count, int(self.ends[chunk]) - offset)
            at = int(chunks.buffer_offsets[chunk]) + offset - int(chunks.starts[chunk])
            parts.append(self.views[int(chunks.buffer_nos[chunk])][at : at + take])
            offset += take
            count -= take
            chunk += 1
        return b"".join(parts)


def _first_five(buffer: memoryview | bytes, at: NDArray[np.int64]) -> NDArray[np.int64]:
    """The five bytes at each position as one number; 0 where fewer than eight are left, or at -1.

    Eight are taken, as one unaligned number: five by themselves would take five times as long.
    """
    count = len(buffer) - 7
    outside = (at < 0) | (at >= count)
    if count < 1:
        return np.zeros(len(at), np.int64)
    words = np.ndarray(count, ">u8", buffer, strides=(1,))
    raw = (words[np.where(outside, 0, at)] >> 24).astype(np.int64)
    raw[outside] = 0
    return raw
