"""A connection request was lost, or not answered, and sent again.

What it detects:
    SYN or SYN-ACK segments that were sent again before their connection was up. The time
    until the repeat is booked on ledger cause syn_retry in the exchange that waited for the
    connection. Failed attempts that a client made to the same name just before count too.

    The connections of one server are one finding.

Why it matters:
    A sender that has no round trip time to go by waits a whole second before it repeats a
    SYN (RFC 6298), then usually twice as long each time. One lost segment makes a request
    that takes 50 ms take more than one second.

What to do:
    Find where the SYN, or the SYN-ACK that answers it, was dropped. In this order: the
    server's listen queue (nstat -az TcpExtListenOverflows TcpExtListenDrops on Linux), the
    connection tables and rate limits of firewalls, NAT gateways and load balancers between,
    then plain loss. A capture made at the server at the same time tells on which side of the
    network it happened. A client that keeps connections open pays this less often.

When it is wrong:
    A single SYN can be lost by chance; repeats are what makes it a fault.

    On a path whose round trip is longer than a second the first SYN may have been answered
    in time, and the repeat was needless. Then the time was lost to the path.

    A capture that drops packets can lack the answer that made the repeat needless.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

from capture_analyzer import wording
from capture_analyzer.detectors.contract import DEFAULT_SEVERITY, Meta
from capture_analyzer.detectors.phrases import amount, time_range, upper_first
from capture_analyzer.detectors.servers import Server, label, server_of
from capture_analyzer.detectors.severity import booked, by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, Example, Finding, Severity
from capture_analyzer.model.packets import LABELS, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass

META = Meta(
    tables=("connections",),
    causes=("syn_retry",),
    severity=DEFAULT_SEVERITY + "; a connection that was never answered is at least a warning",
    references=(
        "RFC 9293, section 3.5 (establishing a connection)",
        "RFC 6298, section 2 (the first retransmission timeout is one second)",
    ),
)

_COPIES: Final = frozenset({LABELS.index("capture_duplicate"), LABELS.index("network_duplicate")})


@quick_dataclass
class _Retried:
    """A connection whose set-up needed repeats, with what that cost the exchange behind it."""

    connection: Connection
    packet_nos: list[int]  # the repeats
    answers: int  # how many of them are SYN-ACKs of the server
    delay_ns: int  # from the first SYN to the last repeat
    unanswered: bool
    costs: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)
    """(cost, length, exchange_no) of each exchange that waited."""
    ledger_rows: list[int] = dataclasses.field(default_factory=list)

    @property
    def cost_ns(self) -> int:
        return sum(cost for cost, _, _ in self.costs)


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each server."""
    retried: dict[int, _Retried] = {}
    for connection in tables.connections:
        if connection.syn_retransmissions:
            entry = _look_at(connection, tables.packets)
            if entry is not None:
                retried[connection.connection_no] = entry
    if not retried:
        return
    _book(tables, retried)
    groups: dict[Server, list[_Retried]] = {}
    for entry in retried.values():
        groups.setdefault(server_of(entry.connection), []).append(entry)
    opened: dict[Server, int] = {}
    for connection in tables.connections:
        if connection.syn_packet_no is not None:
            server = server_of(connection)
            opened[server] = opened.get(server, 0) + 1
    for server, group in groups.items():
        yield _finding(group, opened.get(server, len(group)))


def _look_at(connection: Connection, packets: Packets) -> _Retried | None:
    """The repeats that delayed the connection; None without any."""
    numbers = []
    for number in connection.retry_packet_nos:
        if int(packets.label[number - 1]) in _COPIES:
            continue  # not sent again: copied on the way, or by the capture
        up = connection.established_packet_no
        if up is not None and number > up:
            continue  # the connection was up already
        refused = connection.refused and connection.reset_ns is not None
        if refused and int(packets.time_ns[number - 1]) >= (connection.reset_ns or 0):
            continue  # the client tried again because it was refused
        numbers.append(number)
    if not numbers:
        return None
    begin = connection.syn_ns if connection.syn_ns is not None else connection.start_ns
    silent = connection.syn_ack_packet_no is None and not connection.refused
    return _Retried(
        connection,
        numbers,
        answers=sum(int(packets.from_client[number - 1]) == 0 for number in numbers),
        delay_ns=max(int(packets.time_ns[number - 1]) for number in numbers) - begin,
        unanswered=silent and not (connection.client_bytes or connection.server_bytes),
    )


def _book(tables: Tables, retried: dict[int, _Retried]) -> None:
    """Give each exchange's ledger time to the connection that was retried for it."""
    lost = booked(tables, "syn_retry")
    for index, exchange_no in enumerate(lost.exchange_nos.tolist()):
        exchange = tables.exchanges[exchange_no]
        attempts = [*exchange.setup_connection_nos, exchange.connection_no]
        entry = next((retried[number] for number in attempts if number in retried), None)
        if entry is None:
            continue
        cost = (int(lost.cost_ns[index]), int(lost.length_ns[index]), exchange_no)
        entry.costs.append(cost)
        entry.ledger_rows += lost.rows_of(index)


def _finding(group: list[_Retried], opened: int) -> Finding:
    by_cost = sorted(
        group,
        key=lambda entry: (-entry.cost_ns, -entry.delay_ns, entry.connection.connection_no),
    )
    first = by_cost[0].connection
    exchanges = [exchange_no for entry in group for _, _, exchange_no in entry.costs]
    severities: list[Severity] = [
        by_default(cost, length) for entry in group for cost, length, _ in entry.costs
    ]
    if any(entry.unanswered for entry in group):
        severities.append("warning")
    evidence = [number for entry in by_cost for number in _evidence(entry)]
    repeats = sum(len(entry.packet_nos) for entry in group)
    return Finding(
        detector="tcp/syn-retransmission",
        severity=worst(severities),
        confidence=1.0,
        summary=_summary(group, opened),
        advice=_advice(group),
        action=_action(group),
        connection_no=first.connection_no if len(group) == 1 else None,
        connection_nos=[entry.connection.connection_no for entry in group],
        exchange_nos=exchanges,
        from_ns=min(_begin_ns(entry) for entry in group),
        to_ns=max(_begin_ns(entry) + entry.delay_ns for entry in group),
        count=len(group),
        cost_ns=sum(entry.cost_ns for entry in group) if exchanges else None,
        measures={
            "connections": opened,
            "connections_retried": len(group),
            "connections_unanswered": sum(entry.unanswered for entry in group),
            "repeats": repeats,
            "delay_max_ns": max(entry.delay_ns for entry in group),
        },
        examples=[
            Example(
                _evidence(entry),
                entry.cost_ns if entry.costs else None,
                entry.costs[0][2] if entry.costs else None,
            )
            for entry in by_cost[:MAX_EXAMPLES]
        ],
        packet_nos=evidence,
        packet_total=len(set(evidence)),
        ledger_rows=[row for entry in group for row in entry.ledger_rows],
    )


def _evidence(entry: _Retried) -> list[int]:
    """First SYN, repeats, and the answer."""
    connection = entry.connection
    ends = (connection.syn_packet_no, *entry.packet_nos, connection.syn_ack_packet_no)
    return [number for number in ends if number is not None]


def _begin_ns(entry: _Retried) -> int:
    connection = entry.connection
    return connection.start_ns if connection.syn_ns is None else connection.syn_ns


def _summary(group: list[_Retried], opened: int) -> str:
    server = label(group[0].connection)
    if len(group) == 1:
        return _summary_of_one(group[0], server)
    number = upper_first(wording.count_word(len(group)))
    of = f" of {wording.count_word(opened)}" if opened > len(group) else ""
    requests = f"{number}{of} connection requests to {server}"
    silent = sum(entry.unanswered for entry in group)
    if silent == len(group):
        return f"{requests} were repeated and never answered."
    delays = sorted(entry.delay_ns for entry in group if not entry.unanswered)
    span = time_range(delays[0], delays[-1])
    text = f"{requests} were {_fate(group)} and repeated after {span}"
    if silent:
        verb = "was" if silent == 1 else "were"
        text += f"; {wording.count_word(silent)} {verb} never answered"
    return text + "."


def _summary_of_one(entry: _Retried, server: str) -> str:
    times = entry.answers or len(entry.packet_nos)
    often = {1: "once", 2: "twice"}.get(times, f"{wording.count_word(times)} times")
    after = amount(entry.delay_ns)
    if entry.unanswered:
        return f"A connection request to {server} was repeated {often} and never answered."
    if entry.answers:
        how = "was lost and repeated" if times == 1 else f"was lost and repeated {often}"
        return f"The answer (SYN-ACK) of {server} {how}; the connection waited {after}."
    request = f"A connection request to {server} was {_fate([entry])}"
    if times == 1:
        return f"{request} and repeated after {after}."
    return f"{request} {often}; the next came after {after}."


def _fate(group: list[_Retried]) -> str:
    """Lost, as far as can be told; at the server's own side a SYN that came can't have been."""
    return "not answered" if _seen_at_server(group) else "lost"


def _seen_at_server(group: list[_Retried]) -> bool:
    return all(entry.connection.vantage_side == "server" and not entry.answers for entry in group)


def _advice(group: list[_Retried]) -> str:
    server = label(group[0].connection)
    chance = "" if len(group) > 1 else " A single loss can be chance; if it recurs it is not."
    if _seen_at_server(group):
        return (
            f"The requests reached {server}, where this was captured, and got no answer in time. "
            "Look at its listen queue (nstat -az TcpExtListenOverflows TcpExtListenDrops) and at "
            "its packet filter." + chance
        )
    return (
        f"Find where the SYN to {server}, or the SYN-ACK that answers it, was dropped: the "
        "server's listen queue (nstat -az TcpExtListenOverflows TcpExtListenDrops), a firewall or "
        "load balancer, or the path. A capture at the server tells which side it was." + chance
    )


def _action(group: list[_Retried]) -> str:
    server = label(group[0].connection)
    if _seen_at_server(group):
        return f"Find why {server} left a SYN unanswered"
    if all(entry.answers for entry in group):
        return f"Find where the SYN-ACK of {server} was dropped"
    return f"Find where the SYN to {server} was dropped"
