"""Data had arrived, but the TLS record around it was not complete.

What it detects:
    Streamed answers whose events waited 20 ms or more for the end of their TLS record, and
    pages whose first byte did so for at least a tenth of their time. The wait runs from the
    record's first byte in order to its last (ledger cause record_wait); record lengths are in
    clear text, so it is known without keys. What a lost segment adds is not in it.

    The answers of one server are one finding.

Why it matters:
    No byte of a record can be used before its last one has come. A record of 16 KB takes 12
    segments, more than a new connection may send at once: the first word then waits a whole
    round trip longer than it has to, and on a slow link every event waits for its record.

What to do:
    Let the server write small records, of at most one segment, at the beginning of an answer
    and after a pause (dynamic record size); flush after each event. In nginx: ssl_buffer_size
    4k or less for streamed answers; other servers have similar settings. Where one event fills
    the record by itself, only smaller events help.

When it is wrong:
    Large records are right for downloads: nobody waits for their first byte, and small ones
    cost more. Downloads are left out.

    An event that is itself as large as its record could not have been used much sooner.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import amount, upper_first
from capture_analyzer.detectors.servers import Server, label, server_of
from capture_analyzer.detectors.severity import booked, by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import column, rows_equal
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass

PAGE_SHARE: Final = 10  # a page's first byte must have waited this part of the whole: 1/10
LARGE_EVENT: Final = 0.5  # an event that fills this part of its record waits for itself


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    least_ms: int = column("Shortest wait for a record that counts.", unit="ms", default=20)


META = Meta(
    tables=("tls_records",),
    options=Options,
    causes=("record_wait",),
    references=(
        "RFC 8446, section 5.2 (a record is protected as a whole)",
        "RFC 6928 (initial window of ten segments)",
    ),
)


@quick_dataclass
class _Waited:
    """An answer that waited for records."""

    exchange: Exchange
    rows: list[int]
    waits: list[int]  # ns of each row
    cost_ns: int
    length_ns: int


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each server."""
    costs = booked(tables, "record_wait")
    ledger = tables.ledger
    least_ns = options.least_ms * 1_000_000
    groups: dict[Server, list[_Waited]] = {}
    long = np.flatnonzero(costs.cost_ns >= least_ns)
    exchanges = tables.exchanges.rows(costs.exchange_nos[long])
    for index, exchange in zip(long.tolist(), exchanges, strict=True):
        rows = costs.rows_of(index)
        waits = (ledger.to_ns[rows] - ledger.from_ns[rows]).tolist()
        cost_ns, length_ns = int(costs.cost_ns[index]), int(costs.length_ns[index])
        waited = _Waited(exchange, rows, waits, cost_ns, length_ns)
        if max(waits) >= least_ns and _someone_waited(waited):
            server = server_of(tables.connections[exchange.connection_no])
            groups.setdefault(server, []).append(waited)
    for group in groups.values():
        yield _finding(tables, group)


def _someone_waited(waited: _Waited) -> bool:
    """Whether parts of the answer were of use before all of it was there."""
    exchange = waited.exchange
    if exchange.stream is not None:
        return True
    kind = next((f.value for f in exchange.response_fields if f.name == "content-type"), "")
    return kind.lower().startswith("text/html") and PAGE_SHARE * waited.cost_ns >= waited.length_ns


def _finding(tables: Tables, group: list[_Waited]) -> Finding:
    by_wait = sorted(group, key=lambda x: (-max(x.waits), x.exchange.exchange_no))
    connections = sorted({waited.exchange.connection_no for waited in group})
    one = tables.connections[group[0].exchange.connection_no]
    rows = [row for waited in group for row in waited.rows]
    worst_ns = max(by_wait[0].waits)
    by_answer = [_records(tables, waited) for waited in group]
    lengths = [length for answer in by_answer for length in answer]
    large = _large_events(tables, group, by_answer)
    evidence = [no for waited in by_wait for no in _evidence(tables, waited)]
    return Finding(
        detector="tls/record-wait",
        severity=worst(by_default(waited.cost_ns, waited.length_ns) for waited in group),
        confidence=1.0,
        summary=_summary(label(one), group, worst_ns),
        advice=_advice(label(one), max(lengths, default=0), large),
        action=(
            f"Let {label(one)} send smaller events"
            if large
            else f"Let {label(one)} write small TLS records at the start of answers"
        ),
        connection_no=connections[0] if len(connections) == 1 else None,
        connection_nos=connections,
        exchange_nos=[waited.exchange.exchange_no for waited in group],
        from_ns=min(int(tables.ledger.from_ns[row]) for row in rows),
        to_ns=max(int(tables.ledger.to_ns[row]) for row in rows),
        count=len(rows),
        cost_ns=sum(waited.cost_ns for waited in group),
        measures={
            "answers": len(group),
            "waits": len(rows),
            "wait_max_ns": worst_ns,
            "record_max_bytes": max(lengths, default=None),
            "large_events": large,
        },
        examples=[
            Example(_evidence(tables, waited), waited.cost_ns, waited.exchange.exchange_no)
            for waited in by_wait[:MAX_EXAMPLES]
        ],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(set(evidence)),
        ledger_rows=rows,
    )


def _evidence(tables: Tables, waited: _Waited) -> list[int]:
    """First and last packets of the records, the longest wait first."""
    order = sorted(range(len(waited.rows)), key=lambda place: -waited.waits[place])
    rows = [waited.rows[place] for place in order]
    pairs = zip(
        tables.ledger.packet_a[rows].tolist(), tables.ledger.packet_b[rows].tolist(), strict=True
    )
    return [number for pair in pairs for number in pair if number]


def _records(tables: Tables, waited: _Waited) -> list[int]:
    """Lengths of the records that were waited for."""
    records = tables.tls_records
    part = rows_equal(records.connection_no, waited.exchange.connection_no)
    mine = np.flatnonzero(~records.from_client[part]) + part.start
    last = np.sort(tables.ledger.packet_b[waited.rows])
    found = last.searchsorted(records.last_packet_no[mine])
    chosen = mine[last.take(found, mode="clip") == records.last_packet_no[mine]]
    chosen = chosen[records.first_packet_no[chosen] != records.last_packet_no[chosen]]
    lengths: list[int] = records.length[chosen].tolist()
    return lengths


def _large_events(tables: Tables, group: list[_Waited], lengths: list[list[int]]) -> bool:
    """Whether most of the time was waited for records that one event fills.

    Args:
        tables: all tables.
        group: the answers.
        lengths: of the records that were waited for, by answer.
    """
    events, ledger = tables.events, tables.ledger
    inherent = total = 0
    for waited, of_records in zip(group, lengths, strict=True):
        rows = events.rows_of(waited.exchange.exchange_no)
        ends: list[int] = ledger.to_ns[waited.rows].tolist()
        sizes = dict.fromkeys(ends, 0)
        for time, size in zip(
            events.time_ns[rows].tolist(), events.size_bytes[rows].tolist(), strict=True
        ):
            if time in sizes and sizes[time] < size:
                sizes[time] = size
        ordered = sorted(of_records) or [0]
        usual = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2  # the median
        for end, wait in zip(ends, waited.waits, strict=True):
            total += wait
            inherent += wait if sizes[end] >= LARGE_EVENT * usual > 0 else 0
    return 2 * inherent > total


def _summary(server: str, group: list[_Waited], worst_ns: int) -> str:
    many = len(group) > 1
    who = f"{upper_first(wording.count_word(len(group)))} answers" if many else "An answer"
    verb = "were" if many else "was"
    total = sum(waited.cost_ns for waited in group)
    waits = sum(len(waited.waits) for waited in group)
    text = f"{who} of {server} {verb} readable up to {wording.duration(worst_ns)} after"
    text += f" {'they' if many else 'it'} arrived"
    if waits > len(group):
        text += f", {amount(total)} in all"
    return f"{text}: the TLS records were too large."


def _advice(server: str, longest: int, large: bool) -> str:
    if large:
        return (
            f"Each event fills a TLS record of up to {wording.size(longest)} by itself, and is of "
            f"no use before all of it is there. Let {server} send smaller events, or compress "
            "them; smaller records alone change little."
        )
    return (
        f"Let {server} write TLS records of at most one segment at the start of an answer and "
        f"after a pause, and flush after each event (nginx: ssl_buffer_size 4k); they had up to "
        f"{wording.size(longest)}."
    )
