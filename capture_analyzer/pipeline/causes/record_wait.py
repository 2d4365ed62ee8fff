"""record_wait: bytes were there in order, but the TLS record around them was not complete.

A receiver can use no byte of a record before its last has come and the tag is checked (RFC
8446, section 5.2). What it waits for are the first byte of an answer and each event of a
streamed one: the wait runs from the record's first byte in order to its last.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts
from capture_analyzer.pipeline.causes.record_rows import find_records

LEAST_NS: Final = 100_000
"""A record that is complete sooner came as one: capture points stamp packets no better."""


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
    stream = 2 * facts.connection_no[exchange].astype(np.int64) + 1
    record = find_records(records, stream, offset)
    inside = (record >= 0) & records.complete[record]
    inside &= records.complete_ns[record] - records.in_order_ns[record] >= LEAST_NS
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
