"""The server asked for another key share, which cost a round trip.

What it detects:
    TLS 1.3 handshakes in which the server answered the ClientHello with a HelloRetryRequest:
    the client had not sent a key share for a group that the server takes. The time from the
    first ClientHello to the second is booked on ledger cause hello_retry in the exchange that
    waited for the handshake; where none did (a connection opened ahead), it is an estimate.

    The connections of one server are one finding.

Why it matters:
    Every new connection takes one round trip more, and on a long path that is what a request
    on a new connection feels most.

What to do:
    Let the client send a key share for the group that the server asks for (the order of
    groups in its TLS configuration), or let the server accept the group that clients offer:
    nearly all of them send X25519, newer ones X25519MLKEM768 as well.

When it is wrong:
    A server may ask on purpose: to make the client show its address (a cookie), or to move
    to a stronger group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import listed, time_range, upper_first
from capture_analyzer.detectors.servers import Server, label, server_of
from capture_analyzer.detectors.severity import booked, by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass

META = Meta(
    tables=("connections",),
    causes=("hello_retry",),
    references=(
        "RFC 8446, section 2.1 (incorrect DHE share)",
        "RFC 8446, section 4.1.4 (HelloRetryRequest)",
    ),
)


@quick_dataclass
class _Retried:
    """A connection with a HelloRetryRequest, and what it cost the exchange that waited."""

    connection: Connection
    hellos: list[tuple[int, int]]  # (when, packet) of each ClientHello
    cost_ns: int = 0
    length_ns: int = 0
    exchange_no: int | None = None
    rows: list[int] = dataclasses.field(default_factory=list)

    @property
    def delay_ns(self) -> int | None:
        """From one ClientHello to the other; None where they were not captured."""
        return self.hellos[1][0] - self.hellos[0][0] if len(self.hellos) > 1 else None

    def packets(self) -> list[int]:
        return [packet for _, packet in self.hellos[:2]] or [self.connection.first_packet_no]


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each server."""
    retried = {
        connection.connection_no: _Retried(connection, [])
        for connection in tables.connections
        if connection.tls is not None and connection.tls.hello_retry
    }
    if not retried:
        return
    for message in tables.handshake_messages.rows(retried, "client_hello"):
        hello = (message.seen_ns, message.first_packet_no)
        retried[message.connection_no].hellos.append(hello)
    costs = booked(tables, "hello_retry")
    for index, exchange_no in enumerate(costs.exchange_nos.tolist()):
        entry = retried.get(tables.exchanges[exchange_no].connection_no)
        if entry is not None:
            entry.cost_ns, entry.exchange_no = int(costs.cost_ns[index]), exchange_no
            entry.length_ns, entry.rows = int(costs.length_ns[index]), costs.rows_of(index)
    handshakes: dict[Server, int] = {}
    for connection in tables.connections:
        if connection.tls is not None:
            server = server_of(connection)
            handshakes[server] = handshakes.get(server, 0) + 1
    groups: dict[Server, list[_Retried]] = {}
    for entry in retried.values():
        groups.setdefault(server_of(entry.connection), []).append(entry)
    for server, group in groups.items():
        yield _finding(group, handshakes[server])


def _finding(group: list[_Retried], handshakes: int) -> Finding:
    by_cost = sorted(group, key=lambda entry: (-entry.cost_ns, entry.connection.connection_no))
    one = group[0].connection
    cost_ns = sum(entry.cost_ns for entry in group)
    waited = [entry for entry in by_cost if entry.exchange_no is not None]
    spared = [entry.delay_ns or 0 for entry in group if entry.exchange_no is None]
    delays = sorted(entry.delay_ns for entry in group if entry.delay_ns is not None)
    wanted = sorted({name for entry in group if (name := _group(entry.connection))})
    evidence = [packet for entry in by_cost for packet in entry.packets()]
    return Finding(
        detector="tls/hello-retry-request",
        severity=worst(by_default(entry.cost_ns, entry.length_ns) for entry in waited),
        confidence=1.0,
        summary=_summary(label(one), len(group), delays, wanted),
        advice=_advice(label(one), wanted),
        action=_action(label(one), wanted),
        connection_no=one.connection_no if len(group) == 1 else None,
        connection_nos=[entry.connection.connection_no for entry in group],
        exchange_nos=[entry.exchange_no for entry in waited if entry.exchange_no is not None],
        from_ns=min((e.hellos[0][0] for e in group if e.hellos), default=one.start_ns),
        to_ns=max((e.hellos[-1][0] for e in group if e.hellos), default=one.end_ns),
        count=len(group),
        cost_ns=cost_ns if waited else None,
        estimated_saving_ns=sum(spared) if spared else None,
        measures={
            "handshakes": handshakes,
            "handshakes_retried": len(group),
            "delay_max_ns": delays[-1] if delays else None,
            "group": ", ".join(wanted) or None,
        },
        examples=[
            Example(entry.packets(), entry.cost_ns or None, entry.exchange_no)
            for entry in by_cost[:MAX_EXAMPLES]
        ],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(set(evidence)),
        ledger_rows=[row for entry in waited for row in entry.rows],
    )


def _group(connection: Connection) -> str | None:
    """The group that was agreed in the end, which is the one asked for."""
    return None if connection.tls is None else connection.tls.group


def _summary(server: str, count: int, delays: list[int], wanted: list[str]) -> str:
    if count == 1:
        what = f"A TLS handshake with {server} took a round trip more"
    else:
        number = upper_first(wording.count_word(count))
        what = f"{number} TLS handshakes with {server} took a round trip more each"
    span = f", {time_range(delays[0], delays[-1])}" if delays else ""
    share = f"a key share of {listed(wanted)}" if wanted else "another key share"
    return f"{what}{span}: the server asked for {share}."


def _advice(server: str, wanted: list[str]) -> str:
    group = listed(wanted) if wanted else "the group that the server wants"
    return (
        f"Let clients of {server} send a key share for {group} with their first message (put it "
        "first in their list of groups), or let the server accept one that they send."
    )


def _action(server: str, wanted: list[str]) -> str:
    if not wanted:
        return f"Agree with {server} on a key exchange group that clients offer at once"
    return f"Offer a key share of {listed(wanted)} to {server} at once"
