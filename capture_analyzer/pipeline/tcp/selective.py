"""Selective acknowledgements as stream offsets (RFC 2018), and duplicate ones (RFC 2883)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments

MAX_BLOCKS = 4  # as many fit into the TCP options


@quick_dataclass
class Selective:
    """Elements with SACK blocks, ascending; offsets are keys of the peer's stream.

    Attributes:
        element: which packets.
        left, right: blocks, one row a packet, MAX_BLOCKS columns; absent ones are 0, 0.
        highest: highest right edge so far in this direction.
        repeated_element: of these, the packets that report data received twice (D-SACK).
        repeated_left, repeated_right: which data.
    """

    element: NDArray[np.intp]
    left: Ints
    right: Ints
    highest: Ints
    repeated_element: NDArray[np.intp]
    repeated_left: Ints
    repeated_right: Ints

    def at(self, last: Ints, segments: Segments) -> Ints:
        """Row of the last packet with blocks up to each element, in its stream; -1 = none."""
        row = np.searchsorted(self.element, last, "right") - 1
        known = (row >= 0) & (last >= 0)
        found = self.element[np.maximum(row, 0)] if len(self.element) else np.zeros_like(last)
        known &= segments.stream[found] == segments.stream[np.maximum(last, 0)]
        return np.where(known, row, -1)


def read_blocks(packets: Packets, segments: Segments) -> Selective:
    """The SACK blocks of a batch."""
    count = packets.sack_count[segments.index]
    element = np.flatnonzero(count)
    index = segments.index[element]
    stream = segments.stream[element]
    peer_floor = (stream ^ 1) * SPAN
    left = np.zeros((len(element), MAX_BLOCKS), np.int64)
    right = np.zeros_like(left)
    for block in range(MAX_BLOCKS):
        rows = np.flatnonzero(count[element] > block)
        at = packets.sack_first[index[rows]] + block
        # Offsets count from the acknowledgement, which has been unwrapped already.
        ack, acked = packets.ack[index[rows]], segments.acked[element[rows]]
        for raw, column in ((packets.sack_left, left), (packets.sack_right, right)):
            distance = (raw[at] - ack).view(np.int32)
            column[rows, block] = np.maximum(acked + distance, 0) + peer_floor[rows]
    bad = right < left
    left[bad] = right[bad] = 0
    # As one running maximum over all streams, then as keys of the peer's stream again.
    floor = stream * SPAN - peer_floor
    highest = np.maximum.accumulate(np.maximum(right.max(axis=1, initial=0), peer_floor) + floor)
    highest -= floor
    # RFC 2883, section 4: the first block repeats what is acknowledged, or lies in the second.
    repeated = (right[:, 0] > left[:, 0]) & (
        (right[:, 0] <= segments.acked[element] + peer_floor)
        | ((left[:, 0] >= left[:, 1]) & (right[:, 0] <= right[:, 1]))
    )
    return Selective(
        element=element,
        left=left,
        right=right,
        highest=highest,
        repeated_element=element[repeated],
        repeated_left=left[repeated, 0],
        repeated_right=right[repeated, 0],
    )


def covered(selective: Selective, row: Ints, begin: Ints, end: Ints) -> Bools:
    """Whether one block of a row holds [begin, end); False where row is -1."""
    if not len(selective.element):
        return np.zeros(len(row), np.bool_)
    inside = (selective.left[row] <= begin[:, None]) & (selective.right[row] >= end[:, None])
    return inside.any(axis=1) & (row >= 0)
