"""Table `windows`: what a TCP sender had in flight against its windows, segment by segment."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import column, empty_array, rows_equal
from capture_analyzer.model.deferred import Deferred
from capture_analyzer.model.quick_dataclass import quick_dataclass

UNKNOWN_BYTES: Final = -1
"""Stands for "can't be known" in columns of `Windows`."""


@quick_dataclass
class Windows(Deferred):
    """One element a segment with payload in each array, by connection, then packet_no.

    All as the sender knew it when it sent the segment: acknowledgements that were captured but
    can't have reached it yet (away from the sender) are not counted. Empty until `complete` is
    called.
    """

    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    from_client: NDArray[np.bool_] = column(
        "Direction of the segment.", default_factory=empty_array(np.bool_)
    )
    time_ns: NDArray[np.int64] = column(
        "When it passed.", unit="ns", default_factory=empty_array(np.int64)
    )
    packet_no: NDArray[np.int32] = column("The segment.", default_factory=empty_array(np.int32))
    in_flight_bytes: NDArray[np.int64] = column(
        "Sent, with this segment, and not cumulatively acknowledged; -1 = can't be known.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    window_bytes: NDArray[np.int64] = column(
        "The receiver's window: how much may be in flight; -1 = can't be known (no scale).",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    congestion_window_bytes: NDArray[np.int64] = column(
        "The congestion window is at least this: the most in flight since the stream began, since "
        "the last repair of a loss, or since the last idle time; -1 = can't be known (during a "
        "repair).",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )

    def __len__(self) -> int:
        return len(self.time_ns)

    def rows_of(self, connection_no: int) -> slice:
        """The segments of one connection, once complete."""
        return rows_equal(self.connection_no, connection_no)
