"""Table `repeats`: what retransmitted bytes carry, and whom their loss delayed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import column, empty_array, rows_equal
from capture_analyzer.model.deferred import Deferred
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class Repeats(Deferred):
    """One element a stretch of one TLS record, frame and exchange, by packet_no, then offset.

    A segment that was sent again has a row for each such stretch in it; then, where it filled a
    hole, one (`behind`) for each other exchange whose bytes had come and could not be read
    before: HTTP/2's streams share one byte stream, and so do pipelined answers. Which exchange
    bytes belong to is read from the frames; in HTTP/1.1, and without keys, it is the last one that
    had begun. Empty until `complete` is called.
    """

    packet_no: NDArray[np.int32] = column(
        "The segment that was sent again.", default_factory=empty_array(np.int32)
    )
    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    from_client: NDArray[np.bool_] = column(
        "Direction of the data.", default_factory=empty_array(np.bool_)
    )
    behind: NDArray[np.bool_] = column(
        "These bytes were not lost: they waited behind those that were.",
        default_factory=empty_array(np.bool_),
    )
    offset: NDArray[np.int64] = column(
        "Stream offset of the stretch; where behind, of the first byte that waited.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    length: NDArray[np.int64] = column(
        "Its length; 0 where behind.", unit="bytes", default_factory=empty_array(np.int64)
    )
    tls_record: NDArray[np.int64] = column(
        "Row of table tls_records; -1 = no TLS record.", default_factory=empty_array(np.int64)
    )
    frame: NDArray[np.int64] = column(
        "Row of table frames; -1 = no HTTP/2 frame that could be read.",
        default_factory=empty_array(np.int64),
    )
    stream_id: NDArray[np.int32] = column(
        "HTTP/2 stream; -1 = none.", default_factory=empty_array(np.int32)
    )
    exchange_no: NDArray[np.int32] = column(
        "Exchange; -1 = none.", default_factory=empty_array(np.int32)
    )
    delayed_ns: NDArray[np.int64] = column(
        "How long the receiver waited for them, from when it would have read them; 0 = it had them "
        "before; NO_TIME = can't be known, or this copy was lost too.",
        unit="ns",
        default_factory=empty_array(np.int64),
    )

    def __len__(self) -> int:
        return len(self.packet_no)

    def rows_of(self, packet_no: int) -> slice:
        """The rows of one packet, once complete."""
        return rows_equal(self.packet_no, packet_no)
