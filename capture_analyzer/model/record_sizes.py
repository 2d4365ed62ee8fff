"""Table `record_sizes`: how a side of a TLS connection cuts its data into records."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import column, empty_array
from capture_analyzer.model.deferred import Deferred
from capture_analyzer.model.quick_dataclass import quick_dataclass

SIZINGS: Final = ("unknown", "constant", "grows")
"""Names for the codes in `RecordSizes.sizing`: "grows" is dynamic record sizing (small records of
equal size at first and after a pause, large ones later), "constant" full records of one size from
the beginning; "unknown" where each write is a record of its own, or there is too little data."""

SIZING_CODE: Final = {name: code for code, name in enumerate(SIZINGS)}


@quick_dataclass
class RecordSizes(Deferred):
    """One element for each direction that sent application data, by connection, client first.

    Only records of application data count. Without keys the content is the most that a record can
    hold: padding makes it less. Empty until `complete` is called.
    """

    connection_no: NDArray[np.int32] = column("Connection.", default_factory=empty_array(np.int32))
    from_client: NDArray[np.bool_] = column(
        "Sent by the client.", default_factory=empty_array(np.bool_)
    )
    records: NDArray[np.int32] = column(
        "Records of application data.", default_factory=empty_array(np.int32)
    )
    content_bytes: NDArray[np.int64] = column(
        "What is in them.", unit="bytes", default_factory=empty_array(np.int64)
    )
    content_inferred: NDArray[np.bool_] = column(
        "Of some it is not known, but the most that it can be.",
        default_factory=empty_array(np.bool_),
    )
    overhead_bytes: NDArray[np.int64] = column(
        "What headers, tags, content types and padding add.",
        unit="bytes",
        default_factory=empty_array(np.int64),
    )
    tiny: NDArray[np.int32] = column(
        "Records with 16 bytes of content or less.", default_factory=empty_array(np.int32)
    )
    in_one_segment: NDArray[np.int32] = column(
        "Records that came in one packet; the others wait for their last one.",
        default_factory=empty_array(np.int32),
    )
    aligned: NDArray[np.int32] = column(
        "Records that end with a packet: the next one begins in another.",
        default_factory=empty_array(np.int32),
    )
    first_bytes: NDArray[np.int32] = column(
        "Content of the first record.", unit="bytes", default_factory=empty_array(np.int32)
    )
    median_bytes: NDArray[np.int32] = column(
        "Median content (the lower one).", unit="bytes", default_factory=empty_array(np.int32)
    )
    largest_bytes: NDArray[np.int32] = column(
        "Most content of a record.", unit="bytes", default_factory=empty_array(np.int32)
    )
    sizing: NDArray[np.uint8] = column(
        "How the sizes go: index into SIZINGS.",
        names=SIZINGS,
        default_factory=empty_array(np.uint8),
    )
    restarts: NDArray[np.int32] = column(
        "How often they were small again after a second of silence, where they grow.",
        default_factory=empty_array(np.int32),
    )

    def __len__(self) -> int:
        return len(self.records)
