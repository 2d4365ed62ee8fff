"""Table `frames`: HTTP/2 frames that could be read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import column, empty_array
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class Frames:
    """One element an HTTP/2 frame in each array.

    Ordered by connection, then direction (client first), then offset.
    """

    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    from_client: NDArray[np.bool_] = column(
        "Sent by the client.", default_factory=empty_array(np.bool_)
    )
    stream_id: NDArray[np.int32] = column(
        "Stream; 0 = the connection as a whole.", default_factory=empty_array(np.int32)
    )
    type: NDArray[np.uint8] = column(
        "Its type, as numbered in RFC 9113, section 6.", default_factory=empty_array(np.uint8)
    )
    flags: NDArray[np.uint8] = column("Its flags.", default_factory=empty_array(np.uint8))
    offset: NDArray[np.int64] = column(
        "Transport stream offset of its header.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    end_offset: NDArray[np.int64] = column(
        "Transport stream offset behind it.", unit="bytes", default_factory=empty_array(np.int64)
    )

    def __len__(self) -> int:
        return len(self.offset)
