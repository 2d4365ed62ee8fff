"""The parts of some packets that are decoded next, in arrays side by side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.wire.windows import Bytes, Windows


def place(rows: NDArray[np.intp]) -> NDArray[np.intp] | slice:
    """Ascending rows as an index: a slice where they follow each other, which is faster."""
    first = int(rows[0])
    if int(rows[-1]) - first == len(rows) - 1:
        return slice(first, first + len(rows))
    return rows


@quick_dataclass
class Area:
    """What one layer of some packets hands to the next one.

    Attributes:
        windows: of the buffer that holds them all.
        rows: index of each packet, ascending.
        at: where what is to be decoded begins, in the buffer.
        length: how long it was on the wire.
        captured: how much of it the capture holds; can be negative.
        depth: how many tunnels these packets are inside of.
        heads: the first bytes of each packet, if they were gathered already.
        into: how many of them lie before `at`.
    """

    windows: Windows
    rows: NDArray[np.intp]
    at: NDArray[np.int64]
    length: NDArray[np.int64]
    captured: NDArray[np.int64]
    depth: int = 0
    heads: Bytes | None = None
    into: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def window(self, width: int) -> Bytes:
        """The first `width` bytes of each; what is behind the buffer's end reads as 0."""
        if self.heads is not None and self.into + width <= self.heads.shape[1]:
            return self.heads[:, self.into : self.into + width]
        return self.windows.at(self.at, width)

    def take(self, kept: NDArray[np.bool_]) -> Area:
        """The areas of some of the packets."""
        some = np.flatnonzero(kept)
        return Area(
            self.windows,
            self.rows[some],
            self.at[some],
            self.length[some],
            self.captured[some],
            self.depth,
            None if self.heads is None else self.heads.take(some, axis=0),
            self.into,
        )

    def behind(self, header_bytes: NDArray[np.int64] | int) -> Area:
        """What is left behind headers of this size."""
        heads = self.heads
        if isinstance(header_bytes, int):
            step = header_bytes
        else:
            step = int(header_bytes[0]) if len(header_bytes) else 0
            if heads is not None and (header_bytes != step).any():
                heads = None  # they would not be one block any more
        return Area(
            self.windows,
            self.rows,
            self.at + header_bytes,
            self.length - header_bytes,
            self.captured - header_bytes,
            self.depth,
            heads,
            self.into + step,
        )
