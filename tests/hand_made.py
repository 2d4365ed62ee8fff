"""Tables made by hand, for tests of what reads tables only.

Loaded through the fixture `hand_made` (test folders are no packages).
"""

from __future__ import annotations

import dataclasses
from typing import Any, get_args, get_type_hints

import numpy as np

from capture_analyzer.model.analysis import Analysis, Redaction, Tables
from capture_analyzer.model.capture import CaptureFile, Interface
from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.model.events import EVENT_KIND_CODE, Events
from capture_analyzer.model.exchanges import Exchange, Exchanges, Phases
from capture_analyzer.model.frames import Frames
from capture_analyzer.model.holes import HOLE_KINDS, Holes
from capture_analyzer.model.limits import LIMIT_CODE, Limits
from capture_analyzer.model.packets import ACK, LABELS, Packets
from capture_analyzer.model.tls_records import HandshakeMessages, TlsRecords
from capture_analyzer.model.waits import Ledger, Waits

MS = 1_000_000


def packets(count: int, **columns: Any) -> Packets:
    """TCP packets 1 ms apart; `columns` over their zero values."""
    arrays: dict[str, Any] = {}
    for field in dataclasses.fields(Packets):
        if field.name == "addresses":
            arrays["addresses"] = ["192.0.2.1", "198.51.100.1"]
            continue
        if "NDArray" not in str(field.type):
            continue
        kind = get_args(get_args(get_type_hints(Packets)[field.name])[1])[0]
        value = columns.pop(field.name, 0)
        arrays[field.name] = (
            np.full(count, value, kind) if np.isscalar(value) else np.array(value, kind)
        )
    assert not columns, f"no such columns: {columns}"
    made = Packets(**arrays)
    if not made.time_ns.any():
        made.time_ns[:] = np.arange(count) * MS
    if not made.tcp_header_bytes.any():
        made.protocol[:], made.tcp_header_bytes[:], made.flags[:] = 6, 20, ACK
        made.label[made.label == 0] = LABELS.index("ack")
    return made


def connection(number: int = 0, **values: Any) -> Connection:
    """A plain connection to a server with a name."""
    defaults: dict[str, Any] = {
        "connection_no": number,
        "transport": "tcp",
        "tcp_stream": number,
        "client_ip": "192.0.2.1",
        "client_port": 40_000 + number,
        "server_ip": "198.51.100.1",
        "server_port": 443,
        "server_name": "api.example",
        "roles_certain": True,
        "start_ns": 0,
        "end_ns": 1000 * MS,
        "first_packet_no": 1,
        "last_packet_no": 10,
        "packet_count": 10,
    }
    return Connection(**{**defaults, **values})


def exchange(number: int, start_ms: float, end_ms: float, **values: Any) -> Exchange:
    """A complete exchange on connection 0."""
    defaults: dict[str, Any] = {
        "exchange_no": number,
        "connection_no": 0,
        "stream_id": None,
        "protocol": "http/1.1",
        "kind": "http",
        "inferred": False,
        "method": "GET",
        "authority": "api.example",
        "path": "/",
        "status": 200,
        "start_ns": round(start_ms * MS),
        "request_start_ns": round(start_ms * MS),
        "request_end_ns": round(start_ms * MS),
        "response_start_ns": round(end_ms * MS),
        "end_ns": round(end_ms * MS),
        "last_ns": round(end_ms * MS),
        "request_first_packet_no": 10 * number + 1,
        "request_last_packet_no": 10 * number + 1,
        "response_first_packet_no": 10 * number + 2,
        "response_last_packet_no": 10 * number + 2,
        "phases": Phases(wait_ns=round((end_ms - start_ms) * MS)),
    }
    return Exchange(**{**defaults, **values})


def ledger(*entries: tuple[int, float, float, str], confidence: float = 1.0) -> Ledger:
    """Entries of (exchange_no, from, to in ms, cause)."""
    count = len(entries)
    return Ledger(
        exchange_no=np.array([entry[0] for entry in entries], np.int32),
        from_ns=np.array([round(entry[1] * MS) for entry in entries], np.int64),
        to_ns=np.array([round(entry[2] * MS) for entry in entries], np.int64),
        cause=np.array([CAUSE_CODE[entry[3]] for entry in entries], np.uint8),
        confidence=np.full(count, confidence, np.float32),
        packet_a=np.full(count, 1, np.int32),
        packet_b=np.full(count, 2, np.int32),
        packet_c=np.zeros(count, np.int32),
    )


def events(*rows: tuple[int, float, str]) -> Events:
    """Events of (exchange_no, time in ms, kind), each in a packet of its own from 11 on."""
    made = Events()
    for field in dataclasses.fields(Events):
        setattr(made, field.name, np.zeros(len(rows), getattr(made, field.name).dtype))
    made.exchange_no[:] = [row[0] for row in rows]
    for times in (made.seen_ns, made.in_order_ns, made.time_ns):
        times[:] = [round(row[1] * MS) for row in rows]
    made.kind[:] = [EVENT_KIND_CODE[row[2]] for row in rows]
    made.packet_no[:] = np.arange(11, 11 + len(rows))
    made.output_tokens[:] = -1
    return made


def holes(*rows: tuple[int, str, float, float | None, int, int]) -> Holes:
    """Holes of (connection_no, kind, opened, filled in ms or None, opening and filling packet).

    Each is 1,000 bytes of the server's stream, or the client's where connection_no is negative
    (of connection 0: -1, and so on).
    """
    made = Holes()
    for field in dataclasses.fields(Holes):
        setattr(made, field.name, np.zeros(len(rows), getattr(made, field.name).dtype))
    made.connection_no[:] = [row[0] if row[0] >= 0 else -1 - row[0] for row in rows]
    made.from_client[:] = [row[0] < 0 for row in rows]
    made.length[:] = 1000
    made.kind[:] = [HOLE_KINDS.index(row[1]) for row in rows]
    made.opened_ns[:] = [round(row[2] * MS) for row in rows]
    made.filled_ns[:] = [NO_TIME if row[3] is None else round(row[3] * MS) for row in rows]
    made.opened_packet_no[:] = [row[4] for row in rows]
    made.filled_packet_no[:] = [row[5] for row in rows]
    made.confidence[:] = 0.9
    return made


def limits(*rows: tuple[int, bool, str, float, float], in_flight: int = 10_000) -> Limits:
    """Limits of (connection_no, from_client, kind, from, to in ms), packets 11, 12, 13 on."""
    made = Limits()
    for field in dataclasses.fields(Limits):
        setattr(made, field.name, np.zeros(len(rows), getattr(made, field.name).dtype))
    made.connection_no[:] = [row[0] for row in rows]
    made.from_client[:] = [row[1] for row in rows]
    made.kind[:] = [LIMIT_CODE[row[2]] for row in rows]
    made.from_ns[:] = [round(row[3] * MS) for row in rows]
    made.to_ns[:] = [round(row[4] * MS) for row in rows]
    made.from_packet_no[:] = 11 + 3 * np.arange(len(rows))
    made.freed_packet_no[:] = 12 + 3 * np.arange(len(rows))
    made.to_packet_no[:] = 13 + 3 * np.arange(len(rows))
    made.in_flight_bytes[:] = in_flight
    made.confidence[:] = 0.9
    return made


def tls_records(*rows: tuple[int, int, int]) -> TlsRecords:
    """Records of (connection_no, content type, first packet_no)."""
    made = TlsRecords()
    for field in dataclasses.fields(TlsRecords):
        setattr(made, field.name, np.zeros(len(rows), getattr(made, field.name).dtype))
    made.connection_no[:] = [row[0] for row in rows]
    made.content_type[:] = [row[1] for row in rows]
    made.first_packet_no[:] = [row[2] for row in rows]
    made.last_packet_no[:] = [row[2] for row in rows]
    return made


def tls(**values: Any) -> TlsSummary:
    """A TLS 1.3 handshake without keys."""
    return TlsSummary(**{"version": "TLS 1.3", "why_not": "no key log", **values})


def tables(**values: Any) -> Tables:
    """Tables with a hundred packets and nothing else, but for `values`."""
    defaults: dict[str, Any] = {
        "epoch_ns": 1_796_093_752_000_000_000,
        "duration_ns": 5000 * MS,
        "files": [CaptureFile(0, "trouble.pcap", "pcap", 100, 6600)],
        "interfaces": [Interface(0, 0, 1, 262_144, 1_000_000)],
        "packets": packets(100),
        "connections": [],
        "holes": Holes(),
        "tls_records": TlsRecords(),
        "handshake_messages": [],
        "frames": Frames(),
        "messages": [],
        "lookups": [],
        "exchanges": [],
        "waits": Waits(),
        "events": Events(),
        "ledger": Ledger(),
        "anomalies": [],
        "redaction": Redaction(),
    }
    known = {field.name for field in dataclasses.fields(Tables)}
    given = {name: value for name, value in {**defaults, **values}.items() if name in known}
    given["handshake_messages"] = HandshakeMessages.of(given["handshake_messages"])
    given["exchanges"] = Exchanges.of(given["exchanges"], given["connections"])
    return Tables(**given)


def analysis(**values: Any) -> Analysis:
    """An analysis of such tables, without findings or detectors unless given."""
    findings, detectors = values.pop("findings", []), values.pop("detectors", [])
    return Analysis(tables(**values), findings, detectors, "0.0.0")
