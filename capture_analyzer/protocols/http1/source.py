"""Reads a ByteStream at any offset, and tells when and in which packet a byte came."""

from __future__ import annotations

from bisect import bisect_right

from capture_analyzer.model.byte_stream import ByteStream


class Source:
    """A ByteStream with its chunks as plain lists, which single look-ups read fastest.

    Attributes:
        end: offset behind the last byte known to have been sent.
        captured_end: offset behind the last captured byte.
    """

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.starts: list[int] = stream.starts.tolist()
        self.ends: list[int] = (stream.starts + stream.lengths).tolist()
        self.captured_end = self.ends[-1] if self.ends else 0
        self.end = max(stream.end, self.captured_end)
        self._shifts: list[int] = (stream.buffer_offsets - stream.starts).tolist()
        self._buffer_nos: list[int] = stream.buffer_nos.tolist()
        self._views = [memoryview(buffer) for buffer in stream.buffers]
        self._packet_nos: list[int] = stream.packet_nos.tolist()
        self._seen_ns: list[int] = stream.seen_ns.tolist()
        self._in_order_ns: list[int] = stream.in_order_ns.tolist()
        self._usable_ns: list[int] = stream.usable_ns.tolist()
        origins = stream.origins
        self._origins: list[int] | None = None if origins is None else origins.tolist()
        self._gaps: list[tuple[int, int]] | None = None

    def chunk(self, offset: int) -> int:
        """Index of the chunk that holds a byte, -1 if the capture lacks it."""
        index = bisect_right(self.starts, offset) - 1
        return index if index >= 0 and offset < self.ends[index] else -1

    def last_chunk(self, offset: int) -> int:
        """Index of the chunk with the last captured byte up to and at `offset`; -1 if none."""
        return bisect_right(self.starts, offset) - 1

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from `start` up to `stop`, ending early at the first gap."""
        index = bisect_right(self.starts, start) - 1
        if index < 0 or start >= self.ends[index]:
            return b""
        shift = self._shifts[index]
        view = self._views[self._buffer_nos[index]]
        if stop <= self.ends[index]:
            return bytes(view[start + shift : stop + shift])
        parts = [view[start + shift : self.ends[index] + shift]]
        index += 1
        while index < len(self.starts) and self.starts[index] == self.ends[index - 1]:
            if self.starts[index] >= stop:
                break
            shift = self._shifts[index]
            view = self._views[self._buffer_nos[index]]
            parts.append(view[self.starts[index] + shift : min(self.ends[index], stop) + shift])
            index += 1
        return b"".join(parts)

    def part(self, chunk: int, start: int, stop: int) -> memoryview:
        """The bytes from `start` up to `stop`, all of one chunk, without copying."""
        shift = self._shifts[chunk]
        return self._views[self._buffer_nos[chunk]][start + shift : stop + shift]

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
        for at, length in self._gaps[place:]:
            if at >= stop:
                break
            lacking += max(0, min(at + length, stop) - max(at, start))
        return lacking + max(0, stop - max(start, self.end))

    def in_transport(self, offset: int) -> int:
        """Where a byte lies in the transport's stream, in front of any decryption."""
        if self._origins is None or not self.starts:
            return offset
        return self.transport_of(max(bisect_right(self.starts, offset) - 1, 0), offset)

    def transport_of(self, chunk: int, offset: int) -> int:
        """Likewise, of a byte of which the chunk is known."""
        if self._origins is None:
            return offset
        return self._origins[chunk] + offset - self.starts[chunk]

    def times(self, chunk: int) -> tuple[int, int, int, int]:
        """When a chunk was seen, in order and usable, and the packet that brought it."""
        return (
            self._seen_ns[chunk],
            self._in_order_ns[chunk],
            self._usable_ns[chunk],
            self._packet_nos[chunk],
        )

    def packet_no(self, chunk: int) -> int:
        """The packet that brought a chunk."""
        return self._packet_nos[chunk]

    def seen_ns(self, chunk: int) -> int:
        """When a chunk was captured."""
        return self._seen_ns[chunk]

    def in_order_ns(self, chunk: int) -> int:
        """When all bytes up to a chunk's end had reached the receiver."""
        return self._in_order_ns[chunk]

    def usable_ns(self, chunk: int) -> int:
        """When the receiver's application could use a chunk."""
        return self._usable_ns[chunk]
