"""TLS records as rows of a report's data: how data is cut into them, and their sizes over time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import rows_equal
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.record_sizes import RecordSizes
from capture_analyzer.model.tls_records import ROLE_CODE
from capture_analyzer.report.choice import Choice

MAX_POINTS: Final = 240  # of a direction: more are closer than the pixels of the picture
MAX_ALL_POINTS: Final = 24_000  # of a report, some 200 KB
MAX_CONNECTIONS: Final = 2_000  # in a report: those with most records
LEAST_RECORDS: Final = 4  # fewer are no profile

LEAST_EVENTS: Final = 10
LEAST_SIZES: Final = 4
ALONE: Final = 0.7
"""A stream gives its tokens' lengths away from so many events and sizes on, where so many of its
events have a record of their own."""


def rows(tables: Tables, choice: Choice, unit: int) -> list[list[Any]]:
    """By connection: [number, facts of the client's and the server's side, points, telling]."""
    sizes = tables.record_sizes.complete()
    sides: dict[int, list[list[Any] | None]] = {}
    counts: dict[int, int] = {}
    for place in range(len(sizes)):
        number = int(sizes.connection_no[place])
        if not choice.has_connection(number):
            continue
        pair = sides.setdefault(number, [None, None])
        pair[0 if sizes.from_client[place] else 1] = _facts(sizes, place)
        counts[number] = counts.get(number, 0) + int(sizes.records[place])
    by_count = sorted(counts, key=lambda number: (-counts[number], number))
    for number in by_count[MAX_CONNECTIONS:]:
        del sides[number], counts[number]
    drawn = _drawn(counts)
    telling = _telling(tables)
    return [
        [
            number,
            *pair,
            _points(tables, number, unit) if number in drawn else None,
            int(number in telling),
        ]
        for number, pair in sorted(sides.items())
    ]


def _facts(sizes: RecordSizes, place: int) -> list[int]:
    columns = (
        *(sizes.records, sizes.content_bytes, sizes.content_inferred, sizes.overhead_bytes),
        *(sizes.tiny, sizes.in_one_segment, sizes.aligned),
        *(sizes.first_bytes, sizes.median_bytes, sizes.largest_bytes),
        *(sizes.sizing, sizes.restarts),
    )
    return [int(column[place]) for column in columns]


def _drawn(counts: dict[int, int]) -> set[int]:
    """Connections whose records are drawn: those with most of them."""
    left = MAX_ALL_POINTS
    drawn: set[int] = set()
    for number, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        left -= min(count, 2 * MAX_POINTS)
        if count < LEAST_RECORDS or left < 0:
            break
        drawn.add(number)
    return drawn


def _points(tables: Tables, number: int, unit: int) -> list[list[int]]:
    """[time, time since ...] and [length ...] of the client's records, then the server's."""
    records = tables.tls_records
    part = rows_equal(records.connection_no, number)
    found: list[list[int]] = []
    data = _is_data(tables, part)
    for from_client in (True, False):
        chosen = np.flatnonzero(data & (records.from_client[part] == from_client))
        lengths, times = records.length[part][chosen], records.seen_ns[part][chosen]
        if len(chosen) > MAX_POINTS:  # of each few the largest
            bounds = np.linspace(0, len(chosen), MAX_POINTS + 1).astype(np.int64)[:-1]
            bucket = np.searchsorted(bounds, np.arange(len(chosen)), "right") - 1
            by_size = np.lexsort((lengths, bucket))
            last = np.r_[np.flatnonzero(np.diff(bucket[by_size])), len(chosen) - 1]
            keep = by_size[last]
            lengths, times = lengths[keep], times[keep]
        found.append(np.diff(times // unit, prepend=0).tolist())
        found.append(lengths.tolist())
    return found


def _is_data(tables: Tables, part: slice) -> NDArray[np.bool_]:
    role = tables.tls_records.role[part]
    data: NDArray[np.bool_] = np.isin(role, (ROLE_CODE["application"], ROLE_CODE["early_data"]))
    return data


def _telling(tables: Tables) -> set[int]:
    """Connections whose records give the lengths of a stream's events away."""
    return {
        exchange.connection_no
        for exchange in tables.exchanges
        if exchange.kind in ("sse", "opaque")
        and tables.connections[exchange.connection_no].tls is not None
        and _tells(tables, exchange)
    }


def _tells(tables: Tables, exchange: Exchange) -> bool:
    events = tables.events
    part = events.rows_of(exchange.exchange_no)
    if part.stop - part.start < LEAST_EVENTS or exchange.end_ns is None:
        return False
    records = tables.tls_records
    mine = rows_equal(records.connection_no, exchange.connection_no)
    chosen = _is_data(tables, mine) & ~records.from_client[mine]
    seen = records.seen_ns[mine]
    chosen &= (seen >= exchange.request_start_ns) & (seen <= exchange.end_ns)
    lengths, plain = records.length[mine][chosen], records.plaintext_bytes[mine][chosen]
    if len(lengths) < ALONE * (part.stop - part.start):
        return False
    added = (lengths - plain)[plain >= 0]
    padded = len(added) > 0 and len(np.unique(added)) > 1  # of unequal length, or of some only
    return not padded and len(np.unique(lengths)) >= LEAST_SIZES
