"""Where big columns lie: in memory, in memory that workers share, or in files that are mapped."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Room:
    """Room for the columns of a capture.

    Args:
        shared: workers write into columns: they must lie in memory that processes share.
    """

    def __init__(self, *, shared: bool = False) -> None:
        self._shared = shared

    def zeros(self, count: int, kind: type[np.generic]) -> NDArray[Any]:
        """A column of this many zeros."""
        size = count * np.dtype(kind).itemsize
        if not self._shared or not size:
            return np.zeros(count, kind)
        return np.frombuffer(mmap.mmap(-1, size), kind)

    def file(self) -> int:
        """A file without a name, open for reading and writing, empty."""
        if hasattr(os, "memfd_create"):
            return os.memfd_create("capture-analyzer")
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())
