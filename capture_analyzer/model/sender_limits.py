"""Table `sender_limits`: what limited each TCP sender, from its first segment to its last."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import column, empty_array, rows_equal
from capture_analyzer.model.deferred import Deferred
from capture_analyzer.model.quick_dataclass import quick_dataclass

SENDER_LIMITS: Final[dict[str, str]] = {
    "unknown": "the evidence does not tell",
    "sending": "nothing: segments followed each other as fast as sender and network carry them",
    "application": "the sender's program: nothing was there to be sent (or the windows of HTTP/2 "
    "held it)",
    "nagle": "Nagle's algorithm: a small segment waited for an acknowledgement",
    "congestion_window": "the congestion window: an acknowledgement was needed before more was "
    "sent, though the receiver offered room",
    "receiver_window": "the receiver's window: it had no room, or all that it offered was used up",
    "recovery": "the network: lost or late segments, or their acknowledgements, were waited for "
    "and sent again",
}
"""What can limit a sender, with its meaning; where several did, the later one in this order."""

SENDER_LIMIT_NAMES: Final[tuple[str, ...]] = tuple(SENDER_LIMITS)
SENDER_LIMIT_CODE: Final[dict[str, int]] = {
    name: code for code, name in enumerate(SENDER_LIMIT_NAMES)
}


@quick_dataclass
class SenderLimits(Deferred):
    """One element a stretch of time in each array: by connection, direction (client first), time.

    The stretches of a direction touch, do not overlap, and reach from its first segment with
    payload to its last, or to the end of what held that up. A flight that a window let go
    belongs to the window: "sending" for no longer than a round trip between two stretches of
    one window counts as that. (Table `limits` has each single wait.) Instants are those of the
    capture point. Empty until `complete` is called.
    """

    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    from_client: NDArray[np.bool_] = column(
        "Direction of the data.", default_factory=empty_array(np.bool_)
    )
    limit: NDArray[np.uint8] = column(
        "Index into SENDER_LIMIT_NAMES.",
        names=SENDER_LIMIT_NAMES,
        default_factory=empty_array(np.uint8),
    )
    from_ns: NDArray[np.int64] = column("Begin.", unit="ns", default_factory=empty_array(np.int64))
    to_ns: NDArray[np.int64] = column("End.", unit="ns", default_factory=empty_array(np.int64))
    from_packet_no: NDArray[np.int32] = column(
        "The last segment with new data up to its begin.", default_factory=empty_array(np.int32)
    )
    to_packet_no: NDArray[np.int32] = column(
        "The last segment with new data up to its end.", default_factory=empty_array(np.int32)
    )
    bytes: NDArray[np.int64] = column(
        "New data sent behind its begin, up to its end.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    confidence: NDArray[np.float32] = column("0 to 1.", default_factory=empty_array(np.float32))

    def __len__(self) -> int:
        return len(self.from_ns)

    def rows_of(self, connection_no: int) -> slice:
        """The stretches of one connection, once complete."""
        return rows_equal(self.connection_no, connection_no)
