"""record_wait: bytes were there in order, but the TLS record around them was not complete.

A receiver can use no byte of a record before its last has come and the tag is checked (RFC
8446, section 5.2). What it waits for are the first byte of an answer and each event of a
streamed one: the wait runs from the record's first byte in order to its last.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from capture_analyzer.model.column import NO_TIME, distinct
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts
from capture_analyzer.pipeline.causes.record_rows import find_records

LEAST_NS: Final = 100_000
"""A record that is complete sooner came as one: capture points stamp packets no better."""


def find(facts: Facts) -> Waits:
    """The waits for the records that hold what somebody waited for."""
    records, events = facts.tls_records, facts.events
    late = records.complete & (records.complete_ns - records.in_order_ns >= LEAST_NS)
    rows = np.flatnonzero(late)
    if not len(rows):
        return Waits()
    concerned = np.zeros(len(facts.connections), np.bool_)
    concerned[records.connection_no[rows]] = True
    concerned = concerned[facts.connection_no]
    answered = np.flatnonzero((facts.response_offset != NO_TIME) & concerned)
    streamed = np.flatnonzero(concerned[events.exchange_no])
    exchange = np.concatenate((answered, events.exchange_no[streamed])).astype(np.intp)
    offset = np.concatenate((facts.response_offset[answered], events.end_offset[streamed] - 1))
    stream = 2 * facts.connection_no[exchange].astype(np.int64) + 1
    record = find_records(records, stream, offset, rows)
    inside = record >= 0
    # One wait for each record, however many events are in it.
    key = exchange[inside] * np.int64(len(records)) + record[inside]
    exchange, record = np.divmod(distinct(key), len(records))
    return facts.waits(
        "record_wait",
        exchange,
        records.in_order_ns[record],
        records.complete_ns[record],
        1.0,
        records.first_packet_no[record],
        records.last_packet_no[record],
    )
