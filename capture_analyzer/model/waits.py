"""Tables `waits` and `ledger`: spans of time that have a cause."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.causes import CAUSE_NAMES
from capture_analyzer.model.column import column, empty_array, rows_equal
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class Waits:
    """One element a wait in each array. Waits may overlap; the ledger resolves that.

    Written by ``pipeline/causes/`` only. `packet_a` to `packet_c` are the packets that
    prove it (0 = none): usually what began it and what ended it, then a retransmission.
    """

    from_ns: NDArray[np.int64] = column("Begin.", unit="ns", default_factory=empty_array(np.int64))
    to_ns: NDArray[np.int64] = column("End.", unit="ns", default_factory=empty_array(np.int64))
    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    exchange_no: NDArray[np.int32] = column(
        "Exchange; -1 = none.", default_factory=empty_array(np.int32)
    )
    cause: NDArray[np.uint8] = column(
        "Index into CAUSE_NAMES.", names=CAUSE_NAMES, default_factory=empty_array(np.uint8)
    )
    confidence: NDArray[np.float32] = column("0 to 1.", default_factory=empty_array(np.float32))
    packet_a: NDArray[np.int32] = column(
        "Packet that began it.", default_factory=empty_array(np.int32)
    )
    packet_b: NDArray[np.int32] = column(
        "Packet that ended it.", default_factory=empty_array(np.int32)
    )
    packet_c: NDArray[np.int32] = column(
        "Another that proves it.", default_factory=empty_array(np.int32)
    )

    def __len__(self) -> int:
        return len(self.from_ns)


@quick_dataclass
class Ledger:
    """The waits of each exchange after precedence: touching, never overlapping.

    Ordered by exchange_no, then from_ns. The durations of an exchange's entries add up to
    its length exactly.
    """

    exchange_no: NDArray[np.int32] = column("Exchange.", default_factory=empty_array(np.int32))
    from_ns: NDArray[np.int64] = column("Begin.", unit="ns", default_factory=empty_array(np.int64))
    to_ns: NDArray[np.int64] = column("End.", unit="ns", default_factory=empty_array(np.int64))
    cause: NDArray[np.uint8] = column(
        "Index into CAUSE_NAMES.", names=CAUSE_NAMES, default_factory=empty_array(np.uint8)
    )
    confidence: NDArray[np.float32] = column(
        "Of the wait it comes from.", default_factory=empty_array(np.float32)
    )
    packet_a: NDArray[np.int32] = column(
        "Packet that began it; 0 = none.", default_factory=empty_array(np.int32)
    )
    packet_b: NDArray[np.int32] = column(
        "Packet that ended it; 0 = none.", default_factory=empty_array(np.int32)
    )
    packet_c: NDArray[np.int32] = column(
        "Another that proves it; 0 = none.", default_factory=empty_array(np.int32)
    )

    def __len__(self) -> int:
        return len(self.from_ns)

    def rows_of(self, exchange_no: int) -> slice:
        """The slice of entries that belong to an exchange."""
        return rows_equal(self.exchange_no, exchange_no)
