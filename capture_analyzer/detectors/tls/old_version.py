"""Connections used a version of TLS that is no longer safe.

What it detects:
    Connections whose handshake agreed on TLS 1.1, TLS 1.0 or SSL 3.0. What counts is the version
    that the server chose, not the one in the record headers: a ClientHello of TLS 1.3 has 1.0
    there.

    The connections of one server are one finding.

Why it matters:
    These versions are deprecated: their key exchange and hashes are weak, browsers and current
    libraries refuse them, and a client that is updated will fail to connect. Their handshake
    also takes two round trips.

What to do:
    Enable TLS 1.2 and 1.3 on the side that lacks them: the server if other clients get the same
    version, else the client's library or its settings.

When it is wrong:
    It is read off the ServerHello; there is no doubt in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from capture_analyzer.detectors.about import about, number_of
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import upper_first
from capture_analyzer.detectors.servers import Server, label, server_of
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding

OLD: Final = ("SSL 3.0", "TLS 1.0", "TLS 1.1")  # oldest first

META = Meta(
    tables=("connections",),
    severity="warning: it works today, and clients that are updated will be refused",
    references=(
        "RFC 8996 (deprecating TLS 1.0 and TLS 1.1)",
        "RFC 7568 (deprecating SSL 3.0)",
    ),
)


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each server."""
    groups: dict[Server, list[Connection]] = {}
    for connection in tables.connections:
        if connection.tls is not None and connection.tls.version in OLD:
            groups.setdefault(server_of(connection), []).append(connection)
    for group in groups.values():
        yield _finding(tables, group)


def _finding(tables: Tables, group: list[Connection]) -> Finding:
    versions = {connection.tls.version for connection in group if connection.tls}
    oldest = next(version for version in OLD if version in versions)
    one = group[0]
    hellos = {
        message.connection_no: message.first_packet_no
        for message in tables.handshakes_of(connection.connection_no for connection in group)
        if message.type == "server_hello"
    }
    evidence = [hellos.get(c.connection_no, c.first_packet_no) for c in group]
    subject = upper_first(number_of(len(group), "connection"))
    return Finding(
        detector="tls/old-version",
        severity="warning",
        confidence=1.0,
        summary=f"{subject} to {label(one)} used {oldest}, which is deprecated.",
        advice=(
            f"Enable TLS 1.2 and 1.3 where they are missing: at {label(one)}, or at its client "
            "if others get a newer version."
        ),
        action=f"Enable TLS 1.2 and 1.3 between the client and {label(one)}",
        **about(tables, group),
        measures={"version": oldest, "connections": len(group)},
        examples=[Example([number]) for number in evidence[:MAX_EXAMPLES]],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(evidence),
    )
