"""Connections and name lookups as rows of a report's data."""

from __future__ import annotations

from typing import Any, Final

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.report import labels
from capture_analyzer.report.choice import Choice
from capture_analyzer.report.strings import StringTable

MAX_LOOKUP_PACKETS: Final = 20  # questions and answers; nobody reads more repeats


def rows(tables: Tables, choice: Choice, strings: StringTable) -> dict[str, Any]:
    """How many connections there are, and those that are listed: their numbers and columns."""
    numbers = choice.connections
    listed = range(len(tables.connections)) if numbers is None else numbers.tolist()
    return {
        "count": len(tables.connections),
        "listed": None if numbers is None else listed,
        "rows": [connection(tables.connections[number], strings) for number in listed],
    }


def connection(row: Connection, strings: StringTable) -> list[Any]:
    """A connection's columns by position; `store.js` names them."""
    return [
        row.tcp_stream,
        strings.number(labels.server(row)),
        strings.number(labels.endpoint(row.client_ip, row.client_port)),
        strings.number(labels.endpoint(row.server_ip, row.server_port)),
        strings.number(row.protocol),
        strings.number(row.alpn),
        row.start_ns,
        row.end_ns,
        row.first_packet_no,
        row.last_packet_no,
        row.packet_count,
        row.client_bytes,
        row.server_bytes,
        strings.number(row.vantage_side),
        round(row.vantage_confidence, 2),
        row.rtt_ns,
        row.client_side_rtt_ns,
        row.server_side_rtt_ns,
        row.syn_retransmissions,
        row.retransmissions,
        row.retransmissions_spurious,
        row.missing_bytes,
        strings.number(row.reset_by),
        int(row.refused),
        int(row.preconnected),
        int(row.roles_certain),
        row.lookup_no,
        _tls(row.tls, strings),
    ]


def _tls(tls: TlsSummary | None, strings: StringTable) -> list[Any] | None:
    if tls is None:
        return None
    return [
        strings.number(tls.version),
        strings.number(tls.cipher_suite),
        tls.resumed,
        int(tls.hello_retry),
        tls.early_data,
        tls.ocsp_stapled,
        strings.number(tls.alert),
        strings.number(tls.decrypted),
        strings.number(tls.why_not),
        tls.duration_ns,
        int(tls.end_certain),
        strings.number(tls.group),
        tls.early_data_accepted,
        tls.renegotiations,
        tls.secure_renegotiation,
        strings.number(tls.ech),
        strings.number(tls.server_name_outer),
        int(tls.tunnelled),
    ]


def lookups(tables: Tables, choice: Choice, unit: int, strings: StringTable) -> list[list[Any]]:
    """Name lookups that listed connections used, each behind its number."""
    return [
        [
            row.lookup_no,
            strings.number(row.name),
            strings.number(row.type),
            strings.number(row.server_ip),
            row.start_ns // unit,
            None if row.end_ns is None else row.end_ns // unit,
            strings.number(row.rcode),
            row.question_count,
            row.packet_nos[:MAX_LOOKUP_PACKETS],
        ]
        for row in tables.lookups
        if any(choice.has_connection(number) for number in row.connection_nos)
    ]
