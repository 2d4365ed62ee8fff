"""The packets of some connections, found at once.

A scan from a connection's first packet to its last costs as much as the capture is long, for
each of them: too much where thousands have the same fault.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import distinct
from capture_analyzer.model.packets import Packets


def rows_by_connection(packets: Packets, numbers: Iterable[int]) -> dict[int, NDArray[np.intp]]:
    """Indices of the packets of each of these connections, ascending."""
    wanted = distinct(np.fromiter(numbers, np.int32))
    rows = np.flatnonzero(np.isin(packets.connection_no, wanted))
    rows = rows[np.argsort(packets.connection_no[rows], kind="stable")]
    bounds = np.searchsorted(packets.connection_no[rows], wanted[1:])
    return dict(zip(wanted.tolist(), np.split(rows, bounds), strict=True)) if len(wanted) else {}
