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
        "_origins",
        "_packet_nos",
        "_seen_ns",
        "_spans",
        "_usable_ns",
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
        self.starts = _numbers(stream.starts)
        self.ends = _numbers(stream.starts + stream.lengths)
        self.captured_end = self.ends[-1] if len(self.ends) else 0
        self.end = max(stream.end, self.captured_end)
        # What is looked at a few times becomes a Python number only then.
        self._packet_nos = stream.packet_nos.data
        self._seen_ns = stream.seen_ns.data
        self._usable_ns = stream.usable_ns.data
        origins = stream.origins
        self._origins = None if origins is None else origins.data
        self._spans: _Spans | None = None
        self._gaps: list[tuple[int, int]] | None = None
        self.solid = b""
        self.shift = self._first = 0
        if stream.solid and len(self.starts):
            buffer = stream.buffers[stream.buffer_nos[0]]
            if isinstance(buffer, bytes):
                self._first = self.starts[0]
                self.solid, self.shift = buffer, int(stream.buffer_offsets[0]) - self._first

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
        if self._origins is None or not len(self.starts):
            return offset
        chunk = max(bisect_right(self.starts, offset) - 1, 0)
        origin: int = self._origins[chunk]
        return origin + offset - self.starts[chunk]

    def packet_no(self, chunk: int) -> int:
        """The packet that brought a chunk."""
        packet_no: int = self._packet_nos[chunk]
        return packet_no

    def seen_ns(self, chunk: int) -> int:
        """When a chunk was captured."""
        seen_ns: int = self._seen_ns[chunk]
        return seen_ns

    def usable_ns(self, chunk: int) -> int:
        """When the receiver's application could use a chunk."""
        usable_ns: int = self._usable_ns[chunk]
        return usable_ns


def _numbers(values: NDArray[np.integer]) -> Sequence[int]:
    return values.tolist() if len(values) <= MAX_LISTED else values.data


class _Spans:
    """Where the bytes of a stream lie: stretches of one buffer, of one chunk or several."""

    def __init__(self, stream: ByteStream) -> None:
        starts, lengths, places = stream.starts, stream.lengths, stream.buffer_offsets
        begins = np.ones(len(stream), np.bool_)
        begins[1:] = (
            (starts[1:] != starts[:-1] + lengths[:-1])
            | (places[1:] != places[:-1] + lengths[:-1])
            | (stream.buffer_nos[1:] != stream.buffer_nos[:-1])
        )
        first = np.flatnonzero(begins)
        last = np.append(first, len(stream))[1:] - 1
        self._starts = _numbers(starts[first])
        self._ends = _numbers(starts[last] + lengths[last])
        self._shifts = _numbers(places[first] - starts[first])
        self._buffer_nos = _numbers(stream.buffer_nos[first])
        self._views = [memoryview(buffer) for buffer in stream.buffers]

    def read(self, start: int, stop: int) -> bytes:
        """As `Source.read`."""
        starts, ends = self._starts, self._ends
        index = bisect_right(starts, start) - 1
        if index < 0 or start >= ends[index]:
            return b""
        if stop <= ends[index]:
            return bytes(self._part(index, start, stop))
        parts = [self._part(index, start, ends[index])]
        index += 1
        while index < len(starts) and starts[index] == ends[index - 1] and starts[index] < stop:
            parts.append(self._part(index, starts[index], min(ends[index], stop)))
            index += 1
        return b"".join(parts)

    def _part(self, index: int, start: int, stop: int) -> memoryview:
        shift = self._shifts[index]
        return self._views[self._buffer_nos[index]][start + shift : stop + shift]
