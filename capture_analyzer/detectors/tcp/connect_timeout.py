"""Connection requests got no answer until the client gave up.

What it detects:
    SYN segments to which nothing came back, neither SYN-ACK nor RST, for so long that the
    client gave up: it tried another address or another connection, or it did not repeat the
    SYN when it was due. What the exchange behind it lost is booked on ledger cause syn_retry.

    The connections of one server are one finding.

Why it matters:
    An unanswered SYN is the slowest way to fail: a client without a limit of its own waits
    for more than two minutes on Linux, and the person in front of it sees nothing.

What to do:
    A packet filter that drops, a route that is missing, or a host that is down: try the
    address and port from elsewhere, and capture on the server to see whether the SYN arrives.
    A server whose listen queue is full drops SYNs as well (nstat -az TcpExtListenOverflows).
    Where an address of several is dead, take it out of DNS or out of the pool, and let the
    client try the next one soon (RFC 8305).

When it is wrong:
    A capture that ends before the next SYN was due proves nothing and is left out.

    Where the answers take another way, which was not captured, the connection may be fine;
    then the client's later packets show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from capture_analyzer import wording
from capture_analyzer.detectors.contract import DEFAULT_SEVERITY, Meta
from capture_analyzer.detectors.phrases import time_range, upper_first
from capture_analyzer.detectors.servers import Established, Server, server_of, with_port
from capture_analyzer.detectors.severity import Booked, booked, by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, Example, Finding, Severity

META = Meta(
    tables=("connections",),
    severity=DEFAULT_SEVERITY + "; at least warning; critical if no later attempt succeeded",
    references=(
        "RFC 9293, section 3.8.3 (TCP connection failures)",
        "RFC 8305, section 5 (connection attempts one after the other)",
    ),
)

FIRST_TIMER_NS: Final = 1_000_000_000
"""A SYN is repeated after one second at first (RFC 6298, section 2.1)."""


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each server."""
    silent: dict[Server, list[Connection]] = {}
    for connection in tables.connections:
        if connection.syn_ns is not None and _unanswered(connection):
            silent.setdefault(server_of(connection), []).append(connection)
    if not silent:
        return
    known = tables.packets.time_ns[tables.packets.time_ns != NO_TIME]
    end_ns = int(known.max())
    ports = {connection.server_port for group in silent.values() for connection in group}
    others = Established(tables.connections, ports)
    lost = booked(tables, "syn_retry")
    behind: dict[int, list[int]] = {}  # by connection: which of `lost` it delayed
    for index, exchange_no in enumerate(lost.exchange_nos.tolist()):
        for number in tables.exchanges[exchange_no].setup_connection_nos:
            behind.setdefault(number, []).append(index)
    for group in silent.values():
        given_up = [c for c in group if _gave_up(c, others, end_ns)]
        if given_up:
            delayed = {index for c in given_up for index in behind.get(c.connection_no, ())}
            yield _finding(given_up, others, lost, sorted(delayed))


def _unanswered(connection: Connection) -> bool:
    return (
        connection.syn_ack_ns is None
        and connection.established_ns is None
        and not connection.refused
        and not connection.client_bytes
        and not connection.server_bytes
    )


def _gave_up(connection: Connection, others: Established, end_ns: int) -> bool:
    """Whether the client stopped to wait before the capture ended."""
    last = connection.end_ns
    repeats = len(connection.retry_packet_nos)
    # The next SYN is due twice as long after the last as that came after the one before.
    due = FIRST_TIMER_NS << min(repeats, 6) if repeats else FIRST_TIMER_NS
    if end_ns - last > due * 3 // 2:
        return True
    return others.after(connection, last) is not None


def _waited(connection: Connection, others: Established) -> int:
    """How long the client waited, as far as it shows: to its next attempt, or its last SYN."""
    following = others.after(connection, connection.end_ns)
    end = connection.end_ns if following is None else following
    return end - (connection.syn_ns or 0)


def _finding(
    group: list[Connection], others: Established, lost: Booked, delayed: list[int]
) -> Finding:
    numbers = [connection.connection_no for connection in group]
    costs = [
        (int(lost.cost_ns[i]), int(lost.length_ns[i]), int(lost.exchange_nos[i])) for i in delayed
    ]
    rows = [row for index in delayed for row in lost.rows_of(index)]
    last_try = max(connection.start_ns for connection in group)
    recovered = bool(costs) or others.after(group[0], last_try, any_client=True) is not None
    severities: list[Severity] = [by_default(cost, length) for cost, length, _ in costs]
    severities.append("warning" if recovered else "critical")
    waits = sorted(_waited(connection, others) for connection in group)
    server, count = with_port(group[0]), len(group)
    tries = sum(1 + len(connection.retry_packet_nos) for connection in group)
    syns = "SYN" if tries == 1 else "SYNs"
    if count == 1:
        summary = (
            f"A connection request to {server} got no answer to {wording.count_word(tries)} {syns}"
        )
    else:
        summary = (
            f"{upper_first(wording.count_word(count))} connection requests to {server} got no "
            f"answer to {wording.count_word(tries)} {syns}"
        )
    if waits[-1]:
        summary += f"; the client gave up after {time_range(waits[0], waits[-1])}"
    summary += ", and another attempt succeeded." if recovered else "."
    evidence = [number for connection in group for number in _packets(connection)]
    return Finding(
        detector="tcp/connect-timeout",
        severity=worst(severities),
        confidence=0.95,
        summary=summary,
        advice=(
            f"Find whether SYNs reach {group[0].server_ip} port {group[0].server_port}: a packet "
            "filter that drops, a missing route, a host that is down, or a full listen queue. A "
            "capture at the server tells."
        ),
        action=f"Find why {server} does not answer",
        connection_no=numbers[0] if count == 1 else None,
        connection_nos=numbers,
        exchange_nos=[exchange_no for _, _, exchange_no in costs],
        from_ns=min(connection.start_ns for connection in group),
        to_ns=max(connection.end_ns for connection in group),
        count=count,
        cost_ns=sum(cost for cost, _, _ in costs) if costs else None,
        measures={
            "connections": count,
            "syns": tries,
            "waited_max_ns": waits[-1],
            "recovered": recovered,
        },
        examples=[Example(_packets(connection)) for connection in group[:MAX_EXAMPLES]],
        packet_nos=evidence,
        packet_total=len(set(evidence)),
        ledger_rows=rows,
    )


def _packets(connection: Connection) -> list[int]:
    numbers = (connection.syn_packet_no, *connection.retry_packet_nos)
    return [number for number in numbers if number is not None]
