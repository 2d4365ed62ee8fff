"""Taking gzip (RFC 1952) off a stream of bytes, keeping what can be kept of a damaged one."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Final

MAGIC: Final = b"\x1f\x8b\x08"
"""Identification and the only compression method there is."""

READ_BYTES: Final = 64 << 10
"""How much is read at a time. Small, since what follows a member is copied: a file of many
tiny members would cost much with more."""

PART_BYTES: Final = 1 << 20
"""How much is decompressed at most at a time: what bounds the memory used."""


def _up_to_damage(member: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """What can be decompressed of data with damage in it.

    A call that fails gives nothing, so the bytes go in one by one.
    """
    for index in range(len(data)):
        try:
            yield member.decompress(data[index : index + 1], PART_BYTES)
        except zlib.error:
            return


class Gunzip:
    """Decompresses one or more gzip members.

    Attributes:
        problem: after iterating, what was wrong with the data: "", "truncated" (it ends inside
            a member), "damaged" (it can't be decompressed further, or a check sum differs) or
            "trailing" (what follows the last member is no gzip).
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        """Decompress what `read(count)` returns; it returns b"" at the end."""
        self._read = read
        self.problem = ""

    def __iter__(self) -> Iterator[bytes]:
        """The decompressed bytes, in parts of at most PART_BYTES, up to a problem."""
        rest = self._read(READ_BYTES)
        first = True
        while rest:
            if not first:
                rest = rest.lstrip(b"\0")  # padding of block devices, as gzip(1) accepts it
                if 0 < len(rest) < 2:
                    rest += self._read(READ_BYTES)
                if not rest:
                    rest = self._read(READ_BYTES)
                    continue
                if not rest.startswith(MAGIC[:2]):
                    self.problem = "trailing"
                    return
            first = False
            member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
            while not member.eof:
                before = member.copy()  # about 40 KB
                try:
                    part = member.decompress(rest, PART_BYTES)
                except zlib.error:
                    self.problem = "damaged"
                    yield from _up_to_damage(before, rest)
                    return
                if part:
                    yield part
                rest = member.unconsumed_tail
                if not rest and not member.eof and not part:
                    rest = self._read(READ_BYTES)
                    if not rest:
                        self.problem = "truncated"
                        return
            rest = member.unused_data or self._read(READ_BYTES)
