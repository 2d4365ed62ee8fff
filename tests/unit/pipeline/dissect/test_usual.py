"""Handshakes that are read many at once, against the same read one by one."""

from __future__ import annotations

import dataclasses
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from capture_analyzer.model.column import NO_TIME, describe
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.secrets import Secrets
from capture_analyzer.pipeline.dissect import tls
from capture_analyzer.pipeline.dissect.guard import Guard
from capture_analyzer.pipeline.dissect.heads import Heads
from capture_analyzer.pipeline.dissect.tls import DissectedTls, dissect_tls
from capture_analyzer.pipeline.reassemble import Streams
from capture_analyzer.protocols.tls.connection import Understood
from capture_analyzer.protocols.tls.hello import HELLO_RETRY_RANDOM

MS = 1_000_000
FINISHED = 53  # with SHA-256; 69 with SHA-384
Piece = tuple[bytes, int, int]  # what a packet brought, its number, and when

ALPN_H2 = b"\x00\x03\x02h2"
ALPN_BOTH = b"\x00\x0c\x02h2\x08http/1.1"


def connection(number: int, **columns: Any) -> Connection:
    return Connection(
        connection_no=number,
        transport="tcp",
        tcp_stream=number,
        client_ip="192.0.2.1",
        client_port=40_000 + number,
        server_ip="198.51.100.1",
        server_port=443,
        roles_certain=True,
        start_ns=0,
        end_ns=1000 * MS,
        first_packet_no=1,
        last_packet_no=100,
        packet_count=20,
        **columns,
    )


def vector(data: bytes, size: int) -> bytes:
    return len(data).to_bytes(size, "big") + data


def message(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + vector(body, 3)


def record(kind: int, content: bytes) -> bytes:
    return bytes((kind, 3, 3)) + vector(content, 2)


def data(*lengths: int) -> bytes:
    return b"".join(record(23, bytes(length)) for length in lengths)


def extensions(pairs: Sequence[tuple[int, bytes]]) -> bytes:
    return vector(b"".join(struct.pack(">H", kind) + vector(what, 2) for kind, what in pairs), 2)


def client_hello(
    pairs: Sequence[tuple[int, bytes]] = ((43, b"\x02\x03\x04"), (16, ALPN_BOTH)),
    *,
    session_id: bytes = b"s" * 32,
    suites: bytes = b"\x13\x01\x13\x02",
) -> bytes:
    fixed = b"\x03\x03" + b"c" * 32 + vector(session_id, 1) + vector(suites, 2) + b"\x01\x00"
    return message(1, fixed + extensions(pairs))


def server_hello(
    pairs: Sequence[tuple[int, bytes]] = ((43, b"\x03\x04"), (51, b"\x00\x1d\x00\x20" + b"k" * 32)),
    *,
    suite: int = 0x1301,
    chance: bytes = b"s" * 32,
) -> bytes:
    fixed = b"\x03\x03" + chance + vector(b"s" * 32, 1) + suite.to_bytes(2, "big") + b"\x00"
    return message(2, fixed + extensions(pairs))


CHANGE = record(20, b"\x01")
CLIENT = record(22, client_hello()) + CHANGE + data(FINISHED, 300)
SERVER = record(22, server_hello()) + CHANGE + data(38, 1700, 96, FINISHED, 266, 266, 900)


def pieces(stream: bytes, first_no: int, at_ms: int, size: int = 1448) -> list[Piece]:
    """A stream cut into packets of one size."""
    return [
        (stream[start : start + size], first_no + number, (at_ms + number) * MS)
        for number, start in enumerate(range(0, len(stream), size))
    ]


def talk(client: bytes = CLIENT, server: bytes = SERVER) -> tuple[list[Piece], list[Piece]]:
    """Both directions: hello, answer, and what follows the hello."""
    hello = 5 + int.from_bytes(client[3:5], "big")
    flight = next(
        (at for at in range(len(server)) if server[at : at + 5] == record(23, b"x" * 266)[:5]),
        len(server),
    )
    return (
        pieces(client[:hello], 1, 0) + pieces(client[hello:], 20, 31),
        pieces(server[:flight], 10, 30) + pieces(server[flight:], 30, 61),
    )


def streams_of(talks: Sequence[tuple[list[Piece], list[Piece]]]) -> Streams:
    """All directions, in two buffers by turns; an empty piece is one that the capture lacks."""
    columns: list[tuple[int, int, int, int, int, int, int]] = []
    buffers, bounds, ends = [bytearray(b"file"), bytearray()], [0], []
    for number, direction in enumerate(side for pair in talks for side in pair):
        at, latest = 0, 0
        for content, packet_no, seen_ns in direction:
            latest = max(latest, seen_ns)
            if not content:
                at += 100
                continue
            buffer_no = (number // 3) % 2
            buffer = buffers[buffer_no]
            columns.append((at, len(content), packet_no, seen_ns, latest, buffer_no, len(buffer)))
            buffer += content + b"--"
            at += len(content)
        bounds.append(len(columns))
        ends.append(at)
    table = np.array(columns, np.int64).reshape(-1, 7).T
    return Streams(
        bounds=np.array(bounds),
        starts=table[0],
        lengths=table[1],
        packet_nos=table[2].astype(np.int32),
        seen_ns=table[3],
        in_order_ns=table[4],
        buffer_nos=table[5].astype(np.uint16),
        buffer_offsets=table[6],
        buffers=[bytes(buffer) for buffer in buffers],
        end=np.array(ends, np.int64),
        mid_stream=np.zeros(len(ends), np.bool_),
        fin_ns=np.full(len(ends), NO_TIME),
        reset_ns=np.full(len(ends) // 2, NO_TIME),
    )


def dissected(
    talks: Sequence[tuple[list[Piece], list[Piece]]], rtts: Sequence[int | None] = ()
) -> tuple[DissectedTls, list[Connection]]:
    connections = [
        connection(number, server_side_rtt_ns=rtt)
        for number, rtt in enumerate([*rtts, *[30 * MS] * (len(talks) - len(rtts))])
    ]
    found = dissect_tls(
        streams_of(talks),
        connections,
        np.arange(len(talks)),
        secrets=None,
        guard=Guard(),
        read=lambda connection, opened: None,
    )
    return found, connections


def told(found: tuple[DissectedTls, list[Connection]]) -> dict[str, Any]:
    """All that was found, to be compared."""
    result, connections = found
    records = {
        column.name: getattr(result.records, column.name).tolist()
        for column in describe(type(result.records))
    }
    messages = [dataclasses.astuple(row) for row in result.handshake_messages]
    return {**records, "messages": messages, "problems": result.anomalies, "rows": connections}


@pytest.fixture
def both_ways(monkeypatch: pytest.MonkeyPatch) -> Callable[..., DissectedTls]:
    """Dissects talks at once and one by one, and compares; how many were left is noted."""

    def compare(
        talks: Sequence[tuple[list[Piece], list[Piece]]], rtts: Sequence[int | None] = ()
    ) -> tuple[DissectedTls, list[Connection]]:
        monkeypatch.setattr(tls, "MANY", len(talks) + 1)
        alone = told(dissected(talks, rtts))
        monkeypatch.setattr(tls, "MANY", 0)
        found = dissected(talks, rtts)
        assert told(found) == alone
        return found

    return compare


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Connections that were read one by one."""
    numbers: list[int] = []
    real = Heads.understand

    def understand(self: Heads, place: int, connection: Connection) -> Understood:
        numbers.append(connection.connection_no)
        return real(self, place, connection)

    monkeypatch.setattr(Heads, "understand", understand)
    return numbers


USUAL = [
    talk(),
    talk(CLIENT.replace(CHANGE, b""), SERVER.replace(CHANGE, b"")),
    # SHA-384, and an SNI.
    talk(
        record(22, client_hello([(0, b"\x00\x06\x00\x00\x03a.b"), (43, b"\x04\x1a\x1a\x03\x04")]))
        + data(69),
        record(22, server_hello(suite=0x1302)) + data(38, 1700, 96, 69, 700),
    ),
    # Resumed, in one record; an outdated ticket and GREASE for ECH beside the key.
    talk(
        record(22, client_hello([(43, b"\x02\x03\x04"), (35, b"t"), (0xFE0D, b"e"), (41, b"k")]))
        + data(FINISHED, 90),
        record(22, server_hello([(43, b"\x03\x04"), (41, b"\0\0")])) + data(90, 250),
    ),
    # A hello in three packets.
    talk(record(22, client_hello([(43, b"\x02\x03\x04"), (51, b"k" * 3000)])) + data(FINISHED, 90)),
    # Only one protocol offered; half-RTT data behind the server's Finished.
    (
        pieces(record(22, client_hello([(16, ALPN_H2), (43, b"\x02\x03\x04")])), 1, 0)
        + pieces(data(FINISHED, 99), 20, 31),
        pieces(record(22, server_hello()) + data(27, 1700, FINISHED, 250, 60), 10, 30)
        + pieces(data(266), 30, 62)
        + pieces(data(900), 31, 90),
    ),
]

UNUSUAL = {
    "nothing": ([], []),
    "no server": (talk()[0], []),
    "no end": (pieces(record(22, client_hello()), 1, 0), talk()[1]),
    "retry": talk(server=record(22, server_hello(chance=HELLO_RETRY_RANDOM)) + SERVER),
    "early data": talk(
        record(22, client_hello([(43, b"\x02\x03\x04"), (42, b""), (41, b"k")]))
        + data(200, 21, FINISHED)
    ),
    "TLS 1.2": talk(server=record(22, server_hello([])) + CHANGE + record(22, bytes(40))),
    "not offered": talk(record(22, client_hello([(16, ALPN_H2)])) + data(FINISHED)),
    "alert in clear": talk(server=record(22, server_hello()) + record(21, b"\x02\x28") + data(38)),
    "refused": talk(CLIENT[: -5 - 300 - 5 - FINISHED] + data(19)),
    "certificate of the client": talk(record(22, client_hello()) + data(900, FINISHED, 300)),
    "two messages in a record": talk(record(22, client_hello() + message(4, b"x"))),
    "two records": talk(record(22, client_hello()[:50]) + record(22, client_hello()[50:])),
    "extension too long": talk(
        record(22, client_hello([(43, b"\x02\x03\x04")]).replace(b"\x00\x03\x02", b"\x00\x09\x02"))
        + data(FINISHED)
    ),
    "odd suites": talk(record(22, client_hello(suites=b"\x13\x01\x13")) + data(FINISHED)),
    "more than it has": talk(record(22, message(1, client_hello()[4:-5])) + data(FINISHED)),
    "short": talk(record(22, message(1, b"\x03\x03")) + data(FINISHED)),
    "empty": talk(record(22, b"") + data(FINISHED)),
    "many extensions": talk(
        record(22, client_hello([(43, b"\x02\x03\x04"), *[(9, b"")] * 40])) + data(FINISHED)
    ),
    "server's flight out of order": (
        talk()[0],
        [(content, 35 - no, time) for content, no, time in pieces(SERVER, 10, 30, 200)],
    ),
    "a piece is missing": (
        [(content if at != 1 else b"", at, 0) for content, at, _ in pieces(CLIENT, 0, 0, 100)],
        talk()[1],
    ),
}


def test_usual_handshakes_are_read_at_once(
    both_ways: Callable[..., tuple[DissectedTls, list[Connection]]], left: list[int]
) -> None:
    found, connections = both_ways(USUAL, [None, 0])
    assert left == list(range(len(USUAL))), "only the first time"
    versions = [connection.tls and connection.tls.version for connection in connections]
    assert versions == ["TLS 1.3"] * len(USUAL)
    assert connections[2].server_name == "a.b"
    assert [connection.alpn for connection in connections[:2]] == ["http/1.1"] * 2
    assert connections[3].tls is not None
    assert connections[3].tls.resumed
    assert connections[3].tls.ech_offered
    assert len(found.handshake_messages) == 2 * len(USUAL)


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_handshakes_are_read_one_by_one(
    name: str, both_ways: Callable[..., Any], left: list[int]
) -> None:
    both_ways([USUAL[0], UNUSUAL[name], USUAL[2]])
    assert left == [0, 1, 2, 1]


def test_what_decrypting_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Randoms, suite, where protection begins, and hellos with ECH."""

    def understood(many: int) -> list[Understood]:
        monkeypatch.setattr(tls, "MANY", many)
        noted: list[Understood] = []
        monkeypatch.setattr(
            "capture_analyzer.pipeline.dissect.decrypt.open_connection",
            lambda connection, understood, *_: noted.append(understood),
        )
        dissect_tls(
            streams_of([*USUAL, UNUSUAL["early data"], USUAL[0]]),
            [connection(number) for number in range(len(USUAL) + 2)],
            np.arange(len(USUAL) + 2),
            secrets=Secrets(),
            guard=Guard(),
            read=lambda connection, opened: None,
        )
        for one in noted:
            one.client_roles, one.server_roles, one.messages = [], [], []
        return noted

    assert understood(0) == understood(1000)


LENGTHS = st.sampled_from([19, 27, 38, 53, 69, 90, 96, 250, 266, 266, 266, 274, 500, 1700])
CLIENT_EXTENSIONS = st.sampled_from(
    [
        (0, b"\x00\x06\x00\x00\x03a.b"),
        (0, b""),
        (5, b"\x01\x00\x00\x00\x00"),
        (10, b"\x00\x02\x00\x1d"),
        (16, ALPN_H2),
        (16, ALPN_BOTH),
        (35, b""),
        (35, b"ticket"),
        (41, b"key"),
        (42, b""),
        (43, b"\x04\x03\x04\x03\x03"),
        (51, b"k" * 40),
        (0x0A0A, b""),
        (0xFE0D, b"ech"),
        (0xFF01, b"\x00"),
    ]
)
SERVER_EXTENSIONS = st.sampled_from(
    [
        (41, b"\x00\x00"),
        (43, b"\x03\x04"),
        (43, b"\x7f\x1c"),
        (51, b"\x00\x1d\x00\x01k"),
        (16, ALPN_H2),
    ]
)


@st.composite
def side(draw: st.DrawFn, hello: bytes, first: int | None) -> bytes:
    """A side with a hello, mostly as is usual, perhaps damaged."""
    stream = record(22, hello) + draw(st.sampled_from([b"", CHANGE, CHANGE]))
    if draw(st.integers(0, 19)) == 0:
        stream += record(21, b"\x02\x28")
    if first is not None and draw(st.integers(0, 9)):
        stream += data(first)
    stream += data(*draw(st.lists(LENGTHS, max_size=18)))
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(stream) - 1))
        stream = stream[:at] + bytes((draw(st.integers(0, 255)),)) + stream[at + 1 :]
    return stream


@st.composite
def any_talk(draw: st.DrawFn) -> tuple[list[Piece], list[Piece]]:
    """Both directions in packets, numbered as they are seen, but for some."""
    offers = draw(st.lists(CLIENT_EXTENSIONS, max_size=6))
    choices = draw(st.lists(SERVER_EXTENSIONS, max_size=3))
    suite = draw(st.sampled_from([0x1301, 0x1302, 0x1303, 0xC02F]))
    finished = 69 if suite == 0x1302 else FINISHED
    client = draw(side(client_hello([*offers, (43, b"\x02\x03\x04")]), finished))
    server = draw(side(server_hello([*choices, (43, b"\x03\x04")], suite=suite), None))
    chance = draw(st.randoms(use_true_random=False))
    both = cut(client, chance, 0), cut(server, chance, 30)
    order = sorted(time_ns for direction in both for _, time_ns in direction)
    if chance.randrange(8) == 0:
        chance.shuffle(order)
    first, second = (
        [
            (content, 1 + order.index(time_ns), (2 if whole else time_ns) * MS)
            for content, time_ns in direction
        ]
        for direction in both
        for whole in (chance.randrange(20) == 0,)
    )
    return first, second


def cut(stream: bytes, chance: random.Random, at_ms: int) -> list[tuple[bytes, int]]:
    """(bytes, milliseconds) of packets that begin with a record, or anywhere; some are lost."""
    cuts, at = {0}, 0
    while at + 5 <= len(stream):
        at += 5 + int.from_bytes(stream[at + 3 : at + 5], "big")
        if chance.randrange(2) and at < len(stream):
            cuts.add(at)
    if chance.randrange(3) == 0:
        cuts.add(chance.randrange(len(stream)))
    begins = sorted(cuts)
    found = []
    for begin, end in zip(begins, [*begins[1:], len(stream)], strict=True):
        found.append((stream[begin:end] if chance.randrange(80) else b"", at_ms))
        at_ms += chance.choice((0, 0, 1, 4, 5, 6, 30, 36, 40, 100, 260, 280, 290))
    return found


@hypothesis.given(
    talks=st.lists(any_talk(), min_size=1, max_size=5),
    rtt=st.sampled_from([None, 0, 20 * MS, 80 * MS]),
)
@hypothesis.settings(
    max_examples=300, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
def test_at_once_as_one_by_one(
    talks: list[tuple[list[Piece], list[Piece]]],
    rtt: int | None,
    both_ways: Callable[..., Any],
) -> None:
    both_ways(talks, [rtt])
