"""record_wait: bytes were there in order, but the TLS record around them was not complete.

A receiver can use no byte of a record before its last has come and the tag is checked (RFC
8446, section 5.2). What it waits for are the first byte of an answer and each event of a
streamed one: the wait runs from the record's first byte in order to its last.
"""

from __future__ import annotations

import numpy as np

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts
from capture_analyzer.pipeline.intervals import bisect_right

_HEADER_BYTES = 5  # of a record (RFC 8446, section 5.1)


def find(facts: Facts) -> Waits:
    """The waits for the records that hold what somebody waited for."""
    records, events = facts.tls_records, facts.events
    encrypted = np.zeros(len(facts.connections), np.bool_)
    encrypted[records.connection_no] = True
    answered = np.flatnonzero((facts.response_offset != NO_TIME) & encrypted[facts.connection_no])
    if not len(answered):
        return Waits()
    exchange = np.concatenate((answered, events.exchange_no)).astype(np.intp)
    offset = np.concatenate((facts.response_offset[answered], events.end_offset - 1))
    # Records are in order of connection, direction and offset.
    direction = 2 * records.connection_no.astype(np.int64) + ~records.from_client
    wanted = 2 * facts.connection_no[exchange].astype(np.int64) + 1
    low = np.searchsorted(direction, wanted, "left")
    high = np.searchsorted(direction, wanted, "right")
    record = bisect_right(records.offset, low, high, offset) - 1
    inside = record >= low
    inside &= offset < records.offset[record] + records.length[record] + _HEADER_BYTES
    inside &= records.complete[record] & (records.complete_ns[record] != NO_TIME)
    # One wait for each record, however many events are in it.
    key = exchange[inside] * np.int64(len(records)) + record[inside]
    exchange, record = np.divmod(np.unique(key), len(records))
    return facts.waits(
        "record_wait",
        exchange,
        records.in_order_ns[record],
        records.complete_ns[record],
        1.0,
        records.first_packet_no[record],
        records.last_packet_no[record],
    )
