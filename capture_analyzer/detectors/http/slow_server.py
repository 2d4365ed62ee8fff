"""Requests spent most of their time in the server.

What it detects:
    Exchanges in which the server's think time (ledger cause server_think) took at least half
    of the whole exchange and at least 100 ms. Think time is the wait between the request's
    last byte and the first byte of the answer, with the part of the round trip that lies
    beyond the capture point taken out. A pause within an answer is not think time, and
    streamed answers with generated content are left to llm/slow-first-token and
    llm/stream-stall: what a model takes to generate is what was asked for.

    Exchanges of one server are one finding, apart for each severity.

Why it matters:
    No change to the network makes these requests faster. Whoever looks for lost packets,
    windows or TLS settings first loses the time that the incident leaves.

What to do:
    Ask whoever runs the server what it does in that time: its access log and traces at these
    instants, its queue of waiting requests, its own calls to databases and other services.
    "The server" is all that lies beyond the round trip: a load balancer or proxy in front of
    it and whatever stands behind it count too. A capture on the server itself tells these
    apart.

When it is wrong:
    The round trip that is taken out is the smallest that the connection showed so far. If
    the path was slower during the wait (queueing), the excess is counted as think time.

    An encrypted exchange without keys is inferred from the direction and time of records.
    Two requests in flight at once, or a message that the server sends unasked, can be
    mistaken for one slow answer; confidence is lower there.

    Requests that are meant to wait (long polling, model answers that are not streamed) are
    found too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import amount, time_range
from capture_analyzer.detectors.servers import Server, exchanges_by_server, label, servers
from capture_analyzer.detectors.severity import Booked, booked
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME, column
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding, Severity
from capture_analyzer.model.quick_dataclass import quick_dataclass

OPAQUE_CONFIDENCE: Final = 0.7  # flights of records are requests and answers most of the time
WEAKEST: Final = 0.3  # a wait that is less certain than this is no ground for a judgement


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    warning_ms: int = column("Think time from which it is a warning.", unit="ms", default=500)
    info_ms: int = column("Think time from which it is reported at all.", unit="ms", default=100)
    share: float = column("Least part of the exchange that was think time, 0 to 1.", default=0.5)


META = Meta(
    tables=("exchanges",),
    options=Options,
    causes=("server_think",),
    severity=(
        "warning: at least 500 ms of think time and half of the exchange; info: at least 100 ms "
        "and half; never critical, since an answer that takes long may be meant to"
    ),
    references=("RFC 9110, section 3.4 (a request and its response are an exchange)",),
)


@quick_dataclass
class _Slow:
    """One slow exchange: its think time, index in `Booked` and row."""

    think_ns: int
    index: int
    exchange: Exchange


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each server and severity."""
    think = booked(tables, "server_think")
    slow = np.flatnonzero(
        (think.cost_ns >= options.info_ms * 1_000_000)
        & (think.cost_ns >= options.share * think.length_ns)
        & (think.confidence >= WEAKEST)
    )
    streamed = tables.exchanges.columns.ttft_ns[think.exchange_nos[slow]] != NO_TIME
    slow = slow[~streamed]  # there a model was at work
    groups: dict[tuple[Server, Severity], list[_Slow]] = {}
    server_by_no = tables.once(servers)
    warning_ns = options.warning_ms * 1_000_000
    exchanges = tables.exchanges.rows(think.exchange_nos[slow])
    picked = zip(slow.tolist(), exchanges, think.cost_ns[slow].tolist(), strict=True)
    for index, exchange, cost_ns in picked:
        severity: Severity = "warning" if cost_ns >= warning_ns else "info"
        group = groups.setdefault((server_by_no[exchange.connection_no], severity), [])
        group.append(_Slow(cost_ns, index, exchange))
    if not groups:
        return
    totals = exchanges_by_server(tables, np.ones(len(tables.exchanges), np.bool_))
    for (server, severity), group in groups.items():
        yield _finding(tables, think, severity, group, totals[server])


def _finding(
    tables: Tables, think: Booked, severity: Severity, group: list[_Slow], total: int
) -> Finding:
    connections = {slow.exchange.connection_no for slow in group}
    one = tables.connections[group[0].exchange.connection_no]
    worst = sorted(group, key=lambda slow: (-slow.think_ns, slow.exchange.exchange_no))
    cost_ns = sum(slow.think_ns for slow in group)
    times = [slow.think_ns for slow in worst]
    median_ns = int(sorted(times)[len(times) // 2])
    inferred = sum(slow.exchange.inferred for slow in group)
    return Finding(
        detector="http/slow-server",
        severity=severity,
        confidence=_confidence(think, group),
        summary=_summary(one, worst, think, total),
        advice=_advice(one, worst),
        action=_action(one, worst) if severity == "warning" else "",
        connection_no=group[0].exchange.connection_no if len(connections) == 1 else None,
        connection_nos=sorted(connections),
        exchange_nos=[slow.exchange.exchange_no for slow in group],
        from_ns=min(slow.exchange.request_end_ns for slow in group),
        to_ns=max(_answered_ns(slow.exchange) for slow in group),
        count=len(group),
        cost_ns=cost_ns,
        measures={
            "requests": total,
            "requests_slow": len(group),
            "requests_inferred": inferred,
            "think_min_ns": times[-1],
            "think_median_ns": median_ns,
            "think_max_ns": times[0],
            "rtt_ns": _rtt_ns(tables.connections, connections),
        },
        examples=[
            Example(_evidence(slow.exchange), slow.think_ns, slow.exchange.exchange_no)
            for slow in worst[:MAX_EXAMPLES]
        ],
        packet_nos=[no for slow in worst[:MAX_PACKET_NOS] for no in _evidence(slow.exchange)],
        packet_total=len({no for slow in group for no in _evidence(slow.exchange)}),
        ledger_rows=[row for slow in group for row in think.rows_of(slow.index)],
    )


def _confidence(think: Booked, group: list[_Slow]) -> float:
    """Mean over the exchanges, weighted by their think time."""
    weighted = 0.0
    for slow in group:
        trust = float(think.confidence[slow.index])
        if slow.exchange.inferred:
            trust = min(trust, OPAQUE_CONFIDENCE)
        weighted += trust * slow.think_ns
    return round(min(weighted / sum(slow.think_ns for slow in group), 1.0), 2)


def _summary(one: Connection, worst: list[_Slow], think: Booked, total: int) -> str:
    hidden = all(slow.exchange.inferred for slow in worst)
    if len(worst) == 1:
        slow = worst[0]
        part = wording.share(slow.think_ns, int(think.length_ns[slow.index]))
        kind = "an encrypted request" if hidden else "a request"
        return f"{label(one)} took {amount(slow.think_ns)} to answer {kind}, {part} of its time."
    number = wording.count_word(len(worst))
    of = "" if total == len(worst) else f" of {wording.count_word(total)}"
    kind = "encrypted requests" if hidden else "requests"
    span = time_range(worst[-1].think_ns, worst[0].think_ns)
    return f"{label(one)} took {span} to answer {number}{of} {kind}, most of their time."


def _advice(one: Connection, worst: list[_Slow]) -> str:
    slow = worst[0]
    begin = wording.instant(slow.exchange.request_end_ns)
    return (
        f"Ask whoever runs {label(one)} what it did in that time: the longest wait, "
        f"{amount(slow.think_ns)}, began at {begin} (exchange {slow.exchange.exchange_no}). "
        "The round trip is not in this figure, so the network can't win it back."
    )


def _action(one: Connection, worst: list[_Slow]) -> str:
    if len(worst) == 1:
        return f"Ask the owner of {label(one)} why an answer took {amount(worst[0].think_ns)}"
    return f"Ask the owner of {label(one)} why answers take up to {amount(worst[0].think_ns)}"


def _evidence(exchange: Exchange) -> list[int]:
    """What began the wait and what ended it."""
    numbers = (exchange.request_last_packet_no, exchange.response_first_packet_no)
    return [number for number in numbers if number is not None]


def _answered_ns(exchange: Exchange) -> int:
    """When the wait was over: the answer's first byte, else the exchange's last packet."""
    if exchange.response_start_ns is not None:
        return exchange.response_start_ns
    return exchange.last_ns if exchange.end_ns is None else exchange.end_ns


def _rtt_ns(connections: list[Connection], numbers: Iterable[int]) -> int | None:
    """Smallest handshake round trip of some connections, if any was measured."""
    return min(_known(connections[number].rtt_ns for number in numbers), default=None)


def _known(values: Iterable[int | None]) -> Iterator[int]:
    return (value for value in values if value is not None)
