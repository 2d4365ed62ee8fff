"""Hand-made analyses for the tests of the report: every state it can be in, without captures.

The numbers in them agree with each other (ledgers add up, findings cost what their causes hold),
because the report's tests check that what is shown does.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, get_origin, get_type_hints

import numpy as np

from capture_analyzer.model.analysis import Analysis, Redaction, Tables
from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.capture import CaptureFile, Interface
from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.model.events import EVENT_KIND_CODE, Events
from capture_analyzer.model.exchanges import Exchange, Exchanges, Phases
from capture_analyzer.model.findings import DetectorOutcome, Example, Finding
from capture_analyzer.model.holes import Holes
from capture_analyzer.model.lookups import Lookup
from capture_analyzer.model.messages import Field, StreamFacts
from capture_analyzer.model.packets import ACK, LABELS, MECHANISMS, PSH, SYN, Packets
from capture_analyzer.model.tls_records import HandshakeMessage, HandshakeMessages, TlsRecords
from capture_analyzer.model.waits import Ledger, Waits

MS = 1_000_000
EPOCH_NS = 1_796_093_752_123_456_789  # 1 Dec 2026 02:55:52 UTC
PHASE_OF = {
    "dns": "dns_ns",
    "syn_retry": "connect_ns",
    "tcp_handshake": "connect_ns",
    "tls_handshake": "tls_ns",
    "hello_retry": "tls_ns",
    "client_idle": "idle_ns",
    "request_send": "send_ns",
    "network_rtt": "wait_ns",
    "server_think": "wait_ns",
    "unknown": "wait_ns",
    "transfer": "receive_ns",
    "loss_recovery": "receive_ns",
    "generation": "receive_ns",
    "capture_gap": "receive_ns",
}
SETUP = ("dns", "syn_retry", "tcp_handshake", "tls_handshake", "hello_retry")
DOCS = {
    "http/slow-server": (["server_think"], "Requests that the server took long to answer."),
    "tcp/syn-retransmission": (["syn_retry"], "Connection requests that were lost."),
    "capture/not-decrypted": ([], "TLS connections whose content could not be read."),
    "llm/stream-stall": (["generation", "loss_recovery"], "Streams that paused."),
}


@dataclasses.dataclass
class Event:
    """An event of a stream: when it was usable, and how long before it was seen, in order."""

    at_ns: int
    kind: str = "content"
    since_seen_ns: int = 0
    since_ordered_ns: int = 0
    size_bytes: int = 180
    packet_no: int = 1


@dataclasses.dataclass
class _Packet:
    time_ns: int
    connection_no: int
    from_client: bool
    payload: int
    flags: int
    label: str
    protocol: int
    mechanism: str = ""


class Builder:
    """Collects rows, then numbers packets by time and makes the tables."""

    def __init__(self, name: str = "checkout-agent-0255.pcap") -> None:
        self.file = CaptureFile(0, name, "pcap", 0, 0)
        self.packets: list[_Packet] = []
        self.connections: list[Connection] = []
        self.exchanges: list[Exchange] = []
        self.ledger: list[tuple[int, int, int, str, list[int]]] = []
        self.events: dict[int, list[Event]] = {}
        self.lookups: list[Lookup] = []
        self.findings: list[Finding] = []
        self.anomalies: list[Anomaly] = []
        self.handshake: list[HandshakeMessage] = []
        self.detectors: list[DetectorOutcome] = [
            DetectorOutcome(
                id=detector,
                outcome="ran",
                causes=causes,
                doc={
                    "title": detects,
                    "detects": detects,
                    "matters": "The caller waits and can do nothing about it.",
                    "advice": "Ask the owner of the other end.",
                    "wrong": "The capture missed a packet that was there.",
                },
            )
            for detector, (causes, detects) in sorted(DOCS.items())
        ]
        self.redaction = Redaction(field_values=118, query_values=6, path_segments=3)

    def packet(
        self,
        ns: int,
        connection_no: int,
        from_client: bool,
        payload: int = 0,
        flags: int = ACK,
        label: str = "",
        protocol: int = 6,
        mechanism: str = "",
    ) -> int:
        """Add one; returns its handle, which `build` turns into a packet_no."""
        label = label or ("original" if payload else "ack")
        self.packets.append(
            _Packet(ns, connection_no, from_client, payload, flags, label, protocol, mechanism)
        )
        return len(self.packets) - 1

    def connection(self, server: str, *, tls: str | None = None, **other: Any) -> int:
        no = len(self.connections)
        values: dict[str, Any] = {
            "client_ip": "10.20.0.2",
            "client_port": 40000 + no % 20000,
            "server_ip": f"203.0.113.{10 + no % 200}",
            "server_port": 443 if tls else 8080,
            "vantage_side": "client",
            "vantage_confidence": 0.95,
            "rtt_ns": 30 * MS,
            "client_side_rtt_ns": 40_000,
            "server_side_rtt_ns": 30 * MS - 40_000,
            "protocol": "tls" if tls else "http/1.1",
            "server_name": server,
            "alpn": "h2" if tls else None,
        }
        if tls:
            values["tls"] = TlsSummary(
                version=tls,
                cipher_suite="TLS_AES_256_GCM_SHA384",
                resumption_offered=False,
                resumed=False,
                decrypted="no",
                why_not="no key log was given",
                duration_ns=35 * MS,
            )
        values.update(other)
        self.connections.append(
            Connection(
                connection_no=no,
                transport="tcp",
                tcp_stream=no,
                roles_certain=True,
                start_ns=2**62,
                end_ns=0,
                first_packet_no=0,
                last_packet_no=0,
                packet_count=0,
                **values,
            )
        )
        return no

    def exchange(
        self,
        connection_no: int,
        start_ms: float,
        ledger: list[tuple[str, float]],
        *,
        method: str | None = "GET",
        path: str | None = "/",
        status: int | None = 200,
        response_bytes: int = 1200,
        **other: Any,
    ) -> int:
        """Add an exchange whose ledger is given in ms; one packet at each boundary."""
        no = len(self.exchanges)
        connection = self.connections[connection_no]
        opaque = other.get("inferred", connection.tls is not None)
        at = start = round(start_ms * MS)
        phases = Phases()
        request_start = request_end = response_start = None
        request_packet = response_packet = None
        first = self.packet(
            at,
            connection_no,
            True,
            flags=SYN if ledger[0][0] in SETUP else ACK | PSH,
            label="syn" if ledger[0][0] in SETUP else "original",
            payload=0 if ledger[0][0] in SETUP else 300,
        )
        last = first
        if ledger[0][0] not in SETUP:
            request_start, request_packet = at, first
        for cause, ms in ledger:
            ns = round(ms * MS)
            if request_start is None and cause not in (*SETUP, "client_idle"):
                request_start, request_packet = at, last
            phase = PHASE_OF[cause]
            if phase in ("wait_ns", "receive_ns") and request_end is None:
                request_end = at
            if phase == "receive_ns" and response_start is None:
                response_start, response_packet = at, last
            setattr(phases, phase, (getattr(phases, phase) or 0) + ns)
            in_setup = cause in SETUP
            packet = self.packet(
                at + ns,
                connection_no,
                cause in ("request_send", "client_idle", "syn_retry"),
                payload=0 if in_setup else 1400,
                flags=SYN if cause == "syn_retry" else ACK,
                label={"syn_retry": "syn", "loss_recovery": "retransmission"}.get(cause, ""),
                mechanism={"syn_retry": "syn", "loss_recovery": "rto"}.get(cause, ""),
            )
            self.ledger.append((no, at, at + ns, cause, [last, packet]))
            at += ns
            last = packet
        request_start = start if request_start is None else request_start
        values: dict[str, Any] = {
            "protocol": "opaque" if opaque else "http/1.1",
            "kind": "opaque" if opaque else "http",
            "inferred": opaque,
            "method": None if opaque else method,
            "authority": None if opaque else connection.server_name,
            "path": None if opaque else path,
            "status": None if opaque else status,
            "end_ns": at,
            "last_ns": at,
            "response_start_ns": response_start,
            "ttfb_ns": None if response_start is None else response_start - request_start,
            "carries_setup": ledger[0][0] in SETUP,
            "complete": True,
            "request_bytes": 300,
            "request_first_packet_no": request_packet,
            "request_last_packet_no": request_packet,
            "response_first_packet_no": response_packet,
            "response_last_packet_no": last,
        }
        if not opaque:
            values["request_fields"] = [
                Field("host", connection.server_name or ""),
                Field("authorization", "…51"),
                Field("user-agent", "…22"),
            ]
            values["response_fields"] = [
                Field("content-type", "application/json"),
                Field("content-length", str(response_bytes)),
            ]
        values.update(other)
        self.exchanges.append(
            Exchange(
                exchange_no=no,
                connection_no=connection_no,
                stream_id=None,
                start_ns=start,
                request_start_ns=request_start,
                request_end_ns=request_end or request_start,
                response_bytes=response_bytes,
                phases=phases,
                **values,
            )
        )
        return no

    def stream(self, exchange_no: int, events: list[Event], **facts: Any) -> None:
        """Make the exchange one that streams; times of events count from its request."""
        row = self.exchanges[exchange_no]
        row.kind = "sse"
        row.stream = StreamFacts(**{"ended": True, "marker_known": True, "finish": "stop", **facts})
        content = [event.at_ns for event in events if event.kind == "content"]
        row.ttft_ns = content[0] if content else None
        self.events[exchange_no] = events

    def finding(self, detector: str, severity: Any, exchanges: list[int], **other: Any) -> int:
        """Add a finding; cost and packets come from the ledger of its detector's causes."""
        causes = next(d.causes for d in self.detectors if d.id == detector)
        indices = [
            i for i, row in enumerate(self.ledger) if row[0] in exchanges and row[3] in causes
        ]
        rows = [self.ledger[i] for i in indices]
        handles = list(dict.fromkeys(itertools.chain.from_iterable(row[4] for row in rows)))
        values: dict[str, Any] = {
            "confidence": 1.0,
            "summary": f"{detector} fired.",
            "cost_ns": sum(row[2] - row[1] for row in rows) or None,
            "packet_nos": handles[:100],
            "packet_total": len(handles),
            "from_ns": min((row[1] for row in rows), default=None),
            "to_ns": max((row[2] for row in rows), default=None),
            "count": len(rows) or 1,
            "examples": [Example(row[4], row[2] - row[1], row[0]) for row in rows[:5]],
            "display_filter": "FILTER",
            "ledger_rows": indices,
        }
        values.update(other)
        no = len(self.findings)
        self.findings.append(
            Finding(
                detector=detector,
                severity=severity,
                finding_no=no,
                exchange_nos=exchanges,
                **values,
            )
        )
        return no

    def build(self) -> Analysis:
        order = sorted(range(len(self.packets)), key=lambda i: (self.packets[i].time_ns, i))
        numbers = {handle: place + 1 for place, handle in enumerate(order)}
        rows = [self.packets[i] for i in order]
        self._number(rows, numbers)
        count = len(rows)
        self.file.packet_count = count
        self.file.byte_count = sum(row.payload + 54 for row in rows)
        addresses = sorted({c.client_ip for c in self.connections} | {"198.51.100.53", "10.20.0.2"})
        addresses += sorted({c.server_ip for c in self.connections} - set(addresses))
        index = {text: i for i, text in enumerate(addresses)}
        ends = [
            ("198.51.100.53", "10.20.0.2")
            if row.connection_no < 0
            else (
                self.connections[row.connection_no].client_ip,
                self.connections[row.connection_no].server_ip,
            )
            for row in rows
        ]
        zeros = np.zeros(count, np.int64)

        def array(values: list[Any], dtype: type[np.generic]) -> Any:
            return np.array(values, dtype)

        packets = Packets(
            time_ns=array([row.time_ns for row in rows], np.int64),
            file_no=zeros.astype(np.uint16),
            frame_no=np.arange(1, count + 1, dtype=np.int32),
            captured_bytes=array([row.payload + 54 for row in rows], np.uint32),
            original_bytes=array([row.payload + 54 for row in rows], np.uint32),
            ip_version=(zeros + 4).astype(np.uint8),
            protocol=array([row.protocol for row in rows], np.uint8),
            source=array([index[a if r.from_client else b] for r, (a, b) in zip(rows, ends, strict=True)], np.int32),  # noqa: E501
            destination=array([index[b if r.from_client else a] for r, (a, b) in zip(rows, ends, strict=True)], np.int32),  # noqa: E501
            source_port=zeros.astype(np.uint16),
            destination_port=zeros.astype(np.uint16),
            ttl=(zeros + 64).astype(np.uint8),
            ip_id=zeros.astype(np.uint16),
            payload_offset=zeros,
            payload_bytes=array([row.payload for row in rows], np.uint32),
            payload_captured=array([row.payload for row in rows], np.uint32),
            seq=zeros.astype(np.uint32),
            ack=zeros.astype(np.uint32),
            window=(zeros + 502).astype(np.uint16),
            flags=array([row.flags for row in rows], np.uint8),
            tcp_header_bytes=array([20 if row.protocol == 6 else 0 for row in rows], np.uint8),
            tsval=zeros.astype(np.uint32),
            tsecr=zeros.astype(np.uint32),
            connection_no=array([row.connection_no for row in rows], np.int32),
            from_client=array([int(row.from_client) for row in rows], np.int8),
            label=array([LABELS.index(row.label) for row in rows], np.uint8),
            mechanism=array([MECHANISMS.index(row.mechanism) for row in rows], np.uint8),
            spurious=zeros.astype(np.uint8),
            addresses=addresses,
        )  # fmt: skip
        return Analysis(
            tables=_tables(
                epoch_ns=EPOCH_NS,
                duration_ns=rows[-1].time_ns - rows[0].time_ns if rows else 0,
                files=[self.file],
                interfaces=[Interface(0, 0, 1, 262144, 1_000_000)],
                packets=packets,
                connections=self.connections,
                holes=Holes(),
                tls_records=TlsRecords(),
                handshake_messages=HandshakeMessages.of(self.handshake),
                messages=[],
                lookups=self.lookups,
                exchanges=Exchanges.of(self.exchanges, self.connections),
                events=self._events(),
                waits=Waits(),
                ledger=Ledger(
                    exchange_no=array([row[0] for row in self.ledger], np.int32),
                    from_ns=array([row[1] for row in self.ledger], np.int64),
                    to_ns=array([row[2] for row in self.ledger], np.int64),
                    cause=array([CAUSE_CODE[row[3]] for row in self.ledger], np.uint8),
                    confidence=array([1.0 for _ in self.ledger], np.float32),
                    packet_a=array([numbers[row[4][0]] for row in self.ledger], np.int32),
                    packet_b=array([numbers[row[4][1]] for row in self.ledger], np.int32),
                    packet_c=array([0 for _ in self.ledger], np.int32),
                ),
                anomalies=self.anomalies,
                redaction=self.redaction,
            ),
            findings=self.findings,
            detectors=self.detectors,
            version="0.1.0",
        )

    def _events(self) -> Events:
        rows = [
            (number, self.exchanges[number].request_start_ns + event.at_ns, event)
            for number in sorted(self.events)
            for event in self.events[number]
        ]
        times = np.array([ns for _, ns, _ in rows], np.int64)
        ordered = times - np.array([event.since_ordered_ns for *_, event in rows], np.int64)
        seen = times - np.array([event.since_seen_ns for *_, event in rows], np.int64)
        return Events(
            exchange_no=np.array([number for number, *_ in rows], np.int32),
            seen_ns=seen,
            in_order_ns=ordered,
            time_ns=times,
            kind=np.array([EVENT_KIND_CODE[event.kind] for *_, event in rows], np.uint8),
            size_bytes=np.array([event.size_bytes for *_, event in rows], np.int32),
            generated_chars=np.zeros(len(rows), np.int32),
            output_tokens=np.full(len(rows), -1, np.int32),
            packet_no=np.array([event.packet_no for *_, event in rows], np.int32),
        )

    def _number(self, rows: list[_Packet], numbers: dict[int, int]) -> None:
        """Replace handles by packet numbers and give connections their packets' figures."""
        for place, row in enumerate(rows):
            if row.connection_no < 0:
                continue
            connection = self.connections[row.connection_no]
            connection.start_ns = min(connection.start_ns, row.time_ns)
            connection.end_ns = max(connection.end_ns, row.time_ns)
            connection.first_packet_no = connection.first_packet_no or place + 1
            connection.last_packet_no = place + 1
            connection.packet_count += 1
            if row.from_client:
                connection.client_bytes += row.payload
            else:
                connection.server_bytes += row.payload
            connection.retransmissions += row.label == "retransmission"
            connection.syn_retransmissions += row.mechanism == "syn"
        for exchange in self.exchanges:
            for name in ("request_first", "request_last", "response_first", "response_last"):
                handle = getattr(exchange, f"{name}_packet_no")
                if handle is not None:
                    setattr(exchange, f"{name}_packet_no", numbers[handle])
        for message in self.handshake:
            message.first_packet_no = numbers[message.first_packet_no]
            message.last_packet_no = numbers[message.last_packet_no]
        for lookup in self.lookups:
            lookup.packet_nos = [numbers[handle] for handle in lookup.packet_nos]
        for finding in self.findings:
            finding.packet_nos = sorted(numbers[handle] for handle in finding.packet_nos)
            for example in finding.examples:
                example.packet_nos = [numbers[handle] for handle in example.packet_nos]
            if finding.display_filter == "FILTER":
                listed = ", ".join(map(str, finding.packet_nos))
                finding.display_filter = f"frame.number in {{{listed}}}" if listed else ""


def _tables(**known: Any) -> Tables:
    """Tables with those given; the others have no rows."""
    hints = get_type_hints(Tables)
    others = {
        field.name: [] if get_origin(hints[field.name]) is list else hints[field.name]()
        for field in dataclasses.fields(Tables)
        if field.name not in known and field.init
    }
    return Tables(**known, **others)


def incident(*, keys: bool = True, cut: bool = False) -> Analysis:
    """A slow incident: a lost SYN, a slow server, ordinary requests, six TLS exchanges."""
    b = Builder()
    config = b.connection("config.svc.example", vantage_side="client")
    lookup = [b.packet(0, -1, False, 40, protocol=17, label="other")]
    lookup.append(b.packet(31 * MS, -1, True, 90, protocol=17, label="other"))
    b.lookups.append(
        Lookup(0, "10.20.0.2", "198.51.100.53", "config.svc.example", "A", 0, 31 * MS, "NOERROR",
               1, ["203.0.113.10"], lookup, [config])
    )  # fmt: skip
    b.connections[config].lookup_no = 0
    b.exchange(
        config, 0.4,
        [("dns", 30.6), ("tcp_handshake", 30.021), ("client_idle", 0.2), ("network_rtt", 30),
         ("server_think", 21.5), ("transfer", 4.2)],
        path="/settings?env=…4", lookup_no=0,
    )  # fmt: skip
    at = 150.0
    for number in range(8):
        b.exchange(
            config, at, [("network_rtt", 30.1), ("server_think", 5 + number), ("transfer", 1)],
            path=f"/prompts/{number}", response_bytes=5100 * (number + 1),
            status=429 if number == 4 else 200,
        )  # fmt: skip
        at += 60
    flags = b.connection("flags.svc.example")
    lost = b.exchange(
        flags, 640,
        [("syn_retry", 1027.9), ("tcp_handshake", 30.2), ("client_idle", 0.1),
         ("network_rtt", 30), ("server_think", 38), ("transfer", 0.4)],
        path="/evaluate?user=…36",
    )  # fmt: skip
    tools = b.connection("tools.svc.example")
    slow = [
        b.exchange(
            tools, 900 + 900 * i,
            [("request_send", 0.3), ("network_rtt", 30), ("server_think", 640 + 35.127 * i),
             ("transfer", 12)],
            method="POST", path="/invoke", response_bytes=31200,
        )
        for i in range(2)
    ]  # fmt: skip
    for number in range(6):
        api = b.connection("api.llm.example", tls="TLS 1.3")
        at = 1200 + 700 * number
        hello = b.packet(round((at + 30.1) * MS), api, True, 517)
        answer = b.packet(round((at + 62) * MS), api, False, 1448)
        finished = b.packet(round((at + 64) * MS), api, True, 80)
        b.handshake += [
            HandshakeMessage(api, True, "client_hello", 508, hello, hello,
                             round((at + 30.1) * MS), round((at + 30.1) * MS)),
            HandshakeMessage(api, False, "server_hello", 118, answer, answer,
                             round((at + 62) * MS), round((at + 62) * MS)),
        ]  # fmt: skip
        b.connections[api].tls.start_ns = round((at + 30.1) * MS)
        b.connections[api].tls.end_ns = round((at + 64) * MS)
        ledger = [
            ("tcp_handshake", 30.1), ("tls_handshake", 34.7), ("client_idle", 0.3),
            ("network_rtt", 30.2), ("server_think", 24.3 + number), ("generation", 1100),
            ("loss_recovery", 336.607), ("generation", 690.9), ("transfer", 4.1),
        ]  # fmt: skip
        if number % 2:
            ledger = [*ledger[:4], ("unknown", 120.5), ("transfer", 9.3)]
        del finished
        extra: dict[str, Any] = {}
        if keys:
            b.connections[api].tls.decrypted = "yes"
            b.connections[api].tls.why_not = None
            extra = {
                "protocol": "http/1.1", "kind": "sse" if not number % 2 else "http",
                "inferred": False, "method": "POST",
                "path": "/v1/chat/completions", "status": 200,
            }  # fmt: skip
        b.exchange(api, at, ledger, response_bytes=12_100, **extra)
    if cut:
        b.file.cut = True
        b.exchanges[-1].end_ns = None
        b.exchanges[-1].complete = False
        b.anomalies.append(
            Anomaly("cut-in-packet", "capture", "the file ends in the middle of a packet")
        )
    b.finding(
        "tcp/syn-retransmission", "critical", [lost], connection_no=flags,
        summary="A connection request to flags.svc.example was lost and sent again after 1.03\u00a0s.",  # noqa: E501
        advice="Find where the SYN was dropped: a full listen queue, a firewall or a balancer.",
        action="Find where the SYN to flags.svc.example was dropped",
        confidence=1.0, measures={"retransmissions": 1, "longest_wait_ns": 1_027_900_000},
    )  # fmt: skip
    b.finding(
        "http/slow-server", "warning", slow, connection_no=tools,
        summary="Two calls of POST /invoke waited 0.66\u00a0s each for tools.svc.example.",
        advice="Ask the owner of tools.svc.example what POST /invoke does for 0.66\u00a0s.",
        action="Ask the owner of tools.svc.example what POST /invoke does",
        confidence=0.9,
    )  # fmt: skip
    if not keys:
        b.finding(
            "capture/not-decrypted", "info", [e.exchange_no for e in b.exchanges if e.inferred],
            summary="Six connections are encrypted and no key log was given.",
            advice="Set SSLKEYLOGFILE on the client and give the file with --keylog.",
            action="Record a key log", count=6,
        )  # fmt: skip
    b.anomalies.append(
        Anomaly("not-decoded", "analyzer", "4 packets are ARP, which is not decoded", count=4)
    )
    return b.build()


def streams(*, long: int = 0) -> Analysis:
    """A healthy stream, one that stalls, one with a loss; with `long`, one of so many events."""
    b = Builder("streams.pcap")
    chat = b.connection("api.llm.example", tls="TLS 1.3")
    b.connections[chat].tls.decrypted = "yes"
    b.connections[chat].tls.why_not = None
    known: dict[str, Any] = {
        "protocol": "http/1.1", "kind": "http", "inferred": False, "method": "POST",
        "authority": "api.llm.example", "path": "/v1/chat/completions", "status": 200,
        "model": "chat-large", "max_tokens": 256,
    }  # fmt: skip
    head = [("network_rtt", 30.025), ("server_think", 20.7)]

    def steady(count: int, at_ms: float, every_ms: float = 25) -> list[Event]:
        return [Event(round((at_ms + every_ms * i) * MS), packet_no=10 + i) for i in range(count)]

    role = Event(51 * MS, "role", size_bytes=189)
    healthy = b.exchange(chat, 10, [*head, ("generation", 329.985), ("generation", 750.5)], **known)
    b.stream(healthy, [role, *steady(31, 380.71), Event(1131 * MS, "end", size_bytes=6)])
    stalled = b.exchange(
        chat, 2000,
        [*head, ("generation", 599.275), ("generation", 675), ("generation", 725)], **known,
    )  # fmt: skip
    b.stream(
        stalled,
        [role, *steady(11, 380), *steady(20, 1325), Event(1801 * MS, "usage"),
         Event(1802 * MS, "end", size_bytes=6)],
        input_tokens=12, output_tokens=31,
    )  # fmt: skip
    lossy = b.exchange(
        chat, 4500,
        [*head, ("generation", 599.275), ("loss_recovery", 336.607), ("generation", 300)], **known,
    )  # fmt: skip
    behind = [
        Event(round(986.607 * MS), since_seen_ns=round((336.607 - 25 * i) * MS)) for i in range(6)
    ]
    b.stream(lossy, [role, *steady(11, 380), *behind, *steady(12, 1000)], ended=False, finish=None)
    b.exchange(chat, 6000, [*head, ("transfer", 3)], **{**known, "path": "/v1/models"})
    paused = [
        index
        for index, (number, from_ns, to_ns, cause, _) in enumerate(b.ledger)
        if (number, cause) == (lossy, "loss_recovery")
        or (number, to_ns - from_ns) == (stalled, 675 * MS)
    ]
    if long:
        busy = b.exchange(chat, 7000, [*head, ("generation", 20.0 * long + 400)], **known)
        b.stream(
            busy,
            [role, *steady(long // 2, 380, 20), *steady(long - long // 2, 780 + 10 * long, 20)],
        )
    cost = sum(b.ledger[index][2] - b.ledger[index][1] for index in paused)
    b.finding(
        "llm/stream-stall", "critical", [stalled, lossy], ledger_rows=paused, cost_ns=cost,
        summary="Two answers paused for 0.68\u00a0s and 0.34\u00a0s.", action="Ask why",
        connection_no=chat,
    )  # fmt: skip
    return b.build()


def clean() -> Analysis:
    """Ordinary requests, no finding."""
    b = Builder("quiet.pcapng")
    one = b.connection("config.svc.example")
    for number in range(5):
        b.exchange(
            one, 70.0 * number, [("network_rtt", 30), ("server_think", 6), ("transfer", 2)],
            path=f"/settings/{number}",
        )  # fmt: skip
    return b.build()


def empty(*, packets: int = 7) -> Analysis:
    """Packets, but no request."""
    b = Builder("wrong-interface.pcap")
    for number in range(packets):
        b.packet(number * 5 * MS, -1, False, 60, protocol=17, label="other")
    return b.build()


def many(count: int) -> Analysis:
    """`count` exchanges on connections of 50 each."""
    b = Builder("big.pcap")
    connection = -1
    for number in range(count):
        if number % 50 == 0:
            connection = b.connection(f"host{number // 50 % 7}.svc.example")
        b.exchange(
            connection, 3.0 * number,
            [("network_rtt", 10), ("server_think", 5 + number % 97), ("transfer", 1 + number % 5)],
            path=f"/v1/items/{number}?page=…{number % 9}", response_bytes=100 + number * 7 % 90000,
            status=(200, 200, 200, 404, 500)[number % 5],
        )  # fmt: skip
    return b.build()


HOSTILE = (
    "</script><img src=x onerror=window.__owned=1><svg/onload=window.__owned=1>"
    "\"'`&lt;<!--<script>window.__owned=1</script>\u2028\u2029\u202e\u0000\x1b[31m]]>"
    "{{constructor}}javascript:window.__owned=1"
)


def hostile(analysis: Analysis | None = None) -> Analysis:
    """An analysis (the incident) with every string replaced by one that tries to break out."""
    analysis = analysis or incident(keys=True, cut=True)
    _poison(analysis.tables.files)
    for rows in (
        analysis.tables.interfaces,
        analysis.tables.connections,
        analysis.tables.exchanges,
        analysis.tables.lookups,
        analysis.tables.anomalies,
        analysis.findings,
    ):
        _poison(rows)
    for row in analysis.tables.exchanges:
        row.model = HOSTILE
    for outcome in analysis.detectors:
        outcome.reason = HOSTILE
        outcome.doc = dict.fromkeys(outcome.doc, HOSTILE)
    analysis.tables.packets.addresses = [HOSTILE for _ in analysis.tables.packets.addresses]
    analysis.version = HOSTILE
    return analysis


KEPT = {
    "detector",
    "severity",
    "transport",
    "vantage_side",
    "protocol",
    "kind",
    "decrypted",
    "origin",
}
"""Names of columns that hold the analyser's own words, never captured text."""


def _poison(rows: Any) -> None:
    for row in rows:
        for field in dataclasses.fields(row):
            value = getattr(row, field.name)
            if field.name in KEPT:
                continue
            if isinstance(value, str):
                setattr(row, field.name, HOSTILE)
            elif isinstance(value, list) and value and isinstance(value[0], str):
                setattr(row, field.name, [HOSTILE for _ in value])
            elif isinstance(value, list) and value and dataclasses.is_dataclass(value[0]):
                _poison(value)
            elif isinstance(value, dict):
                setattr(row, field.name, {HOSTILE: HOSTILE})
            elif dataclasses.is_dataclass(value):
                _poison([value])
