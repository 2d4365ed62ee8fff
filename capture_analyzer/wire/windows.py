"""Fixed-width windows of a buffer, taken at many offsets at once.

This is how headers are decoded by whole-array operations: one gather copies the same number
of bytes from every packet into the rows of a small array, and each header field is then one
strided column of it. A gather costs about one cache miss a row, whatever its width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]


class Windows:
    """The windows of one buffer.

    Bytes past the buffer's end read as zero, so callers check lengths (which they know from
    the packet) and never the buffer's bounds. Nothing is copied when it is made.

    Attributes:
        buffer: the bytes themselves.
    """

    __slots__ = ("_bytes", "_views", "buffer")

    def __init__(self, buffer: memoryview | bytes) -> None:
        self.buffer = buffer
        self._bytes: Bytes = np.frombuffer(buffer, np.uint8)
        self._views: dict[int, NDArray[np.void]] = {}

    def __len__(self) -> int:
        return len(self._bytes)

    def at(self, offsets: Offsets, width: int) -> Bytes:
        """The `width` bytes at each offset.

        Args:
            offsets: places in the buffer, each >= 0; those at or past its end give zeros.
            width: bytes in a window.

        Returns:
            An array of shape (len(offsets), width), a copy.
        """
        count = len(offsets)
        if not count:
            return np.empty((0, width), np.uint8)
        last = len(self._bytes) - width
        if int(offsets.max()) > last:
            return self._at_end(offsets, width, last)
        return self._view(width)[offsets].view(np.uint8).reshape(count, width)

    def _view(self, width: int) -> NDArray[np.void]:
        """Every window of this width: element i is the bytes from i on."""
        view = self._views.get(width)
        if view is None:
            shape = (len(self._bytes) - width + 1,)
            view = np.ndarray(shape, f"V{width}", self._bytes, strides=(1,))
            self._views[width] = view
        return view

    def _at_end(self, offsets: Offsets, width: int, last: int) -> Bytes:
        """As `at`, where some windows reach past the end (or the buffer is shorter than one)."""
        rows = np.zeros((len(offsets), width), np.uint8)
        inside = offsets <= last
        if last >= 0 and inside.any():
            rows[inside] = self.at(offsets[inside], width)
        for row in np.flatnonzero(~inside & (offsets < len(self._bytes))).tolist():
            part = self._bytes[int(offsets[row]) :][:width]
            rows[row, : len(part)] = part
        return rows


def column(windows: Bytes, offset: int, dtype: DTypeLike) -> NDArray[Any]:
    """One field of every window, as a view: the bytes at `offset` read as `dtype`.

    Args:
        windows: windows, one a row: an array of them, or the same part of each.
        offset: where the field begins in a window.
        dtype: its type with byte order, such as ">u2".
    """
    kind = np.dtype(dtype)
    return windows[:, offset : offset + kind.itemsize].view(kind)[:, 0]
