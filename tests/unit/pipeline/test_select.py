"""What is asked for, on the project's own captures: the same as in an analysis of everything."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import capture_analyzer
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import UDP


@pytest.fixture(scope="module")
def incident(captures):
    return captures / "llm-incident.pcap"


@pytest.fixture(scope="module")
def whole(incident):
    return capture_analyzer.analyze(incident)


def ends(analysis) -> list[tuple[str, int, int | None, int]]:
    return [
        (c.server_ip, c.server_port, c.tcp_stream, c.first_packet_no)
        for c in analysis.tables.connections
    ]


def note(analysis) -> list[str]:
    return [a.detail for a in analysis.tables.anomalies if a.code == "selection"]


def same_exchanges(some, whole) -> None:
    """The exchanges of kept connections have not changed, save for their numbers."""
    stream = {c.connection_no: c.tcp_stream for c in some.tables.connections}
    first = {
        (c.tcp_stream, e.request_start_ns): e
        for e in whole.tables.exchanges
        for c in [whole.tables.connections[e.connection_no]]
    }
    for exchange in some.tables.exchanges:
        other = first[stream[exchange.connection_no], exchange.request_start_ns]
        for name in ("start_ns", "end_ns", "method", "authority", "path", "status", "ttfb_ns"):
            assert getattr(exchange, name) == getattr(other, name), name
        assert ledger(some, exchange) == ledger(whole, other)


def ledger(analysis, exchange) -> list[tuple[int, int, int]]:
    rows = analysis.tables.ledger.rows_of(exchange.exchange_no)
    table = analysis.tables.ledger
    return list(
        zip(
            table.from_ns[rows].tolist(),
            table.to_ns[rows].tolist(),
            table.cause[rows].tolist(),
            strict=True,
        )
    )


def test_by_name_by_address_and_by_port_are_the_same_connections(incident, whole):
    named = capture_analyzer.analyze(incident, hosts=["api.llm.example"])
    address = {c.server_ip for c in whole.tables.connections if c.server_name == "api.llm.example"}
    assert len(address) == 1
    addressed = capture_analyzer.analyze(incident, hosts=list(address))
    assert ends(named) == ends(addressed)
    assert ends(named) == [row for row in ends(whole) if row[0] in address]
    assert 0 < len(ends(named)) < len(ends(whole))
    assert [c.connection_no for c in named.tables.connections] == [0, 1]
    assert [e.exchange_no for e in named.tables.exchanges] == list(
        range(len(named.tables.exchanges))
    )
    assert note(named) == ["only 2 of 4 connections are analysed (--host)"]
    for analysis in (named, addressed):
        same_exchanges(analysis, whole)
        assert {row.name for row in analysis.tables.lookups} == {"api.llm.example"}
        for connection in analysis.tables.connections:
            used = analysis.tables.lookups[connection.lookup_no]
            assert connection.connection_no in used.connection_nos


def test_by_port(incident, whole):
    some = capture_analyzer.analyze(incident, ports=[80])
    assert ends(some) == [row for row in ends(whole) if row[1] == 80]
    same_exchanges(some, whole)
    none = capture_analyzer.analyze(incident, ports=[81])
    assert (none.tables.connections, none.tables.exchanges, none.tables.lookups) == ([], [], [])
    assert note(none) == ["only 0 of 4 connections are analysed (--port)"]


def test_all_that_was_asked_for_has_to_fit(incident, whole):
    both = capture_analyzer.analyze(incident, hosts=["api.llm.example"], ports=[80])
    assert both.tables.connections == []
    either = capture_analyzer.analyze(incident, hosts=["api.llm.example", "flags.svc.example"])
    assert len(either.tables.connections) == 3


def test_by_time_whole_connections_stay_and_exchanges_overlap(incident, whole):
    first = whole.tables.exchanges[-1]
    begin = first.start_ns + 1
    some = capture_analyzer.analyze(incident, start=f"+{begin / 1e9:.9f}")
    connection = whole.tables.connections[first.connection_no]
    (kept,) = [c for c in some.tables.connections if c.tcp_stream == connection.tcp_stream]
    assert (kept.start_ns, kept.packet_count) == (connection.start_ns, connection.packet_count)
    same_exchanges(some, whole)
    overlapping = [e for e in whole.tables.exchanges if e.end_ns is None or e.end_ns >= begin]
    assert len(some.tables.exchanges) == len(overlapping) < len(whole.tables.exchanges)
    assert all(e.end_ns is None or e.end_ns >= begin for e in some.tables.exchanges)
    numbers = {e.exchange_no for e in some.tables.exchanges}
    tables = some.tables
    assert set(tables.ledger.exchange_no.tolist()) == numbers
    assert set(tables.events.exchange_no.tolist()) <= numbers
    assert set(tables.waits.exchange_no.tolist()) <= numbers | {-1}
    epoch = some.tables.epoch_ns
    absolute = capture_analyzer.analyze(incident, start=f"{(epoch + begin) / 1e9:.9f}")
    assert len(absolute.tables.exchanges) in (len(overlapping), len(overlapping) + 1)


def test_packet_numbers_stay_and_the_rest_is_left_out(incident, whole, tmp_path):
    some = capture_analyzer.analyze(incident, hosts=["api.llm.example"])
    packets, all_packets = some.tables.packets, whole.tables.packets
    assert len(packets) == len(all_packets)
    kept = packets.connection_no >= 0
    assert (packets.label[kept] == all_packets.label[kept]).all()
    assert not (packets.left_out & kept).any()
    lookups = {no for row in some.tables.lookups for no in row.packet_nos}
    assert set(np.flatnonzero(~packets.left_out) + 1) == set(np.flatnonzero(kept) + 1) | lookups
    assert (packets.protocol[packets.left_out] == 0).all()

    from capture_analyzer.exporters import packets_csv

    packets_csv.export(some, tmp_path / "x.csv")
    lines = (tmp_path / "x.csv").read_text().splitlines()[1:]
    assert [int(line.split(",")[0]) for line in lines] == (
        np.flatnonzero(~packets.left_out) + 1
    ).tolist()


def pcap(*frames: tuple[float, bytes]) -> bytes:
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
    for when, frame in frames:
        head = struct.pack("<IIII", int(when), round(when % 1 * 1e6), len(frame), len(frame))
        parts.append(head + frame)
    return b"".join(parts)


def datagram(client: int, server: int, port: int, payload: bytes = b"x" * 40) -> bytes:
    udp = struct.pack(">HHHH", client, port, 8 + len(payload), 0) + payload
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 7, 0, 60, UDP, 0)
    return head + bytes([10, 0, 0, 1, 10, 0, 0, server]) + udp


def test_datagrams_are_kept_with_all_between_the_same_ends(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(
        pcap(
            (1, datagram(5000, 1, 443)),
            (2, datagram(5001, 2, 443)),
            (3, datagram(5000, 1, 443)),
            (3.5, datagram(5002, 1, 8443)),
        )
    )

    def kept(**options) -> list[int]:
        packets = capture_analyzer.analyze(path, **options).tables.packets
        assert (packets.time_ns != NO_TIME).all()
        return (np.flatnonzero(packets.protocol == UDP) + 1).tolist()

    assert kept() == [1, 2, 3, 4]
    assert kept(start="+1.5") == [1, 3, 4]
    assert kept(end="+0.5") == [1, 3]
    assert kept(hosts=["10.0.0.2"]) == [2]
    assert kept(ports=[443]) == [1, 2, 3]
    assert kept(ports=[8443], hosts=["10.0.0.0/24"]) == [4]
    assert kept(hosts=["a.name.example"]) == []


def segment(port: int, seq: int, payload: bytes) -> bytes:
    tcp = struct.pack(">HHIIBBHHH", port, 443, seq, 1, 0x50, 0x18, 500, 0, 0) + payload
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 7, 0, 60, 6, 0)
    return head + bytes([10, 0, 0, 1, 10, 0, 0, 9]) + tcp


def hello(name: bytes, padding: int = 0) -> bytes:
    host = struct.pack(">HBH", len(name) + 3, 0, len(name)) + name
    extensions = struct.pack(">HH", 21, padding) + bytes(padding) if padding else b""
    extensions += struct.pack(">HH", 0, len(host)) + host
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0"
    body += struct.pack(">H", len(extensions)) + extensions
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


def test_names_in_hellos_of_several_segments_and_in_requests(tmp_path):
    long = hello(b"long.example", 3000)
    frames = [
        (1, segment(1, 100, hello(b"short.example"))),
        (2, segment(2, 100, long[:1000])),
        (3, segment(2, 1100, long[1000:2000])),
        (4, segment(2, 1100, long[1000:2000])),
        (5, segment(2, 2100, long[2000:])),
        (6, segment(3, 100, b"GET / HTTP/1.1\r\nA: b\r\nHOST:  Web.example:443 \r\n\r\n")),
        (7, segment(4, 100, b"\x16\x03\x01\x00\x05\x01\x00\x00\xff\x00")),
        (8, segment(5, 100, b"\x00\x01\x02")),
    ]
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(*frames))

    def kept(name: str) -> list[int]:
        analysis = capture_analyzer.analyze(path, hosts=[name])
        return [connection.tcp_stream for connection in analysis.tables.connections]

    assert kept("short.example") == [0]
    assert kept("long.example") == [1]
    assert kept("web.example") == [2]
    assert kept("*.example") == [0, 1, 2]
    assert kept("other.example") == []
    assert kept("10.0.0.9") == [0, 1, 2, 3, 4]
