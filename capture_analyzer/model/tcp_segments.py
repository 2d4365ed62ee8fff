"""Table `tcp_segments`: where each segment stands in the byte streams of its connection."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import column, empty_array, rows_equal
from capture_analyzer.model.deferred import Deferred
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class TcpSegments(Deferred):
    """One element a TCP segment in each array, by connection, then packet_no.

    Offsets count the bytes of a direction, from 0 for the first byte behind the SYN, or, where
    no SYN was captured, for the first byte captured; a FIN counts as one. Empty until
    `complete` is called.
    """

    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    from_client: NDArray[np.bool_] = column("Who sent it.", default_factory=empty_array(np.bool_))
    packet_no: NDArray[np.int32] = column("Its packet.", default_factory=empty_array(np.int32))
    offset: NDArray[np.int64] = column(
        "Of its first byte of data.", unit="bytes", default_factory=empty_array(np.int64)
    )
    sent: NDArray[np.int64] = column(
        "Behind the last byte that its sender had sent up to here.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    acked: NDArray[np.int64] = column(
        "Behind the last byte of the other side that its sender had acknowledged up to here.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    peer_sent: NDArray[np.int64] = column(
        "Behind the last byte that the other side had sent up to here.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    peer_acked: NDArray[np.int64] = column(
        "Behind the last byte that the other side had acknowledged up to here.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    window_bytes: NDArray[np.int64] = column(
        "What it offers the other side to send beyond its acknowledgement; -1 = not known, as "
        "the window scale is not, or it acknowledges nothing.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    sack_first: NDArray[np.int32] = column(
        "Index of its first SACK block in `sack_from` and `sack_to`; 0 without any.",
        default_factory=empty_array(np.int32),
    )
    sack_count: NDArray[np.uint8] = column(
        "Number of its SACK blocks.", default_factory=empty_array(np.uint8)
    )
    # The SACK blocks of all rows, in their order: offsets in the other side's bytes.
    sack_from: NDArray[np.int64] = dataclasses.field(default_factory=empty_array(np.int64))
    sack_to: NDArray[np.int64] = dataclasses.field(default_factory=empty_array(np.int64))

    def __len__(self) -> int:
        return len(self.packet_no)

    def rows_of(self, connection_no: int) -> slice:
        """The rows of one connection, once complete."""
        return rows_equal(self.connection_no, connection_no)
