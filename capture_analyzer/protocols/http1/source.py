"""Reads a ByteStream at any offset, and tells when and in which packet a byte came."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream

MAX_LISTED: Final = 50_000
"""Numbers up to which a list, which is faster, holds them; it takes five times the memory."""


class Source:
    """A ByteStream for single look-ups: its chunks' bounds at hand, all else as it is needed.

    Attributes:
        stream: the stream.
        starts, ends: offsets of begin and end of each chunk.
        end: offset behind the last byte known to have been sent.
        captured_end: offset behind the last captured byte.
        solid: a buffer that holds all of it, where it lies end to end in one; empty elsewhere.
        shift: from an offset to the place in `solid`.
    """

    __slots__ = (
        "_first",
        "_gaps",
        "_spans",
        "captured_end",
        "end",
        "ends",
        "shift",
        "solid",
        "starts",
        "stream",
    )

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        starts, lengths = stream.starts, stream.lengths
        self.starts: Sequence[int] = []
        self.ends: Sequence[int] = []
        self.solid = b""
        self.captured_end = self.shift = self._first = 0
        self._gaps: list[tuple[int, int]] | None = None
        self._spans: _Spans | None = None
        if not len(starts):
            self.end = stream.end
            return
        self._first = first = starts.item(0)
        self.captured_end = captured_end = starts.item(-1) + lengths.item(-1)
        self.end = max(stream.end, captured_end)
        self.starts = _numbers(starts)
        if stream.solid:
            buffer = stream.buffers[stream.buffer_nos.item(0)]
            if isinstance(buffer, bytes):
                self.solid, self.shift = buffer, stream.buffer_offsets.item(0) - first
        if stream.solid and isinstance(self.starts, list):
            self.ends = [*self.starts[1:], captured_end]
        else:
            self.ends = _numbers(starts + lengths)

    def chunk(self, offset: int) -> int:
        """Index of the chunk that holds a byte, -1 if the capture lacks it."""
        index = bisect_right(self.starts, offset) - 1
        return index if index >= 0 and offset < self.ends[index] else -1

    def last_chunk(self, offset: int) -> int:
        """Index of the chunk with the last captured byte up to and at `offset`; -1 if none."""
        return bisect_right(self.starts, offset) - 1

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from `start` up to `stop`, ending early at the first gap."""
        if self.solid:
            if start < self._first:
                return b""
            return self.solid[start + self.shift : min(stop, self.captured_end) + self.shift]
        starts = self.starts
        index = bisect_right(starts, start) - 1
        if index < 0 or start >= (end := self.ends[index]):
            return b""
        following = index + 1
        if stop <= end or following == len(starts) or starts[following] > end:  # in one chunk
            stream = self.stream
            shift = stream.buffer_offsets.item(index) - starts[index]
            buffer = stream.buffers[stream.buffer_nos.item(index)]
            return bytes(buffer[start + shift : min(stop, end) + shift])
        if self._spans is None:
            self._spans = _Spans(self.stream)
        return self._spans.read(start, stop)

    def rest_of_chunk(self, offset: int) -> int:
        """Offset behind the chunk that holds a captured byte."""
        return self.ends[bisect_right(self.starts, offset) - 1]

    def next_captured(self, offset: int) -> int | None:
        """The first captured offset at or behind `offset`."""
        index = bisect_right(self.starts, offset) - 1
        if index >= 0 and offset < self.ends[index]:
            return offset
        return self.starts[index + 1] if index + 1 < len(self.starts) else None

    def missing(self, start: int, stop: int) -> int:
        """How many bytes of [start, stop) the capture lacks."""
        if self._gaps is None:
            first, captured_end = self._first, self.captured_end
            if self.stream.solid or self.stream.lengths.sum() == captured_end - first:
                begin = [(0, first)] if first else []
                rest = self.end - captured_end
                self._gaps = [*begin, (captured_end, rest)] if rest else begin
            else:
                self._gaps = self.stream.gaps()
        if not self._gaps:
            return max(0, stop - max(start, self.captured_end))
        lacking = 0
        place = max(0, bisect_right(self._gaps, (start,)) - 1)
        for number in range(place, len(self._gaps)):
            at, length = self._gaps[number]
            if at >= stop:
                break
            lacking += max(0, min(at + length, stop) - max(at, start))
        return lacking + max(0, stop - max(start, self.end))

    def in_transport(self, offset: int) -> int:
        """Where a byte lies in the transport's stream, in front of any decryption."""
        if self.stream.origins is None or not self.starts:
            return offset
        return self.origin(max(self.last_chunk(offset), 0), offset)

    def origin(self, chunk: int, offset: int) -> int:
        """Likewise, of a byte in or behind a chunk."""
        origins = self.stream.origins
        return offset if origins is None else origins.item(chunk) + offset - self.starts[chunk]

    def arrival(self, chunk: int) -> tuple[int, int, int]:
        """(packet that brought a chunk, when it was captured, when it was usable)."""
        stream = self.stream
        return (
            stream.packet_nos.item(chunk),
            stream.seen_ns.item(chunk),
            stream.usable_ns.item(chunk),
        )

    def packet_no(self, chunk: int) -> int:
        """The packet that brought a chunk."""
        return self.stream.packet_nos.item(chunk)

    def seen_ns(self, chunk: int) -> int:
        """When a chunk was captured."""
        return self.stream.seen_ns.item(chunk)

    def usable_ns(self, chunk: int) -> int:
        """When the receiver's application could use a chunk."""
        return self.stream.usable_ns.item(chunk)


def _numbers(values: NDArray[np.integer]) -> Sequence[int]:
    return values.tolist() if len(values) <= MAX_LISTED else values.data


class _Spans:
    """Where the bytes of a stream lie: stretches of one buffer, of one chunk or several."""

    def __init__(self, stream: ByteStream) -> None:
        starts, numbers = stream.starts, stream.buffer_nos
        ends = starts + stream.lengths
        shifts = stream.buffer_offsets - starts
        breaks = starts[1:] != ends[:-1]
        breaks |= shifts[1:] != shifts[:-1]
        breaks |= numbers[1:] != numbers[:-1]
        (last,) = breaks.nonzero()
        first = np.zeros(len(last) + 1, np.int64)
        first[1:] = last + 1
        self._starts = _numbers(starts[first])
        self._ends = _numbers(np.append(ends[last], ends[-1]))
        self._shifts = _numbers(shifts[first])
        self._buffer_nos = _numbers(numbers[first])
        self._buffers = stream.buffers

    def read(self, start: int, stop: int) -> bytes:
        """As `Source.read`, where `start` is captured."""
        starts, ends = self._starts, self._ends
        index = bisect_right(starts, start) - 1
        if stop <= ends[index]:
            shift = self._shifts[index]
            return bytes(self._buffers[self._buffer_nos[index]][start + shift : stop + shift])
        parts = [self._part(index, start, ends[index])]
        index += 1
        while index < len(starts) and starts[index] == ends[index - 1] and starts[index] < stop:
            parts.append(self._part(index, starts[index], min(ends[index], stop)))
            index += 1
        return b"".join(parts)

    def _part(self, index: int, start: int, stop: int) -> memoryview:
        shift = self._shifts[index]
        buffer = memoryview(self._buffers[self._buffer_nos[index]])
        return buffer[start + shift : stop + shift]
