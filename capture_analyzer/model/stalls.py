"""Table `stalls`: silences of TCP connections, and why nobody sent."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import column, empty_array, rows_equal
from capture_analyzer.model.deferred import Deferred
from capture_analyzer.model.quick_dataclass import quick_dataclass

PARTIES: Final = ("unknown", "client", "server", "receiver", "sender", "network", "capture")
"""Whose a stall was. "sender" and "receiver" are those of the direction that was held."""

STALLS: Final[dict[str, tuple[str, str]]] = {
    "unknown": ("unknown", "the evidence does not tell"),
    "capture_gap": ("capture", "packets of that time are missing from the capture"),
    "handshake": ("network", "a SYN or SYN-ACK was not answered and came again"),
    "timeout_again": ("network", "a repeat was lost too: the timer ran once more, for longer"),
    "timeout_tail": ("network", "the last segment was lost, and nothing behind it showed it"),
    "timeout_small_flight": (
        "network",
        "a segment was lost with fewer than four in flight: too few for three duplicate ACKs",
    ),
    "timeout": ("network", "several segments or their reports were lost, until the timer ran out"),
    "repeat_needless": ("network", "the data had arrived: its acknowledgement was lost or late"),
    "tail_probe": ("network", "the last segment was lost, until a tail loss probe repeated it"),
    "fast_repair": ("network", "a lost segment was reported, and repeated on that report"),
    "repeat": ("network", "data came again; how its sender came to that can't be told"),
    "zero_window": ("receiver", "the receiver had no room"),
    "window_full": ("receiver", "all of the receiver's window was in flight"),
    "congestion_window": (
        "network",
        "the congestion window was used up, until an acknowledgement came",
    ),
    "delayed_ack": ("receiver", "the receiver held its acknowledgement back"),
    "nagle": (
        "sender",
        "Nagle's algorithm held a small segment until the one before was acknowledged",
    ),
    "server_think": ("server", "it was the server's turn: all of the client's data was there"),
    "server_pause": ("server", "the server had begun, and stopped for a while"),
    "client_idle": ("client", "it was the client's turn, and it wanted nothing"),
    "client_pause": ("client", "the client had begun, and stopped for a while"),
    "idle": ("unknown", "neither side had anything to say"),
    "path_delay": ("network", "what was in flight, or its acknowledgement, took so long"),
}
"""What can make a connection silent: whose it was, and the meaning."""

STALL_NAMES: Final[tuple[str, ...]] = tuple(STALLS)
STALL_CODE: Final[dict[str, int]] = {name: code for code, name in enumerate(STALL_NAMES)}


@quick_dataclass
class Stalls(Deferred):
    """One element a silence in each array, by connection, then from_ns.

    A silence is the time between two packets of a connection, whoever sent them, that is longer
    than min(2 · SRTT, RTO) at its begin, of the whole path (RFC 6298; with the 200 ms that Linux
    has above SRTT at least; a second where no round trip is known), and than a millisecond.
    Empty until `complete` is called.
    """

    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    from_client: NDArray[np.bool_] = column(
        "Direction of the data that was missing meanwhile.", default_factory=empty_array(np.bool_)
    )
    cause: NDArray[np.uint8] = column(
        "Index into STALL_NAMES.", names=STALL_NAMES, default_factory=empty_array(np.uint8)
    )
    party: NDArray[np.uint8] = column(
        "Whose it was: index into PARTIES.", names=PARTIES, default_factory=empty_array(np.uint8)
    )
    from_ns: NDArray[np.int64] = column("Begin.", unit="ns", default_factory=empty_array(np.int64))
    to_ns: NDArray[np.int64] = column("End.", unit="ns", default_factory=empty_array(np.int64))
    least_ns: NDArray[np.int64] = column(
        "What it had to be longer than.", unit="ns", default_factory=empty_array(np.int64)
    )
    from_packet_no: NDArray[np.int32] = column(
        "The packet before it.", default_factory=empty_array(np.int32)
    )
    to_packet_no: NDArray[np.int32] = column(
        "The packet that ended it.", default_factory=empty_array(np.int32)
    )
    in_flight_bytes: NDArray[np.int64] = column(
        "Of the direction, not acknowledged meanwhile as far as the capture had seen.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    confidence: NDArray[np.float32] = column(
        "0 to 1, in the cause.", default_factory=empty_array(np.float32)
    )

    def __len__(self) -> int:
        return len(self.from_ns)

    def rows_of(self, connection_no: int) -> slice:
        """The silences of one connection, once complete."""
        return rows_equal(self.connection_no, connection_no)
