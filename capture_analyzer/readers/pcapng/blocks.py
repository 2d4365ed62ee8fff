"""The blocks of a pcapng file: how they follow each other, and their options."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.wire.windows import Bytes, Offsets, Windows, column

SECTION_HEADER: Final = 0x0A0D0D0A  # the same in either byte order
INTERFACE: Final = 1
OBSOLETE_PACKET: Final = 2
SIMPLE_PACKET: Final = 3
NAMES: Final = 4
STATISTICS: Final = 5
ENHANCED_PACKET: Final = 6
JOURNAL: Final = 9
SECRETS: Final = 10
CUSTOM: Final = (0xBAD, 0x40000BAD)

BYTE_ORDER_MAGIC: Final = 0x1A2B3C4D
SECTION_HEADER_BYTES: Final = 28
LEAST_BLOCK_BYTES: Final = 12
TRAILER_BYTES: Final = 4

MAX_BLOCK_BYTES: Final = 16 << 20
"""A longer block is damage: packets have at most 256 KiB, and name lists, secrets or journal
entries of megabytes are not seen."""

_END_OF_OPTIONS: Final = 0


def impossible_length(length: int) -> bool:
    """Whether no block can have this total length."""
    return length < LEAST_BLOCK_BYTES or length % 4 != 0 or length > MAX_BLOCK_BYTES


def block_length(buffer: memoryview | bytes, order: str, at: int) -> int:
    """The total length of the block at `at`."""
    (length,) = struct.unpack_from(order + "I", buffer, at + 4)
    return int(length)


def options(
    buffer: memoryview | bytes, order: str, at: int, begin: int
) -> Iterator[tuple[int, bytes]]:
    """(code, value) of the options of a whole block, up to one that does not fit.

    Args:
        buffer: the file.
        order: byte order of the section.
        at: where the block begins.
        begin: where its options begin.
    """
    end = at + block_length(buffer, order, at) - TRAILER_BYTES
    while begin + 4 <= end:
        code, size = struct.unpack_from(order + "HH", buffer, begin)
        begin += 4
        if code == _END_OF_OPTIONS or begin + size > end:
            return
        yield code, bytes(buffer[begin : begin + size])
        begin += size + -size % 4


class Blocks:
    """The blocks of a section (see `walk.Records`); the next section header is not valid."""

    def __init__(self, windows: Windows, order: str) -> None:
        self._windows = windows
        self._order = order
        self._size = len(windows)
        self._head = struct.Struct(order + "II").unpack_from
        self._little = order == "<"

    def following(self, at: int) -> int:
        """Where the next block begins, or -1."""
        if at + LEAST_BLOCK_BYTES > self._size:
            return -1
        kind, length = self._head(self._windows.buffer, at)
        following: int = at + length
        if impossible_length(length) or following > self._size or kind == SECTION_HEADER:
            return -1
        return following

    def heads(self, at: Offsets) -> Bytes:
        """Type and length of many blocks."""
        return self._windows.at(at, 8)

    def all_following(self, at: Offsets, heads: Bytes) -> Offsets:
        """Where the next blocks begin."""
        length = column(heads, 4, self._order + "u4")
        bad = (length < LEAST_BLOCK_BYTES) | ((length & 3) != 0) | (length > MAX_BLOCK_BYTES)
        bad |= column(heads, 0, self._order + "u4") == SECTION_HEADER
        following: Offsets = at + length
        bad |= following > self._size
        if bad.any():
            following[bad] = -1
        return following

    def candidates(self, windows: Bytes, count: int) -> NDArray[np.bool_]:
        """What begins like an enhanced packet block: type, a length that is a multiple of 4."""
        kind = ENHANCED_PACKET.to_bytes(4, "little" if self._little else "big")
        high, low = (7, 4) if self._little else (4, 7)
        result: NDArray[np.bool_] = windows[:, high : high + count] == 0
        for index, byte in enumerate(kind):
            result &= windows[:, index : index + count] == byte
        result &= (windows[:, low : low + count] & 3) == 0
        return result

    def plausible(self, at: Offsets) -> NDArray[np.bool_]:
        """What has the same length at its end as at its beginning."""
        length = column(self.heads(at), 4, self._order + "u4").astype(np.int64)
        result: NDArray[np.bool_] = (length >= LEAST_BLOCK_BYTES) & (length <= MAX_BLOCK_BYTES)
        result &= at + length <= self._size
        trailers = self._windows.at(np.where(result, at + length - TRAILER_BYTES, 0), 4)
        result &= column(trailers, 0, self._order + "u4") == length
        return result
