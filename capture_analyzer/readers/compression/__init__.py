"""Taking compression off a stream of bytes, keeping what can be kept of a damaged one.

======  ========================================================
gzip    RFC 1952
framed  what comes in frames of blocks: zstd (RFC 8878) and lz4
======  ========================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from capture_analyzer.readers.compression.framed import Lz4, Zstd
from capture_analyzer.readers.compression.gzip import Gunzip

__all__ = ["MAGIC_BYTES", "UNPACKERS", "Unpacker", "compression_of"]


class Unpacker(Protocol):
    """Decompresses a stream.

    Attributes:
        problem: after iterating, what was wrong with the data: "", "truncated" (it ends
            early), "damaged" (it can't be decompressed further, or a check sum differs),
            "window" (it needs more memory than a capture should) or "trailing" (what
            follows is not of this kind).
    """

    problem: str

    def __iter__(self) -> Iterator[bytes]:
        """The decompressed bytes, in parts of bounded size, up to a problem."""
        ...


UNPACKERS: Final[dict[str, tuple[bytes, Callable[[Callable[[int], bytes]], Unpacker]]]] = {
    "gzip": (b"\x1f\x8b\x08", Gunzip),
    "zstd": (b"\x28\xb5\x2f\xfd", Zstd),
    "lz4": (b"\x04\x22\x4d\x18", Lz4),
}
"""By name: first bytes, and what is made with a function that reads so many bytes at most."""

MAGIC_BYTES: Final = 4


def compression_of(start: bytes) -> str:
    """What a file that starts with these bytes is compressed with; "" for nothing known."""
    for name, (magic, _) in UNPACKERS.items():
        if start.startswith(magic):
            return name
    return ""
