"""TLS handshakes failed.

What it detects:
    Connections on which a ClientHello was sent and no handshake was completed: one side sent a
    fatal alert, or closed or reset the connection first. The alert and its side are named where
    they can be read. A close_notify alert behind a completed handshake is none.

    Failures of the same kind at one server are one finding.

Why it matters:
    No request could be sent. Most clients report no more than "SSL error".

What to do:
    handshake_failure, protocol_version, insufficient_security: the two sides share no version
    or suite; compare their settings. unknown_ca, bad_certificate, certificate_expired,
    certificate_unknown from the client: it does not accept the server's certificate; look at
    its names, its dates and the chain. unrecognized_name: the server does not know the name
    asked for. certificate_required: the client has to show a certificate. A close without an
    alert right behind the ClientHello: something in front of the server refuses TLS, or it is
    no TLS port.

When it is wrong:
    In TLS 1.3 alerts behind the ServerHello are encrypted: that something of the length of an
    alert was sent is known, not which it was.

    A client that only tests whether a port is open closes without having failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from capture_analyzer.detectors.about import about, number_of
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import upper_first
from capture_analyzer.detectors.servers import Server, label, server_of
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import rows_equal
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import ROLE_CODE

META = Meta(
    tables=("connections",),
    severity="critical: no connection of this client to the server succeeded; warning: one did",
    references=("RFC 8446, section 6 (alert protocol)", "RFC 5246, section 7.2"),
)

_CERTIFICATE: Final = (
    "unknown_ca",
    "bad_certificate",
    "certificate_expired",
    "certificate_revoked",
    "certificate_unknown",
    "unsupported_certificate",
    "bad_certificate_status_response",
)


@quick_dataclass(frozen=True)
class _Failure:
    connection: Connection
    side: str  # who ended it: "client", "server" or ""
    alert: str | None  # None: without one that could be read
    how: str  # "alert", "encrypted alert", "reset", "close"


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each server and kind of failure."""
    suspects = [
        connection
        for connection in tables.connections
        if connection.tls is not None
        and connection.tls.start_ns is not None
        and connection.tls.end_ns is None
        and not connection.missing_bytes
    ]
    if not suspects:
        return
    used = set(tables.exchanges.columns.connection_no.tolist())
    groups: dict[tuple[Server, str, str | None, str], list[_Failure]] = {}
    for connection in suspects:
        if connection.connection_no in used:
            continue
        failure = _failure(tables, connection)
        if failure is not None:
            key = (server_of(connection), failure.side, failure.alert, failure.how)
            groups.setdefault(key, []).append(failure)
    succeeded = {
        (connection.client_ip, server_of(connection))
        for connection in tables.connections
        if connection.tls is not None and connection.tls.end_ns is not None
    }
    for group in groups.values():
        yield _finding(tables, group, succeeded)


def _failure(tables: Tables, connection: Connection) -> _Failure | None:
    """How a handshake failed; None if the capture does not hold its end."""
    tls = connection.tls
    assert tls is not None
    if tls.alert is not None:
        side, _, alert = tls.alert.partition(": ")
        return _Failure(connection, side, alert, "alert")
    if connection.fin_ns is None and connection.reset_ns is None:
        return None
    records = tables.tls_records
    number = connection.connection_no
    part = rows_equal(records.connection_no, number)
    if not records.complete[part].all():
        return None
    alerts = np.flatnonzero(records.role[part] == ROLE_CODE["alert"])
    if len(alerts):
        first = alerts[records.first_packet_no[part][alerts].argmin()]
        side = "client" if records.from_client[part][first] else "server"
        return _Failure(connection, side, None, "encrypted alert")
    if connection.reset_ns is not None:
        return _Failure(connection, connection.reset_by or "", None, "reset")
    return _Failure(connection, "", None, "close")


def _finding(tables: Tables, group: list[_Failure], succeeded: set[tuple[str, Server]]) -> Finding:
    first = group[0]
    connections = [failure.connection for failure in group]
    one = first.connection
    others = any((c.client_ip, server_of(one)) in succeeded for c in connections)
    evidence = _evidence(tables, connections)
    many = len(group)
    subject = "A TLS handshake" if many == 1 else upper_first(number_of(many, "TLS handshake"))
    return Finding(
        detector="tls/handshake-failure",
        severity="warning" if others else "critical",
        confidence=1.0 if first.how == "alert" else 0.8,
        summary=f"{subject} with {label(one)} failed: {_reason(first)}.",
        advice=_advice(first, label(one)),
        action=f"Find why TLS handshakes with {label(one)} fail",
        **about(tables, connections),
        measures={
            "alert": first.alert,
            "side": first.side or None,
            "how": first.how,
            "connections": many,
        },
        examples=[Example([number]) for number in evidence[:MAX_EXAMPLES]],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(evidence),
    )


def _reason(failure: _Failure) -> str:
    if failure.how == "alert":
        return f"the {failure.side} sent the alert {failure.alert}"
    if failure.how == "encrypted alert":
        return f"the {failure.side} sent an alert that is encrypted"
    if failure.how == "reset":
        return f"the {failure.side or 'connection'} reset it" if failure.side else "it was reset"
    return "the connection was closed"


def _advice(failure: _Failure, server: str) -> str:
    if failure.alert in _CERTIFICATE:
        return (
            f"Look at the certificate of {server}: its names, its dates, the chain, and which "
            "authorities the client trusts."
        )
    if failure.alert == "unrecognized_name":
        return f"Check which name the client asks {server} for, and which ones it serves."
    if failure.alert is not None:
        return f"Compare the versions and suites that the client offers with those of {server}."
    if failure.side == "client":
        return f"Look into the client's log: it gave up on {server}."
    return f"Look into the log of {server}, and of what stands in front of it."


def _evidence(tables: Tables, connections: list[Connection]) -> list[int]:
    """The records with alerts, else the last packets."""
    records = tables.tls_records
    packet_nos = []
    for connection in connections:
        part = rows_equal(records.connection_no, connection.connection_no)
        alerts = np.flatnonzero(records.role[part] == ROLE_CODE["alert"])
        last = int(records.first_packet_no[part][alerts[-1]]) if len(alerts) else None
        packet_nos.append(connection.last_packet_no if last is None else last)
    return packet_nos
