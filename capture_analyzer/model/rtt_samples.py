"""Table `rtt_samples`: round trips measured on data, one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import column, empty_array, rows_equal
from capture_analyzer.model.deferred import Deferred
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class RttSamples(Deferred):
    """One element a sample in each array, by connection, then time_ns, then answer.

    A sample is the time from a segment to the acknowledgement that ends exactly at its end, as
    seen at the capture point: the round trip between that and the side that acknowledged, with
    the delay of its acknowledgement. Segments that were sent again give none (RFC 6298, section
    3), unless the echoed timestamp tells which copy was acknowledged (RFC 7323). Empty until
    `complete` is called: a capture may have a sample for every other packet.
    """

    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    from_client: NDArray[np.bool_] = column(
        "Direction of the segment; the other side acknowledged it.",
        default_factory=empty_array(np.bool_),
    )
    time_ns: NDArray[np.int64] = column(
        "When the acknowledgement passed.", unit="ns", default_factory=empty_array(np.int64)
    )
    rtt_ns: NDArray[np.int64] = column(
        "Time since the segment.", unit="ns", default_factory=empty_array(np.int64)
    )
    srtt_ns: NDArray[np.int64] = column(
        "Smoothed round trip of the direction up to here (RFC 6298, section 2).",
        unit="ns",
        default_factory=empty_array(np.int64),
    )
    rttvar_ns: NDArray[np.int64] = column(
        "Its variation up to here (RTTVAR, likewise): the retransmission timer is SRTT and four "
        "times that.",
        unit="ns",
        default_factory=empty_array(np.int64),
    )
    packet_no: NDArray[np.int32] = column("The segment.", default_factory=empty_array(np.int32))
    answer_packet_no: NDArray[np.int32] = column(
        "The acknowledgement.", default_factory=empty_array(np.int32)
    )
    by_timestamp: NDArray[np.bool_] = column(
        "The segment had been sent more than once, and the timestamp told which copy it was.",
        default_factory=empty_array(np.bool_),
    )

    def __len__(self) -> int:
        return len(self.time_ns)

    def rows_of(self, connection_no: int) -> slice:
        """The samples of one connection, once complete."""
        return rows_equal(self.connection_no, connection_no)
