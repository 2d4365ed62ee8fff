"""The benchmark's shapes hold what they say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from capture_shapes.copies import Copies
from capture_shapes.shapes import SHAPES

from capture_analyzer.api import analyze

SIZE = 60


@pytest.mark.parametrize(
    ("name", "connections", "exchanges"),
    [
        ("one-connection", 1, 1),
        ("pipelined", 1, SIZE),
        ("keep-alive", 1, SIZE),
        ("event-stream", 1, 1),
        ("h2-streams", 1, SIZE),
        ("syn-flood", SIZE, 0),
        ("port-scan", SIZE, 0),
        ("refused", SIZE, 0),
        ("tiny-http", SIZE, SIZE),
        ("reused-port", SIZE, SIZE),
    ],
)
def test_connections_and_exchanges(
    name: str, connections: int, exchanges: int, tmp_path: Path
) -> None:
    count = SHAPES[name].write(tmp_path / "shape.pcap", SIZE)
    tables = analyze(tmp_path / "shape.pcap").tables
    assert len(tables.packets) == count
    assert len(tables.connections) == connections
    assert len(tables.exchanges) == exchanges


def test_what_else_they_are_long_in(tmp_path: Path) -> None:
    def tables(name: str):  # type: ignore[no-untyped-def]
        SHAPES[name].write(tmp_path / "shape.pcap", SIZE)
        return analyze(tmp_path / "shape.pcap").tables

    assert tables("retransmissions").connections[0].retransmissions == SIZE
    assert len(tables("gaps").holes) == SIZE
    assert len(tables("tiny-records").tls_records) == SIZE + 20 + 2
    assert len(tables("event-stream").events) == SIZE
    assert len(tables("dns").lookups) == SIZE


def test_copies_are_connections_of_their_own(captures: Path, tmp_path: Path) -> None:
    path = captures / "http-keepalive.pcap"
    one = analyze(path).tables
    for servers in (False, True):
        Copies(path, servers=servers).write(tmp_path / "copies.pcap", 7)
        tables = analyze(tmp_path / "copies.pcap").tables
        assert len(tables.connections) == 7 * len(one.connections)
        assert len(tables.exchanges) == 7 * len(one.exchanges)
        hosts = {connection.server_ip for connection in tables.connections}
        alone = {connection.server_ip for connection in one.connections}
        assert len(hosts) == len(alone) * (7 if servers else 1)
