"""Connection requests were refused.

What it detects:
    SYN segments that were answered with RST: nothing listens on that port, or a packet filter
    answers for the server. A reset of a connection that was up is not meant.

    The connections of one server are one finding.

Why it matters:
    The request that the connection was for fails at once, unless the client knows another
    address. Clients that try again and again load both sides and delay the error.

What to do:
    Find whether the server process runs and listens on this address and port (ss -ltn on the
    server): it may have crashed, may still be starting, listen on another address only, or
    the port in the client's configuration is wrong. Behind a load balancer, look at the health
    of its members. If the server listens, a firewall rejects the connection (REJECT with
    tcp-reset).

When it is wrong:
    A load balancer may refuse on purpose to make the client take another address; that the
    request succeeded in the end is said here.

    Port scans and health checks of services that are switched off look like this, too.

    Browsers try HTTP and HTTPS at once; one of them is refused where a host speaks only the
    other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import upper_first
from capture_analyzer.detectors.servers import Established, Server, server_of, with_port
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, Example, Finding, Severity

META = Meta(
    tables=("connections",),
    severity=(
        "critical: the client got no connection to the server; warning: a later attempt succeeded; "
        "info: plain HTTP was refused while HTTPS on the same host was not, or the other way"
    ),
    references=("RFC 9293, section 3.5.2 (reset generation)",),
)

TWIN: Final = {80: 443, 443: 80}
"""Clients that don't know whether a host speaks HTTP or HTTPS try both ports."""

TWIN_NS: Final = 3_000_000_000  # tried within this, they are one attempt


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each server."""
    refused: dict[Server, list[Connection]] = {}
    for connection in tables.connections:
        if connection.refused:
            refused.setdefault(server_of(connection), []).append(connection)
    if not refused:
        return
    wanted = {connection.server_port for group in refused.values() for connection in group}
    wanted |= {TWIN[port] for port in wanted if port in TWIN}
    established = Established(tables.connections, wanted)
    hurt: dict[int, list[int]] = {}  # by connection: exchanges that it was opened for
    for exchange_no, numbers in tables.exchanges.setup_connection_nos.items():
        for number in numbers:
            hurt.setdefault(number, []).append(exchange_no)
    for group in refused.values():
        exchange_nos = {no for one in group for no in hurt.get(one.connection_no, ())}
        yield _finding(group, established, sorted(exchange_nos))


def _finding(group: list[Connection], established: Established, hurt: list[int]) -> Finding:
    last = {connection.client_ip: connection for connection in group}
    recovered = all(established.after(one, one.start_ns) is not None for one in last.values())
    twin = not recovered and all(
        one.server_port in TWIN and established.about(one, TWIN[one.server_port], TWIN_NS)
        for one in group
    )
    severity: Severity = "warning" if recovered else "info" if twin else "critical"
    server, count = with_port(group[0]), len(group)
    port = group[0].server_port
    evidence = [number for connection in group for number in _packets(connection)]
    numbers = [connection.connection_no for connection in group]
    if count == 1:
        summary = f"A connection to {server} was refused"
    else:
        number = upper_first(wording.count_word(count))
        summary = f"{number} connections to {server} were refused"
    if recovered:
        summary += "; a later one was accepted."
    elif twin:
        summary += f"; port {TWIN[port]} of the same host was open."
    else:
        summary += "."
    return Finding(
        detector="tcp/connection-refused",
        severity=severity,
        confidence=1.0,
        summary=summary,
        advice=(
            f"Find whether a process listens on {group[0].server_ip} port {port} (ss -ltn on the "
            "server), whether the port is right, and whether a firewall rejects it."
        ),
        action=f"Find why nothing accepts connections to {server}",
        connection_no=numbers[0] if count == 1 else None,
        connection_nos=numbers,
        exchange_nos=hurt,
        from_ns=min(connection.start_ns for connection in group),
        to_ns=max(connection.end_ns for connection in group),
        count=count,
        measures={
            "connections_refused": count,
            "port": port,
            "accepted_later": recovered,
            "other_port_open": twin,
        },
        examples=[Example(_packets(connection)) for connection in group[:MAX_EXAMPLES]],
        packet_nos=evidence,
        packet_total=len(set(evidence)),
    )


def _packets(connection: Connection) -> list[int]:
    """The first SYN and the last packet, which is the reset."""
    ends = (connection.syn_packet_no, connection.last_packet_no)
    return [number for number in ends if number is not None]
