"""A client waited for an OCSP responder before it went on.

What it detects:
    OCSP questions over HTTP that a client sent once it had the server's certificate, and whose
    answer (or time-out) its part of the handshake or its first request waited for: it went on
    within 50 ms of it. The wait is booked on ledger cause ocsp_fetch, from the responder's
    lookup or SYN to the client's next step. A fetch beside the handshake, which the request
    overtook, is none.

    The connections of one server are one finding.

Why it matters:
    Every new connection pays a lookup, a handshake and a round trip to a third party, and all
    of that party's slowness. When the responder is down, connections wait for the time-out.

What to do:
    Staple the response at the server (see tls/ocsp-not-stapled). Where the server is not yours:
    let the client check beside the handshake (soft fail), keep responses in a cache until
    their next update, and keep connections open.

When it is wrong:
    A client may have been busy with something else for just as long. In TLS 1.3 without keys
    neither the certificate nor the end of the handshake can be read: then only the times say
    that the fetch belongs to this connection, and the confidence is 0.7.

    A question that was never answered or given up on is taken for the reason of a pause of
    200 ms or more; its confidence is 0.6.
"""

from __future__ import annotations

from collections.abc import Iterable

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import amount, listed, time_range, upper_first
from capture_analyzer.detectors.servers import Server, label, server_of
from capture_analyzer.detectors.severity import booked, by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.certificates import OcspFetch
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass

META = Meta(
    tables=("ocsp_fetches",),
    causes=("ocsp_fetch",),
    references=(
        "RFC 6960, appendix A (OCSP over HTTP)",
        "RFC 8446, section 4.4.2.1 (OCSP status in TLS 1.3)",
    ),
)


@quick_dataclass
class _Waited:
    """An exchange that waited for OCSP answers."""

    exchange: Exchange
    cost_ns: int
    length_ns: int
    confidence: float
    rows: list[int]
    fetches: list[OcspFetch]

    def packets(self) -> list[int]:
        numbers: list[int] = []
        for fetch in self.fetches:
            ends = (fetch.first_packet_no, fetch.last_packet_no, fetch.next_packet_no)
            numbers += [number for number in ends if number is not None]
        return numbers


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each server."""
    lost = booked(tables, "ocsp_fetch")
    by_connection: dict[int, list[OcspFetch]] = {}
    for fetch in tables.ocsp_fetches:
        if fetch.connection_no is not None and fetch.waited_until_ns is not None:
            by_connection.setdefault(fetch.connection_no, []).append(fetch)
    groups: dict[Server, list[_Waited]] = {}
    for index, exchange_no in enumerate(lost.exchange_nos.tolist()):
        exchange = tables.exchanges[exchange_no]
        waited = _Waited(
            exchange,
            int(lost.cost_ns[index]),
            int(lost.length_ns[index]),
            float(lost.confidence[index]),
            lost.rows_of(index),
            by_connection.get(exchange.connection_no, []),
        )
        server = server_of(tables.connections[exchange.connection_no])
        groups.setdefault(server, []).append(waited)
    for group in groups.values():
        yield _finding(tables, group)


def _finding(tables: Tables, group: list[_Waited]) -> Finding:
    by_cost = sorted(group, key=lambda row: (-row.cost_ns, row.exchange.exchange_no))
    one = tables.connections[by_cost[0].exchange.connection_no]
    costs = [row.cost_ns for row in by_cost]
    total = sum(costs)
    fetches = [fetch for row in by_cost for fetch in row.fetches]
    responders = list(dict.fromkeys(fetch.responder for fetch in fetches))
    unanswered = sum(fetch.outcome != "answered" for fetch in fetches)
    confidence = sum(row.confidence * row.cost_ns for row in group) / total
    numbers = sorted({row.exchange.connection_no for row in group})
    evidence = [number for row in by_cost for number in row.packets()]
    return Finding(
        detector="tls/ocsp-blocking-fetch",
        severity=worst(by_default(row.cost_ns, row.length_ns) for row in group),
        confidence=round(min(confidence, 1.0), 2),
        summary=_summary(label(one), costs, responders, unanswered, confidence),
        advice=(
            f"Staple the OCSP response at {label(one)}, so that its clients need not ask; or let "
            "the client check without waiting, and keep responses until their next update."
        ),
        action=f"Staple the OCSP response at {label(one)}",
        connection_no=numbers[0] if len(numbers) == 1 else None,
        connection_nos=numbers,
        exchange_nos=[row.exchange.exchange_no for row in group],
        from_ns=min((fetch.from_ns for fetch in fetches), default=None),
        to_ns=max((fetch.waited_until_ns or 0 for fetch in fetches), default=None),
        count=len(group),
        cost_ns=total,
        measures={
            "responder": ", ".join(responders) or None,
            "fetches": len(fetches),
            "unanswered": unanswered,
            "in_handshake": sum(fetch.phase == "handshake" for fetch in fetches),
            "before_request": sum(fetch.phase == "request" for fetch in fetches),
            "wait_max_ns": costs[0],
        },
        examples=[
            Example(row.packets(), row.cost_ns, row.exchange.exchange_no)
            for row in by_cost[:MAX_EXAMPLES]
        ],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(set(evidence)),
        ledger_rows=[ledger_row for row in group for ledger_row in row.rows],
    )


def _summary(
    server: str, costs: list[int], responders: list[str], unanswered: int, confidence: float
) -> str:
    seems = "seems to have waited" if confidence < 0.9 else "waited"
    responder = f"the OCSP responder {listed(responders)}" if responders else "an OCSP responder"
    silent = ", which did not answer" if unanswered else ""
    if len(costs) == 1:
        return f"A client of {server} {seems} {amount(costs[0])} for {responder}{silent}."
    number = upper_first(wording.count_word(len(costs)))
    seem = "seem to have waited" if confidence < 0.9 else "waited"
    span = time_range(costs[-1], costs[0])
    return f"{number} requests to {server} {seem} {span} for {responder}{silent}."
