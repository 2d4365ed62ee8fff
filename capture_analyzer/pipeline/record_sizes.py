"""Table `record_sizes`: sizes of TLS records by direction, by whole-array operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.connections import Connection, record_overhead
from capture_analyzer.model.record_sizes import SIZING_CODE, RecordSizes
from capture_analyzer.model.tls_records import ROLE_CODE, TlsRecords

HEADER_BYTES: Final = 5
TINY_BYTES: Final = 16

PAUSE_NS: Final = 1_000_000_000
"""Senders with dynamic record sizes begin with small ones again after about a second."""

EARLY_BYTES: Final = 1 << 14
"""How far behind a beginning the small records of dynamic sizing are looked for: all known ones
send more than this (40 to 100 records of a segment) before they grow."""

SMALL_BYTES: Final = (500, 4400)
"""Small records of dynamic sizing hold between so much: a segment, or up to three of them."""

GROWTH: Final = 2
FULL_BYTES: Final = 1024  # records below this are as large as what was written
EQUAL_RECORDS: Final = 3  # so many of one size are no chance


Ints = NDArray[np.int64]


def add_record_sizes(
    table: RecordSizes,
    numbers: Ints | None = None,
    *,
    records: TlsRecords,
    connections: Sequence[Connection],
) -> None:
    """Fill the table.

    Args:
        table: an empty one.
        numbers: of these connections; None = of all.
        records: all records.
        connections: all connections.
    """
    data = (records.role == ROLE_CODE["application"]) | (records.role == ROLE_CODE["early_data"])
    if numbers is not None:
        data &= np.isin(records.connection_no, numbers)
    rows = np.flatnonzero(data)
    if not len(rows):
        return
    owner = records.connection_no[rows]
    group = owner.astype(np.int64) * 2 + ~records.from_client[rows]
    first = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    counts = np.diff(np.r_[first, len(rows)])
    overhead = np.array([record_overhead(c.tls) for c in connections], np.int64)
    length = records.length[rows].astype(np.int64)
    plain = records.plaintext_bytes[rows].astype(np.int64)
    content = np.where(plain >= 0, plain, np.maximum(length - overhead[owner], 0))

    def total(values: NDArray[np.bool_] | Ints) -> Ints:
        return np.add.reduceat(values.astype(np.int64), first)

    ends_packet = np.ones(len(rows), np.bool_)
    ends_packet[:-1] = records.first_packet_no[rows[1:]] != records.last_packet_no[rows[:-1]]
    ends_packet[first[1:] - 1] = True
    sums = total(content)
    by_size = np.lexsort((content, group))
    table.connection_no = owner[first]
    table.from_client = records.from_client[rows][first]
    table.records = counts.astype(np.int32)
    table.content_bytes = sums
    table.content_inferred = total(plain < 0) > 0
    table.overhead_bytes = total(length) + HEADER_BYTES * counts - sums
    table.tiny = total(content <= TINY_BYTES).astype(np.int32)
    in_one = records.first_packet_no[rows] == records.last_packet_no[rows]
    table.in_one_segment = total(in_one).astype(np.int32)
    table.aligned = total(ends_packet).astype(np.int32)
    table.first_bytes = content[first].astype(np.int32)
    table.median_bytes = content[by_size[first + (counts - 1) // 2]].astype(np.int32)
    table.largest_bytes = np.maximum.reduceat(content, first).astype(np.int32)
    _add_sizing(table, content, records.seen_ns[rows], first, counts)


def _add_sizing(
    table: RecordSizes, content: Ints, seen_ns: Ints, first: Ints, counts: Ints
) -> None:
    """Whether records grow: small ones of equal size behind each beginning, large ones later."""
    begins = np.zeros(len(content), np.bool_)
    begins[1:] = np.diff(seen_ns) >= PAUSE_NS
    begins[first] = True
    run_first = np.flatnonzero(begins)
    run = np.cumsum(begins) - 1
    before = np.cumsum(content) - content  # all that was sent before a record
    early = before - before[run_first][run] < EARLY_BYTES
    owner = np.repeat(np.arange(len(first)), counts)

    def most(values: Ints) -> Ints:
        return np.maximum.reduceat(values, first)

    largest = most(content)
    small = most(np.where(early, content, 0))
    equal = np.add.reduceat((early & (content == small[owner])).astype(np.int64), first)
    grows = (small >= SMALL_BYTES[0]) & (small <= SMALL_BYTES[1]) & (largest >= GROWTH * small)
    grows &= equal >= EQUAL_RECORDS
    near = np.add.reduceat((10 * content >= 9 * largest[owner]).astype(np.int64), first)
    constant = ~grows & (largest >= FULL_BYTES) & (10 * small >= 9 * largest)
    constant &= near >= EQUAL_RECORDS
    table.sizing = np.select(
        [grows, constant], [SIZING_CODE["grows"], SIZING_CODE["constant"]], SIZING_CODE["unknown"]
    ).astype(np.uint8)
    runs = np.bincount(owner[run_first], minlength=len(first))
    table.restarts = np.where(grows, runs - 1, 0).astype(np.int32)
