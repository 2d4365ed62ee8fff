"""Full TLS handshakes although the client could have resumed an earlier session.

What it detects:
    Full handshakes of clients that had shaken hands with the same server before in this capture,
    or offered a ticket or session that the server did not take. The first contact is none.

    The connections of one server are one finding.

Why it matters:
    A resumed handshake needs no certificate and no signature, and in TLS 1.2 one round trip
    less. In TLS 1.3 it is also what early data needs.

What to do:
    Where the client offered a session and the server did not take it: let all servers behind
    the name share their ticket keys, and keep them longer. Where it offered none: let the
    client keep sessions (one TLS context for all connections, not a new one for each), or
    better, keep connections open.

When it is wrong:
    A server may refuse on purpose, and a client that opens several connections at once has no
    session for them yet: only handshakes that began after another was complete are counted.

    Two programs on one host look like one client.
"""

from __future__ import annotations

from collections.abc import Iterable

from capture_analyzer import wording
from capture_analyzer.detectors.about import about, number_of
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import upper_first
from capture_analyzer.detectors.servers import Server, label, servers
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass

META = Meta(
    tables=("connections",),
    severity="info: it costs a round trip at most (TLS 1.2), and harms no request",
    references=(
        "RFC 8446, section 2.2 (resumption and pre-shared key)",
        "RFC 5077 (session tickets up to TLS 1.2)",
    ),
)


@quick_dataclass
class _Full:
    """A handshake that could have been resumed."""

    connection: Connection
    offered: bool

    @property
    def saving_ns(self) -> int:
        """A round trip up to TLS 1.2; TLS 1.3 has none less (RFC 8446, section 2.2)."""
        tls = self.connection.tls
        if tls is None or tls.version == "TLS 1.3":
            return 0
        return self.connection.rtt_ns or 0


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each server."""
    completed: dict[tuple[str, Server], int] = {}  # when a client's first handshake ended
    rows = list(zip(tables.connections, tables.once(servers), strict=True))
    for connection, server in rows:
        tls = connection.tls
        if tls is not None and tls.end_ns is not None:
            key = (connection.client_ip, server)
            if completed.setdefault(key, tls.end_ns) > tls.end_ns:
                completed[key] = tls.end_ns
    groups: dict[Server, list[_Full]] = {}
    totals: dict[Server, int] = {}
    for connection, server in rows:
        tls = connection.tls
        if tls is None or tls.start_ns is None or tls.end_ns is None or tls.resumed is None:
            continue
        totals[server] = totals.get(server, 0) + 1
        if tls.resumed:
            continue
        offered = bool(tls.resumption_offered)
        if offered or completed[connection.client_ip, server] < tls.start_ns:
            groups.setdefault(server, []).append(_Full(connection, offered))
    for server, group in groups.items():
        yield _finding(tables, group, totals[server])


def _finding(tables: Tables, group: list[_Full], total: int) -> Finding:
    connections = [full.connection for full in group]
    one = connections[0]
    offered = sum(full.offered for full in group)
    saving = sum(full.saving_ns for full in group)
    subject = upper_first(wording.count_word(len(group)))
    of = f"{subject} of {number_of(total, 'TLS handshake')} with {label(one)}"
    if total == 1:
        of = f"The only TLS handshake with {label(one)}"
    if offered == len(group):
        why = "the server did not take the session that its client offered"
    elif offered:
        why = f"in {wording.count_word(offered)} the server did not take what its client offered"
    else:
        why = "the client offered no session"
    verb = "was" if len(group) == 1 else "were"
    evidence = _hellos(tables, connections)
    refused = 2 * offered >= len(group)
    return Finding(
        detector="tls/not-resumed",
        severity="info",
        confidence=1.0 if refused else 0.8,
        summary=f"{of} {verb} full although an earlier session could have been resumed: {why}.",
        advice=(
            f"Let all servers behind {label(one)} share their ticket keys."
            if refused
            else f"Let the client keep the sessions of {label(one)}, or its connections."
        ),
        **about(tables, connections),
        estimated_saving_ns=saving or None,
        measures={"handshakes": total, "handshakes_full": len(group), "offered": offered},
        examples=[Example([number]) for number in evidence[:MAX_EXAMPLES]],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(evidence),
    )


def _hellos(tables: Tables, connections: list[Connection]) -> list[int]:
    found = {
        message.connection_no: message.first_packet_no
        for message in tables.handshakes_of(c.connection_no for c in connections)
        if message.type == "server_hello"
    }
    return [found.get(c.connection_no, c.first_packet_no) for c in connections]
