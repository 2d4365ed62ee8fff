"""Bytes that can't be mapped as they are, put where they can be."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable
from typing import Final

IN_MEMORY_BYTES: Final = 4 << 20
"""So much of a file stays in memory; more goes into a temporary file."""

ALL_IN_MEMORY_BYTES: Final = 64 << 20
"""Likewise of all files together."""

DEFAULT_LIMIT_BYTES: Final = 8 << 30
"""Most bytes spooled. Traffic compresses to a third or so; a small file that unpacks to more
than this is a trap rather than a capture, and would fill the disk."""


class Spool:
    """Takes bytes up to a limit for all of them together.

    Attributes:
        limit: most bytes taken.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit = limit
        self._left = limit
        self._memory_left = ALL_IN_MEMORY_BYTES

    def take(self, parts: Iterable[bytes]) -> tuple[memoryview | bytes, bool]:
        """Gather parts into one buffer.

        The temporary file has no name: it is gone when the buffer is, whatever happens.

        Args:
            parts: the bytes, in order; no more of them are taken than are needed.

        Returns:
            The buffer, and whether the limit cut it short.

        Raises:
            OSError: there is no room for it.
        """
        in_memory = min(IN_MEMORY_BYTES, self._memory_left)
        size = 0
        over = False
        with tempfile.SpooledTemporaryFile(max(in_memory, 1)) as file:
            for part in parts:
                over = len(part) > self._left - size
                size += file.write(part[: self._left - size])
                if over:
                    break
            self._left -= size
            if size <= in_memory:
                self._memory_left -= size
                file.seek(0)
                return file.read(), over
            file.flush()
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), over
