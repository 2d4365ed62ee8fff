"""The parts of some packets that are decoded next, in arrays side by side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.wire.windows import Windows


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
    """

    windows: Windows
    rows: NDArray[np.intp]
    at: NDArray[np.int64]
    length: NDArray[np.int64]
    captured: NDArray[np.int64]
    depth: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, kept: NDArray[np.bool_]) -> Area:
        """The areas of some of the packets."""
        return Area(
            self.windows,
            self.rows[kept],
            self.at[kept],
            self.length[kept],
            self.captured[kept],
            self.depth,
        )

    def behind(self, header_bytes: NDArray[np.int64] | int) -> Area:
        """What is left behind headers of this size."""
        return Area(
            self.windows,
            self.rows,
            self.at + header_bytes,
            self.length - header_bytes,
            self.captured - header_bytes,
            self.depth,
        )
