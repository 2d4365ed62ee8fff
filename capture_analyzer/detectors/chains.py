"""Certificates as detectors judge them: by server, at the time of each connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capture_analyzer.detectors.servers import Server, server_of
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.certificates import Certificate
from capture_analyzer.model.connections import Connection


def shown(tables: Tables) -> Iterator[tuple[Server, Certificate, list[Connection]]]:
    """Each certificate with the connections of one server that were shown it, in table order."""
    for certificate in tables.certificates:
        groups: dict[Server, list[Connection]] = {}
        for number in certificate.connection_nos:
            connection = tables.connections[number]
            groups.setdefault(server_of(connection), []).append(connection)
        for server, connections in groups.items():
            yield server, certificate, connections


def when(connection: Connection) -> int:
    """The time at which a certificate counts: that of the handshake."""
    tls = connection.tls
    return connection.start_ns if tls is None or tls.start_ns is None else tls.start_ns


def certificate_packets(tables: Tables, connections: Sequence[Connection]) -> list[int]:
    """The packets that completed the Certificate messages of some connections."""
    found = [
        message.last_packet_no
        for message in tables.handshakes_of(connection.connection_no for connection in connections)
        if message.type == "certificate" and not message.from_client
    ]
    return found or [connection.first_packet_no for connection in connections]
