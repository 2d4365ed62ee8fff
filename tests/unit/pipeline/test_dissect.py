"""Which parser reads a connection, and what comes of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.secrets import Secrets
from capture_analyzer.model.tls_records import ROLE_CODE
from capture_analyzer.pipeline.dissect import Dissected, dissect
from capture_analyzer.pipeline.dissect.guard import Guard
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.reassemble import Streams, reassemble
from capture_analyzer.pipeline.redact import Redactor
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.pipeline.tcp import analyse
from capture_analyzer.protocols.http1 import connection as http1
from capture_analyzer.readers import open_capture


@pytest.fixture(autouse=True)
def _no_hidden_failures(monkeypatch):
    monkeypatch.setattr(Guard, "raises", True)


def connection(number: int) -> Connection:
    return Connection(
        number, "tcp", number, "10.0.0.1", 40000 + number, "10.0.0.2", 8000, True, 0, 1000, 1, 99, 9
    )


def streams_of(pairs: list[tuple[ByteStream, ByteStream]]) -> Streams:
    parts = [stream for pair in pairs for stream in pair]

    def times(values):
        return np.array([NO_TIME if v is None else v for v in values], np.int64)

    def joined(name, dtype):
        arrays = [getattr(part, name) for part in parts]
        return np.concatenate(arrays).astype(dtype)

    return Streams(
        bounds=np.cumsum([0, *(len(part) for part in parts)]),
        starts=joined("starts", np.int64),
        lengths=joined("lengths", np.int64),
        packet_nos=joined("packet_nos", np.int32),
        seen_ns=joined("seen_ns", np.int64),
        in_order_ns=joined("in_order_ns", np.int64),
        buffer_nos=np.repeat(np.arange(len(parts)), [len(p) for p in parts]).astype(np.uint16),
        buffer_offsets=joined("buffer_offsets", np.int64),
        buffers=[part.buffers[0] for part in parts],
        end=np.array([part.end for part in parts], np.int64),
        mid_stream=np.array([part.begins_mid_stream for part in parts]),
        fin_ns=times(part.fin_ns for part in parts),
        reset_ns=times(None for _ in pairs),
    )


@pytest.fixture
def run(make_stream):
    """Dissects connections given as (client bytes, server bytes, options of both streams)."""

    def dissect_all(*contents, secrets=None):
        pairs, connections = [], []
        for number, (client, server, *rest) in enumerate(contents):
            options = rest[0] if rest else {}
            pairs.append(
                tuple(
                    make_stream(
                        [(10 + side, 1 + side, data)] if data else [],
                        from_client=side == 0,
                        connection_no=number,
                        **options,
                    )
                    for side, data in enumerate((client, server))
                )
            )
            connections.append(connection(number))
        return connections, dissect(streams_of(pairs), connections, Redactor(), secrets=secrets)

    return dissect_all


SETTINGS = bytes(3) + b"\x04" + bytes(5)  # an empty SETTINGS frame
GET = b"GET /x?key=secret HTTP/1.1\r\nHost: api.example\r\nAuthorization: Bearer abc\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HELLO = (
    bytes.fromhex("16030100330100002f0303")
    + bytes(32)
    + bytes.fromhex("00000213010100")
    + (b"\x00\x04\x00\x2b\x00\x00")
)
MID = {"begins_mid_stream": True}


def record(size: int, kind: int = 23) -> bytes:
    return bytes((kind, 3, 3)) + size.to_bytes(2, "big") + bytes(size)


def test_protocols_are_told_by_content_not_port(run):
    connections, result = run(
        (GET, OK),
        (HELLO, b""),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS, SETTINGS),
        (b"SSH-2.0-OpenSSH_9\r\n", b"SSH-2.0-x\r\n"),
        (b"", b""),
        (b"GET /\r\n", b"<html>"),
        (b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10", b""),
        (b"", OK),
        (GET[:20], b""),
    )
    assert [c.protocol for c in connections] == [
        "http/1.1", "tls", "h2", "opaque", "none", "opaque", "opaque", "http/1.1", "opaque",
    ]  # fmt: skip
    assert [c.server_name for c in connections[:2]] == ["api.example", None]
    assert connections[0].tls is None
    assert connections[1].tls is not None
    assert {m.connection_no for m in result.messages} == {0, 7}
    assert result.anomalies == []


def test_text_enters_tables_reduced(run):
    _, result = run((GET, OK))
    request = result.messages[0]
    assert request.target == "/x?key=…6"
    assert [f.value for f in request.fields] == ["api.example", "…10"]


def test_middle_of_tls(run):
    chain = bytes(700) + record(900) + record(80) + record(400)
    connections, result = run(
        (chain, chain, MID),
        (record(500), record(900), MID),
        (record(500), b"", MID),  # one record alone may be anything
        (chain, chain),  # nothing is missing in front, so this is no TLS
    )
    assert [c.protocol for c in connections] == ["tls", "tls", "opaque", "opaque"]
    tls = connections[0].tls
    assert (tls.version, tls.why_not) == (None, "the handshake was not captured")
    records = result.tls_records
    assert records.connection_no.tolist() == [0] * 6 + [1] * 2
    assert records.from_client.tolist() == [True] * 3 + [False] * 3 + [True, False]
    assert set(records.role.tolist()) == {ROLE_CODE["application"]}
    assert records.role_inferred.all()


def test_middle_of_http(run):
    connections, result = run((b"tail of content" + GET, b"x" * 5000 + OK, MID))
    assert connections[0].protocol == "http/1.1"
    assert [m.status for m in result.messages] == [None, None, 200]


def test_why_not_decrypted(run):
    connections, _ = run((HELLO, b""), (b"", record(100) * 4, MID), secrets=Secrets())
    assert connections[0].tls.why_not == "the handshake was not completed"
    assert connections[1].tls.why_not == (
        "the handshake was not captured, and no session of the key log fits"
    )


def test_problems_of_a_connection_are_counted(run):
    bare = b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"
    _, result = run((GET * 3, bare * 3), (HELLO + b"no record at all", b""))
    by_code = {a.code: a for a in result.anomalies}
    assert by_code["http-malformed"].count == 3
    assert (by_code["http-malformed"].connection_no, by_code["http-malformed"].packet_no) == (0, 2)
    assert (by_code["tls-malformed"].connection_no, by_code["tls-malformed"].packet_no) == (1, 1)


def test_close_notify_by_length_at_the_end(run):
    chain = record(900) + record(80) + record(19)
    closed, open_ = {"begins_mid_stream": True, "fin_ns": 99}, MID
    roles = run((chain, chain, closed), (chain, chain, open_))[1].tls_records.role
    alert, application = ROLE_CODE["alert"], ROLE_CODE["application"]
    assert roles.tolist() == [application, application, alert] * 2 + [application] * 6


def test_a_failing_parser_costs_its_connection_only(run, monkeypatch):
    monkeypatch.setattr(Guard, "raises", False)
    real = http1.parse

    def failing(client, server, lines):
        if client.stream.connection_no == 0:
            raise ZeroDivisionError("secret text")
        return real(client, server, lines)

    monkeypatch.setattr(http1, "parse", failing)
    connections, result = run((GET, OK), (GET, OK))
    assert [c.protocol for c in connections] == ["opaque", "http/1.1"]
    (anomaly,) = result.anomalies
    assert (anomaly.code, anomaly.connection_no) == ("parser-failed", 0)
    assert "ZeroDivisionError" in anomaly.detail
    assert "secret" not in anomaly.detail
    assert len(result.messages) == 2


def _read(path: Path) -> tuple[list[Connection], Dissected]:
    capture = open_capture(path)
    packets, _ = scan(capture)
    flows = group(packets)
    facts = analyse(packets, flows)
    streams = reassemble(capture, packets, flows, facts.connections)
    return facts.connections, dissect(streams, facts.connections, Redactor("none"))


@pytest.mark.shared
@pytest.mark.parametrize("run_name", ["tls13-h1/main", "tls13-h1/hrr", "encrypted-no-keys/sse-h1"])
@pytest.mark.parametrize("side", ["client", "server"])
def test_records_are_those_of_the_lab(lab, run_name, side):
    folder = lab / run_name
    connections, result = _read(folder / f"{side}.pcap")
    records = result.tls_records
    for flow in json.loads((folder / "stream.json").read_text()):
        number = sorted(
            {f["flow"] for f in json.loads((folder / "stream.json").read_text())}
        ).index(flow["flow"])
        mine = (records.connection_no == number) & (records.from_client == (flow["dir"] == "c2s"))
        true = flow["tls_records"]
        assert records.offset[mine].tolist() == [r["off"] for r in true]
        assert (records.length[mine] + 5).tolist() == [r["len"] for r in true]
        assert records.content_type[mine].tolist() == [r["type"] for r in true]
    for c in connections:
        assert c.protocol == "tls"
        assert c.tls.version == "TLS 1.3"
        assert c.alpn == "http/1.1"
        mine = (records.connection_no == c.connection_no) & ~records.from_client
        tickets = int((records.role[mine] == ROLE_CODE["ticket"]).sum())
        assert tickets == (1 if c.tls.resumed else 2)


@pytest.mark.shared
def test_every_shared_capture_is_read_without_failure(lab, corpus):
    paths = [*sorted(corpus.rglob("*.pcap*")), *sorted(lab.rglob("client.pcap"))]
    assert len(paths) > 80
    protocols = set()
    for path in paths:
        connections, _ = _read(path)
        protocols |= {c.protocol for c in connections}
    assert protocols == {"http/1.1", "tls", "h2", "opaque", "none"}


CONNECT = b"CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


def test_tls_behind_connect_in_the_same_segments(run):
    connections, result = run((CONNECT + HELLO + record(80), ESTABLISHED + record(60)))
    (row,) = connections
    assert row.protocol == "tls"
    assert row.server_name == "api.example"  # as CONNECT says: the hello names none
    assert row.tls is not None
    assert row.tls.tunnelled
    records = result.tls_records
    assert records.offset.tolist() == [
        len(CONNECT),
        len(CONNECT) + len(HELLO),
        len(ESTABLISHED),
    ]
    assert [m.tunnelled for m in result.messages] == [False, False]
    assert result.anomalies == []


@pytest.mark.parametrize(
    ("client", "server"),
    [
        (CONNECT + b"SSH-2.0-OpenSSH_9.6\r\n", ESTABLISHED + b"SSH-2.0-OpenSSH_9.6\r\n"),
        (CONNECT + HELLO, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
        (CONNECT, ESTABLISHED),
        (CONNECT + HELLO, b""),
    ],
    ids=["another protocol", "refused", "nothing", "no answer captured"],
)
def test_what_is_no_tls_behind_connect(run, client, server):
    connections, result = run((client, server))
    assert connections[0].protocol == "http/1.1"
    assert connections[0].tls is None
    assert len(result.tls_records) == 0
