"""Compressed data in frames of blocks: zstd (RFC 8878) and lz4 (its frame format, 1.6.1).

The blocks say how long they are, so they go to the decompressor one by one. That bounds what
comes out at a time (a block holds little), and what comes before damage is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

READ_BYTES: Final = 64 << 10

SKIPPABLE: Final = range(0x184D2A50, 0x184D2A60)
"""Magic numbers of frames to pass over, the same for both."""

MAX_WINDOW_BYTES: Final = 128 << 20
"""How far back zstd may refer: what its own program takes without being asked for more."""

ZSTD_BLOCK_BYTES: Final = 128 << 10
LZ4_BLOCK_BYTES: Final = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}


class _CutError(Exception):
    """The input ended inside a frame."""


class _BadError(Exception):
    """The input can't be decompressed.

    Attributes:
        problem: see `Framed.problem`.
    """

    def __init__(self, problem: str = "damaged") -> None:
        super().__init__(problem)
        self.problem = problem


class Framed:
    """Decompresses frames, one after the other (see `Unpacker`).

    Attributes:
        problem: after iterating: "", "truncated", "damaged", "window" or "trailing".
    """

    magic: int

    def __init__(self, read: Callable[[int], bytes]) -> None:
        """Decompress what `read(count)` returns; it returns b"" at the end."""
        self._read = read
        self._rest = b""
        self.problem = ""

    def __iter__(self) -> Iterator[bytes]:
        """The decompressed bytes, in parts of bounded size, up to a problem."""
        try:
            first = True
            while self._more():
                try:
                    (magic,) = struct.unpack("<I", self._take(4))
                except _CutError:
                    self.problem = "truncated" if first else "trailing"
                    return
                first = False
                if magic in SKIPPABLE:
                    self._skip(*struct.unpack("<I", self._take(4)))
                elif magic == self.magic:
                    yield from self._frame(struct.pack("<I", magic))
                else:
                    self.problem = "trailing"
                    return
        except _CutError:
            self.problem = "truncated"
        except _BadError as error:
            self.problem = error.problem

    def _frame(self, magic: bytes) -> Iterator[bytes]:
        """Decompress a frame, from behind its magic number on."""
        raise NotImplementedError

    def _more(self) -> bool:
        if not self._rest:
            self._rest = self._read(READ_BYTES)
        return bool(self._rest)

    def _take(self, count: int) -> bytes:
        """Exactly so many bytes of input."""
        if len(self._rest) < count:
            parts, have = [self._rest], len(self._rest)
            while have < count:
                part = self._read(max(READ_BYTES, count - have))
                if not part:
                    raise _CutError
                parts.append(part)
                have += len(part)
            self._rest = b"".join(parts)
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken

    def _skip(self, count: int) -> None:
        while count:
            if not self._more():
                raise _CutError
            part = min(count, len(self._rest))
            self._rest = self._rest[part:]
            count -= part


class Zstd(Framed):
    """Decompresses zstd frames."""

    magic = 0xFD2FB528

    def _frame(self, magic: bytes) -> Iterator[bytes]:
        import zstandard

        head = self._take(1)
        descriptor = head[0]
        single = bool(descriptor & 0x20)
        size_bytes = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
        window_bytes = 0 if single else 1
        dictionary_bytes = (0, 1, 2, 4)[descriptor & 3]
        rest = self._take(window_bytes + dictionary_bytes + size_bytes)
        if single:
            window = int.from_bytes(rest[dictionary_bytes:], "little")
        else:
            base = 1 << (10 + (rest[0] >> 3))
            window = base + base // 8 * (rest[0] & 7)
        if window > MAX_WINDOW_BYTES:
            raise _BadError("window")
        unpacker: Any = zstandard.ZstdDecompressor().decompressobj()
        try:
            unpacker.decompress(magic + head + rest)
            last = False
            while not last:
                block = self._take(3)
                number = int.from_bytes(block, "little")
                last, kind, size = bool(number & 1), number >> 1 & 3, number >> 3
                if kind == 3 or size > ZSTD_BLOCK_BYTES:
                    raise _BadError
                block += self._take(1 if kind == 1 else size)
                yield unpacker.decompress(block)
            if descriptor & 4:
                unpacker.decompress(self._take(4))  # the check sum
        except zstandard.ZstdError:
            raise _BadError from None


class Lz4(Framed):
    """Decompresses lz4 frames."""

    magic = 0x184D2204

    def _frame(self, magic: bytes) -> Iterator[bytes]:
        import lz4.frame

        head = self._take(2)
        flags = head[0]
        longest = LZ4_BLOCK_BYTES.get(head[1] >> 4 & 7)
        if flags >> 6 != 1 or longest is None:
            raise _BadError
        head += self._take((8 if flags & 8 else 0) + (4 if flags & 1 else 0) + 1)
        sum_bytes = 4 if flags & 0x10 else 0
        unpacker: Any = lz4.frame.LZ4FrameDecompressor()
        try:
            unpacker.decompress(magic + head)
            while True:
                mark = self._take(4)
                size = int.from_bytes(mark, "little") & 0x7FFFFFFF
                if mark == b"\0\0\0\0":
                    break
                if size > longest:
                    raise _BadError
                # With room for a whole block nothing stays behind in the decompressor.
                yield unpacker.decompress(mark + self._take(size + sum_bytes), longest)
            unpacker.decompress(mark + self._take(4 if flags & 4 else 0))
        except (RuntimeError, EOFError):
            raise _BadError from None
