"""What is true in a capture: kept while the simulation runs, computed when it has ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from capture_maker.network import Address, Packet, Vantage, number


@dataclasses.dataclass(slots=True)
class Call:
    """A request and its response, by their offsets in the two streams."""

    name: str
    method: str = ""
    target: str = ""
    status: int | None = None
    request: tuple[int, int] = (0, 0)
    response: tuple[int, int] | None = None  # of the final response
    interim: list[int] = dataclasses.field(default_factory=list)
    # (stream offset just behind its last byte, kind) of each event
    events: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    received_ns: int | None = None  # the server had the whole request
    answered_ns: int | None = None  # the server's first write of the final response
    kind: str = "http"
    complete: bool = True
    response_plain_end: int | None = None  # what the client must have read to be done
    done: bool = False
    stream_id: int | None = None  # HTTP/2
    request_length: int = 0  # bytes of plaintext: all of HTTP/1.1, the content of HTTP/2
    response_length: int = 0
    reset: tuple[bool, int] | None = None  # RST_STREAM: (from client, end offset)
    reset_code: int | None = None
    ended: str = ""  # the server ended the connection under it: "fin" or "rst"


@dataclasses.dataclass(slots=True)
class Connection:
    """A connection as the simulation knows it."""

    number: int
    client: Address
    server: Address
    server_name: str | None = None
    tls: bool = False
    http2: bool = False
    tls_inside: bool = False  # in a tunnel
    isns: tuple[int, int] | None = None
    calls: list[Call] = dataclasses.field(default_factory=list)
    taken: int = 0  # calls the server has begun to read
    # TLS records by sender (True: client), as stream offsets.
    records: dict[bool, list[tuple[int, int]]] = dataclasses.field(default_factory=dict)
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)  # go into the truth

    def isn(self, client: bool) -> int:
        """Initial sequence number; ISNs of one pair of addresses grow with time."""
        if self.isns:
            return self.isns[0 if client else 1]
        base = number("isn", self.client, self.server, client) >> 1
        return base + self.number * 250_000


@dataclasses.dataclass(slots=True)
class Lookup:
    """A question to the resolver."""

    name: str
    type: str
    asked: Packet
    answered: Packet | None = None
    rcode: str | None = None
    addresses: list[str] = dataclasses.field(default_factory=list)
    question_count: int = 1


class Stream:
    """One direction of a connection as one vantage sees it."""

    def __init__(
        self,
        packets: list[Packet],
        records: list[tuple[int, int]],
        at: Vantage,
        kept: set[int],
    ) -> None:
        self._sent = [p for p in packets if p.payload and not p.copy and at in p.tapped]
        self._kept = [p for p in self._sent if id(p) in kept]
        self._at = at
        self._records = records
        # The copy of each byte that reached the receiver first, in stream order.
        self.arrived: list[tuple[int, int, int]] = []  # start, end, time at the vantage
        covered: list[tuple[int, int]] = []
        arrivals = [p for p in packets if p.payload and p.arrived_ns is not None]
        for p in sorted(arrivals, key=lambda p: p.arrived_ns or 0):
            start = p.offset
            for a, b in covered:
                if a <= start < b:
                    start = b
            if start < p.end and at in p.tapped:
                self.arrived.append((start, p.end, p.tapped[at]))
                covered.append((start, p.end))
                covered.sort()
        self.arrived.sort()

    def seen(self, offset: int) -> int | None:
        """When the byte was first seen."""
        times = [p.tapped[self._at] for p in self._sent if p.offset <= offset < p.end]
        return min(times, default=None)

    def captured(self, offset: int) -> bool:
        """Whether the file holds the byte."""
        return any(p.offset <= offset < p.end for p in self._kept)

    def in_order(self, offset: int) -> int | None:
        """When it and all bytes before it had been seen, in copies that arrived."""
        latest = None
        for start, end, time_ns in self.arrived:
            if start > offset:
                break
            latest = max(latest or 0, time_ns)
            if offset < end:
                return latest
        return None

    def usable(self, offset: int) -> int | None:
        """When the receiver could use the byte: in order, and its TLS record complete."""
        for start, end in self._records:
            if start <= offset < end:
                return self.in_order(end - 1)
        return self.in_order(offset)


class Ledger:
    """Everything that a scenario records while it runs."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.lookups: list[Lookup] = []

    def connection(self, client: Address, server: Address, **facts: Any) -> Connection:
        """Note a new connection."""
        self.connections.append(Connection(len(self.connections), client, server, **facts))
        return self.connections[-1]


@dataclasses.dataclass(slots=True)
class Written:
    """The packets that go into a file: in order, each with its stamp in the file's units."""

    packets: list[Packet]
    stamps_ns: list[int]  # simulated time, already cut to the file's resolution
    at: Vantage


def tell(
    ledger: Ledger, sent: list[Packet], written: Written, resolution_ns: int
) -> dict[str, Any]:
    """The truth as JSON: times in ns since packet 1, packet numbers 1-based.

    Args:
        ledger: what the scenario recorded.
        sent: every packet that was sent, also those that no capture saw.
        written: the packets of the file.
        resolution_ns: the file's time stamp unit; times are cut to it as the stamps are.

    Returns:
        `connections`, `lookups`, `requests` and `retransmissions`.
    """
    origin = written.stamps_ns[0]
    at = written.at
    packet_no = {id(p): n for n, p in enumerate(written.packets, 1)}

    def cut(time_ns: int | None) -> int | None:
        """A simulated instant as the file states it, since packet 1."""
        return None if time_ns is None else time_ns // resolution_ns * resolution_ns - origin

    def stamp(packet: Packet | None) -> int | None:
        return cut(packet.tapped.get(at)) if packet else None

    requests: list[dict[str, Any]] = []
    connections: list[dict[str, Any]] = []
    shown = [c for c in ledger.connections if any(p.connection is c for p in written.packets)]
    first = {
        c.number: min(packet_no[id(p)] for p in written.packets if p.connection is c) for c in shown
    }
    shown.sort(key=lambda c: first[c.number])
    for no, connection in enumerate(shown):
        own = [p for p in written.packets if p.connection is connection]
        every = [p for p in sent if p.connection is connection]
        streams = {
            client: Stream(
                [p for p in every if p.from_client is client],
                connection.records.get(client, []),
                at,
                set(packet_no),
            )
            for client in (True, False)
        }
        connections.append(
            {
                "connection": no,
                "client": list(connection.client),
                "server": list(connection.server),
                "server_name": connection.server_name,
                **connection.facts,
                "first_packet_no": packet_no[id(own[0])],
                "packet_count": len(own),
                "start_ns": stamp(own[0]),
                "syn_retransmissions": _syns_again(own),
                "missing_bytes": sum(
                    _missing(streams[client].arrived, [p for p in own if p.from_client is client])
                    for client in (True, False)
                ),
            }
        )
        requests += [
            {
                "name": call.name,
                "connection": no,
                "protocol": "h2" if connection.http2 else "http/1.1",
                "encrypted": connection.tls or (connection.tls_inside and call.method != "CONNECT"),
                "captured": _captured(call, own),
                **_request(call, streams[True], streams[False], cut),
                **({"end_ns": _reset_seen(own, stamp)} if call.ended == "rst" else {}),
            }
            for call in connection.calls
        ]
    requests.sort(key=lambda r: (r["request_start_ns"] or 0, r["connection"]))
    return {
        "packet_count": len(written.packets),
        "duration_ns": max(written.stamps_ns) - origin,
        "connections": connections,
        "lookups": [
            {
                "name": lookup.name,
                "type": lookup.type,
                "start_ns": stamp(lookup.asked),
                "end_ns": stamp(lookup.answered),
                "rcode": lookup.rcode,
                "addresses": lookup.addresses,
                "question_count": lookup.question_count,
            }
            for lookup in ledger.lookups
            if id(lookup.asked) in packet_no
        ],
        "requests": requests,
        "retransmissions": _retransmissions(sent, written, packet_no),
    }


def _request(
    call: Call, up: Stream, down: Stream, cut: Callable[[int | None], int | None]
) -> dict[str, Any]:
    """The times of a request and its response."""
    row: dict[str, Any] = {
        "stream_id": call.stream_id,
        "kind": call.kind,
        "method": call.method,
        "target": call.target,
        "status": call.status,
        "request_start_ns": cut(up.seen(call.request[0])),
        "request_end_ns": cut(up.seen(call.request[1] - 1)),
        "response_start_ns": None,
        "end_ns": None,
        "think_ns": None,
        "interim": call.interim,
        "request_bytes": call.request_length,
        "response_bytes": call.response_length,
        "reset_code": call.reset_code,
    }
    if call.kind == "sse":
        row |= _events(call, down, cut, row["request_start_ns"])
    if call.answered_ns is not None and call.received_ns is not None:
        row["think_ns"] = call.answered_ns - call.received_ns
    if call.response:
        row["response_start_ns"] = cut(down.usable(call.response[0]))
        if (call.complete or call.ended == "fin") and down.captured(call.response[1] - 1):
            ends = (up.seen(call.request[1] - 1), down.usable(call.response[1] - 1))
            row["end_ns"] = cut(max(end or 0 for end in ends))
    if call.ended:
        row["ended"] = call.ended
    if call.reset:
        from_client, end = call.reset
        row["end_ns"] = cut((up if from_client else down).usable(end - 1))
    return row


def _reset_seen(own: list[Packet], stamp: Callable[[Packet | None], int | None]) -> int | None:
    """When the connection's first RST was seen."""
    return stamp(next((packet for packet in own if packet.flags & 0x04), None))


def _events(
    call: Call, down: Stream, cut: Callable[[int | None], int | None], start_ns: int | None
) -> dict[str, Any]:
    """The times of a stream's events that the file holds, by their last bytes."""
    held = [(end - 1, kind) for end, kind in call.events if down.captured(end - 1)]
    lasts = [last for last, _ in held]
    usable = [cut(down.usable(last)) for last in lasts]
    kinds = [kind for _, kind in held]
    first = usable[kinds.index("content")] if "content" in kinds else None
    return {
        "ttft_ns": None if first is None or start_ns is None else first - start_ns,
        "event_kinds": kinds,
        "events_seen_ns": [cut(down.seen(last)) for last in lasts],
        "events_in_order_ns": [cut(down.in_order(last)) for last in lasts],
        "events_ns": usable,
    }


def _missing(arrived: list[tuple[int, int, int]], own: list[Packet]) -> int:
    """How many bytes, between the first and the last in the file, reached the receiver unseen."""
    held: set[int] = set()
    for packet in own:
        held |= set(range(packet.offset, packet.end))
    if not held:
        return 0
    reached = {offset for start, end, _ in arrived for offset in range(start, end)}
    return sum(min(held) < offset < max(held) for offset in reached - held)


def _syns_again(own: list[Packet]) -> int:
    """How many SYNs and SYN-ACKs were repeated after the capture had seen an earlier one."""
    syns = [p for p in own if p.flags & 0x02 and not p.copy]
    first = {p.from_client: p for p in reversed(syns)}
    return sum(p.again == "syn" and p is not first[p.from_client] for p in syns)


def _captured(call: Call, own: list[Packet]) -> str:
    """Whether the file holds a request and its response: "yes", "partly" or "no"."""
    missing = 0
    wanted = 0
    for span, client in ((call.request, True), (call.response or (0, 0), False)):
        offsets = set(range(*span))
        wanted += len(offsets)
        for packet in own:
            if packet.from_client is client and packet.payload:
                offsets -= set(range(max(packet.offset, span[0]), min(packet.end, span[1])))
        missing += len(offsets)
    return "yes" if not missing else "partly" if missing < wanted else "no"


def _retransmissions(
    sent: list[Packet], written: Written, packet_no: dict[int, int]
) -> list[dict[str, Any]]:
    """Segments that repeat data, with how the sender came to it and whether it was needed."""
    rows = []
    for packet in written.packets:
        if not packet.again or packet.copy:
            continue
        earlier = [
            p
            for p in sent
            if p.connection is packet.connection
            and p.from_client is packet.from_client
            and p.sent_ns < packet.sent_ns
            and p.arrived_ns is not None
            and p.flags & 0x02 == packet.flags & 0x02
        ]
        span = set(range(packet.offset, max(packet.end, packet.offset + 1)))
        missing = set(span)
        for p in earlier:
            missing -= set(range(p.offset, max(p.end, p.offset + 1)))
        number_ = packet_no[id(packet)]
        before = [
            p
            for p in written.packets[: number_ - 1]
            if p.connection is packet.connection
            and p.from_client is packet.from_client
            and p.flags & 0x02 == packet.flags & 0x02
        ]
        rows.append(
            {
                "packet_no": number_,
                "mechanism": packet.again,
                "needed": bool(missing),
                # Whether the capture shows it: it holds an earlier copy, or later data.
                "evident": any(p.end > packet.offset or p.flags & 0x02 for p in before),
                "from_client": packet.from_client,
            }
        )
    return rows
