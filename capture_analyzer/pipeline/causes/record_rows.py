"""Which TLS record a byte lies in."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.tls_records import TlsRecords
from capture_analyzer.pipeline.intervals import Indices, Times, bisect_right, group_bounds

_HEADER_BYTES: Final = 5  # of a record (RFC 8446, section 5.1)


def find_records(
    records: TlsRecords, stream: NDArray[np.int64], offset: Times, among: Indices | None = None
) -> Indices:
    """Rows of the records that hold single bytes; -1 where there is none.

    Args:
        records: by connection, direction, offset, as they are.
        stream: 2 · connection + (1 from the server) of each byte.
        offset: its transport stream offset.
        among: rows of the records to look among, ascending; None = all.
    """
    if among is None:
        among = np.arange(len(records))
    if not len(among):
        return np.full(len(stream), -1, np.intp)
    direction = 2 * records.connection_no[among].astype(np.int64) + ~records.from_client[among]
    low, high = group_bounds(direction, stream)
    found = bisect_right(records.offset[among], low, high, offset) - 1
    inside = found >= low
    row = among[found]
    inside[inside] = offset[inside] < record_end(records, row[inside])
    return np.where(inside, row, -1)


def record_end(records: TlsRecords, row: Indices) -> Times:
    """Stream offset behind each of these records."""
    return records.offset[row] + records.length[row] + _HEADER_BYTES
