"""Bytes that can't be mapped as they are, put where they can be."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable
from typing import Final

IN_MEMORY_BYTES: Final = 4 << 20
"""So much stays in memory; more goes into a temporary file."""

DEFAULT_LIMIT_BYTES: Final = 8 << 30
"""Largest spool. Traffic compresses to a third or so; a small file that unpacks to more than
this is a trap rather than a capture, and would fill the disk."""


def spool(parts: Iterable[bytes], limit: int) -> tuple[memoryview | bytes, bool]:
    """Gather parts into one buffer.

    The temporary file has no name: it is gone when the buffer is, whatever happens.

    Args:
        parts: the bytes, in order; no more of them are taken than are needed.
        limit: most bytes kept.

    Returns:
        The buffer, and whether the limit cut it short.

    Raises:
        OSError: there is no room for it.
    """
    size = 0
    over = False
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as file:
        for part in parts:
            over = len(part) > limit - size
            size += file.write(part[: limit - size])
            if over:
                break
        if size <= IN_MEMORY_BYTES:
            file.seek(0)
            return file.read(), over
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), over
