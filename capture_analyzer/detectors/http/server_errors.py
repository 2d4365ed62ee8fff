"""Requests failed with a status of the server's own (5xx).

What it detects:
    Final responses with a status of 500 or above, by server. More than 5 % of a server's
    exchanges, and at least two, are a warning, half of them critical. A single one, or a
    smaller part, is reported at info.

Why it matters:
    The request was right, as far as the server says, and did not succeed. Clients that retry
    add load to a server that can't carry what it has.

What to do:
    500 is the application's: its log at these instants says more. 502 and 504 come from a
    proxy that got no proper answer, or none in time, from what is behind it: look there. 503
    says overloaded or in maintenance; honour Retry-After.

When it is wrong:
    Health checks and probes can be meant to fail.

    Few exchanges make a large part of little: see how many there were.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import listed, upper_first
from capture_analyzer.detectors.servers import Server, exchanges_by_server, label, server_of
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME, column
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding, Severity
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    share: float = column(
        "Part of the exchanges above which it is a warning, 0 to 1.", default=0.05
    )


META = Meta(
    tables=("exchanges",),
    options=Options,
    severity=(
        "critical: at least half of a server's exchanges, and two; warning: more than 5 %, and "
        "two; info: less"
    ),
    references=("RFC 9110, section 15.6 (server errors)",),
)


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each server."""
    failed: dict[Server, list[Exchange]] = {}
    status = tables.exchanges.columns.status  # NO_TIME is below all
    for exchange in tables.exchanges.rows(np.flatnonzero(status >= 500)):
        server = server_of(tables.connections[exchange.connection_no])
        failed.setdefault(server, []).append(exchange)
    if not failed:
        return
    answered = exchanges_by_server(tables, status != NO_TIME)
    for server, group in failed.items():
        yield _finding(tables, group, answered[server], options)


def _finding(tables: Tables, group: list[Exchange], total: int, options: Options) -> Finding:
    severity: Severity = "info"
    if len(group) > 1 and 2 * len(group) >= total:
        severity = "critical"
    elif len(group) > 1 and len(group) > options.share * total:
        severity = "warning"
    one = tables.connections[group[0].connection_no]
    connections = sorted({exchange.connection_no for exchange in group})
    statuses: dict[int, int] = {}
    for exchange in group:
        status = exchange.status or 0
        statuses[status] = statuses.get(status, 0) + 1
    measures: dict[str, int | float | str | bool | None] = {
        "answered": total,
        "failed": len(group),
        **{f"status_{status}": count for status, count in sorted(statuses.items())},
    }
    return Finding(
        detector="http/server-errors",
        severity=severity,
        confidence=1.0,
        summary=_summary(label(one), group, total, statuses),
        advice=_advice(label(one), group[0], statuses),
        action="" if severity == "info" else f"Ask the owner of {label(one)} why requests fail",
        connection_no=connections[0] if len(connections) == 1 else None,
        connection_nos=connections,
        exchange_nos=[exchange.exchange_no for exchange in group],
        from_ns=min(exchange.request_start_ns for exchange in group),
        to_ns=max(_end_ns(exchange) for exchange in group),
        count=len(group),
        measures=measures,
        examples=[
            Example(_evidence(exchange), None, exchange.exchange_no)
            for exchange in group[:MAX_EXAMPLES]
        ],
        packet_nos=[no for exchange in group[:MAX_PACKET_NOS] for no in _evidence(exchange)],
        packet_total=len({no for exchange in group for no in _evidence(exchange)}),
    )


def _end_ns(exchange: Exchange) -> int:
    return exchange.last_ns if exchange.end_ns is None else exchange.end_ns


def _evidence(exchange: Exchange) -> list[int]:
    numbers = (exchange.request_first_packet_no, exchange.response_first_packet_no)
    return [number for number in numbers if number is not None]


def _summary(server: str, group: list[Exchange], total: int, statuses: dict[int, int]) -> str:
    if len(group) == 1:
        return (
            f"A request to {server} failed with status {group[0].status}, one of "
            f"{wording.count(total, 'answer')}."
        )
    by_count = sorted(statuses.items(), key=lambda row: (-row[1], row[0]))
    names = [
        f"{status}" if count == 1 else f"{status} {_times(count)}" for status, count in by_count
    ]
    number = upper_first(wording.count_word(len(group)))
    of = "" if len(group) == total else f" of {wording.count_word(total)}"
    return f"{number}{of} requests to {server} failed with status {listed(names)}."


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{wording.count_word(count)} times"


_HINTS = {
    502: "502 comes from a proxy that got no proper answer from what is behind it.",
    503: "503 says overloaded or in maintenance: honour Retry-After.",
    504: "504 comes from a proxy that got no answer in time from what is behind it.",
}


def _advice(server: str, first: Exchange, statuses: dict[int, int]) -> str:
    hints = " ".join(_HINTS[status] for status in sorted(statuses) if status in _HINTS)
    return (
        f"Look into the log of {server} at {wording.instant(_end_ns(first))} (exchange "
        f"{first.exchange_no}) and the times of the others. {hints}"
    ).rstrip()
