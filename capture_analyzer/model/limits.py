"""Tables `limits` and `queues`: what held a TCP sender back, and where round trips grew."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import column, empty_array
from capture_analyzer.model.quick_dataclass import quick_dataclass

LIMITS: Final[dict[str, str]] = {
    "zero_window": "the receiver had no room: it offered a window of 0, and data waited",
    "window_full": "the offered window was used up to its last segment, until it moved on",
    "congestion_window": "an acknowledgement was needed before more was sent, though the window "
    "offered room",
    "idle_restart": "likewise, because the sender had started over after an idle time",
    "nagle_delayed_ack": "a small segment was held until a delayed acknowledgement came",
    "nagle": "small segments were held until the acknowledgement of the one before, which came "
    "at once",
}
"""What can hold a sender back, with its meaning."""

LIMIT_NAMES: Final[tuple[str, ...]] = tuple(LIMITS)
LIMIT_CODE: Final[dict[str, int]] = {name: code for code, name in enumerate(LIMIT_NAMES)}


@quick_dataclass
class Limits:
    """One element a stretch of time in each array, by connection, then from_ns.

    A stretch begins with the last segment that could be sent and ends with the next one, as
    seen at the capture point. The stretches of `nagle` are whole: how long the data of the
    second segment really waited is not known, save that it was no longer.
    """

    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    from_client: NDArray[np.bool_] = column(
        "Direction of the data that was held.", default_factory=empty_array(np.bool_)
    )
    kind: NDArray[np.uint8] = column(
        "Index into LIMIT_NAMES.", names=LIMIT_NAMES, default_factory=empty_array(np.uint8)
    )
    from_ns: NDArray[np.int64] = column("Begin.", unit="ns", default_factory=empty_array(np.int64))
    to_ns: NDArray[np.int64] = column("End.", unit="ns", default_factory=empty_array(np.int64))
    from_packet_no: NDArray[np.int32] = column(
        "The last segment before it.", default_factory=empty_array(np.int32)
    )
    to_packet_no: NDArray[np.int32] = column(
        "The segment that ended it; 0 = none came.", default_factory=empty_array(np.int32)
    )
    freed_packet_no: NDArray[np.int32] = column(
        "The acknowledgement or window update that let it go; 0 = none came.",
        default_factory=empty_array(np.int32),
    )
    in_flight_bytes: NDArray[np.int64] = column(
        "Bytes that were not acknowledged meanwhile.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    confidence: NDArray[np.float32] = column("0 to 1.", default_factory=empty_array(np.float32))

    def __len__(self) -> int:
        return len(self.from_ns)


@quick_dataclass
class Queues:
    """One element a stretch of a transfer with long round trips in each array, by connection.

    A stretch has at least five samples of the round trip between the capture point and one
    side that are far above the smallest one of the connection, while data was in flight.
    """

    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    from_client: NDArray[np.bool_] = column(
        "Direction of the transfer.", default_factory=empty_array(np.bool_)
    )
    from_ns: NDArray[np.int64] = column(
        "First long round trip.", unit="ns", default_factory=empty_array(np.int64)
    )
    to_ns: NDArray[np.int64] = column("Last.", unit="ns", default_factory=empty_array(np.int64))
    samples: NDArray[np.int64] = column(
        "Long round trips among its samples.", default_factory=empty_array(np.int64)
    )
    smallest_ns: NDArray[np.int64] = column(
        "Smallest round trip of the connection, likewise measured.",
        unit="ns",
        default_factory=empty_array(np.int64),
    )
    typical_ns: NDArray[np.int64] = column(
        "Median of the long ones.", unit="ns", default_factory=empty_array(np.int64)
    )
    largest_ns: NDArray[np.int64] = column(
        "Longest of them.", unit="ns", default_factory=empty_array(np.int64)
    )
    first_packet_no: NDArray[np.int32] = column(
        "Packet that ended the first.", default_factory=empty_array(np.int32)
    )
    largest_packet_no: NDArray[np.int32] = column(
        "Packet that ended the longest.", default_factory=empty_array(np.int32)
    )
    last_packet_no: NDArray[np.int32] = column(
        "Packet that ended the last.", default_factory=empty_array(np.int32)
    )

    def __len__(self) -> int:
        return len(self.from_ns)
