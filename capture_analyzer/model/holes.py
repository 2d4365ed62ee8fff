"""Table `holes`: stretches of a stream that the receiver had to wait for."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import column, empty_array
from capture_analyzer.model.quick_dataclass import quick_dataclass

HOLE_KINDS: Final = ("loss", "reordering", "capture")
"""Names for the codes in `Holes.kind`: lost and sent again; overtaken on the way; there in
truth (the receiver acknowledged it) but missing from the capture."""


@quick_dataclass
class Holes:
    """One element a hole in each array, by connection, then opened_ns.

    A hole opens when the receiver would have read these bytes had they not been lost or
    late: when a later byte is there without them, or (tail loss, and the sender's own
    capture) when they were first sent. It is filled when they are there.
    """

    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    from_client: NDArray[np.bool_] = column(
        "Direction of the data.", default_factory=empty_array(np.bool_)
    )
    offset: NDArray[np.int64] = column(
        "Stream offset of its first byte.", unit="bytes", default_factory=empty_array(np.int64)
    )
    length: NDArray[np.int64] = column(
        "Its length.", unit="bytes", default_factory=empty_array(np.int64)
    )
    kind: NDArray[np.uint8] = column(
        "Index into HOLE_KINDS.", names=HOLE_KINDS, default_factory=empty_array(np.uint8)
    )
    opened_ns: NDArray[np.int64] = column(
        "When it opened.", unit="ns", default_factory=empty_array(np.int64)
    )
    filled_ns: NDArray[np.int64] = column(
        "When it was filled; NO_TIME = never in this capture.",
        unit="ns",
        default_factory=empty_array(np.int64),
    )
    opened_packet_no: NDArray[np.int32] = column(
        "Packet that showed it.", default_factory=empty_array(np.int32)
    )
    filled_packet_no: NDArray[np.int32] = column(
        "Packet that filled it; 0 = none.", default_factory=empty_array(np.int32)
    )
    confidence: NDArray[np.float32] = column(
        "0 to 1: that it was there and of this kind.", default_factory=empty_array(np.float32)
    )

    def __len__(self) -> int:
        return len(self.opened_ns)
