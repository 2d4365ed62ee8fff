"""Holes: lost, overtaken, or only missing from the capture."""

from __future__ import annotations

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.holes import HOLE_KINDS

MS = 1_000_000


def rows(wire):
    h = wire.analyse().facts.holes
    return [
        (
            HOLE_KINDS[h.kind[i]],
            int(h.offset[i]),
            int(h.length[i]),
            int(h.opened_ns[i]) / MS,
            None if h.filled_ns[i] == NO_TIME else int(h.filled_ns[i]) / MS,
            int(h.opened_packet_no[i]),
            int(h.filled_packet_no[i]),
        )
        for i in range(len(h))
    ]


def at_client(new_wire):
    wire = new_wire()
    wire.handshake(0, rtt=20)
    return wire


def test_none_in_a_clean_stream(new_wire):
    wire = at_client(new_wire)
    for i in range(5):
        wire.server(100 + i, "A", 5001 + 10 * i, 1001, b"a" * 10, ttl=57)
    assert rows(wire) == []


def test_lost_and_filled_by_two_segments(new_wire):
    wire = at_client(new_wire)
    wire.server(100, "A", 5001, 1001, b"a" * 10, ttl=57)
    wire.server(101, "A", 5031, 1001, b"d" * 10, ttl=57)
    wire.server(130, "A", 5011, 1001, b"b" * 10, ttl=57)
    wire.server(131, "A", 5021, 1001, b"c" * 10, ttl=57)
    assert rows(wire) == [("loss", 10, 20, 101, 131, 5, 7)]


def test_overtaken(new_wire):
    wire = at_client(new_wire)
    wire.server(101, "A", 5011, 1001, b"b" * 10, ttl=57)
    wire.server(102, "A", 5001, 1001, b"a" * 10, ttl=57)
    assert rows(wire) == [("reordering", 0, 10, 101, 102, 4, 5)]


def test_one_overtaken_and_one_lost_is_a_loss(new_wire):
    wire = at_client(new_wire)
    wire.server(101, "A", 5021, 1001, b"c" * 10, ttl=57)
    wire.server(102, "A", 5001, 1001, b"a" * 10, ttl=57)
    wire.server(130, "A", 5011, 1001, b"b" * 10, ttl=57)
    assert rows(wire) == [("loss", 0, 20, 101, 130, 4, 6)]


def test_acknowledged_but_never_captured(new_wire):
    wire = at_client(new_wire)
    wire.server(101, "A", 5011, 1001, b"b" * 10, ttl=57)
    wire.client(102, "A", 1001, 5021)
    assert rows(wire) == [("capture", 0, 10, 101, 102, 4, 5)]


def test_acknowledged_before_the_gap_could_be_noticed(new_wire):
    wire = at_client(new_wire)
    wire.client(100, "A", 1001, 5011)
    wire.server(101, "A", 5011, 1001, b"b" * 10, ttl=57)
    assert rows(wire) == [("capture", 0, 10, 101, 101, 5, 4)]


def test_acknowledged_only_up_to_it_is_not_filled(new_wire):
    wire = at_client(new_wire)
    wire.server(101, "A", 5011, 1001, b"b" * 10, ttl=57)
    wire.client(102, "A", 1001, 5010)
    assert rows(wire) == [("loss", 0, 10, 101, None, 4, 0)]


def test_lost_behind_the_senders_capture(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000, ttl=57)
    wire.server(0.05, "SA", 5000, 1001)
    wire.client(20, "A", 1001, 5001, ttl=57)
    wire.server(100, "A", 5001, 1001, b"a" * 10)
    wire.server(100.5, "A", 5011, 1001, b"b" * 10)
    wire.client(120.5, "A", 1001, 5001, ttl=57, sack=[(5011, 5021)])
    wire.server(121, "A", 5001, 1001, b"a" * 10)
    wire.server(400, "A", 5001, 1001, b"a" * 10)
    wire.client(420, "A", 1001, 5021, ttl=57)
    assert rows(wire) == [("loss", 0, 10, 100, 400, 4, 8)]  # one, until the last repeat


def test_a_needless_repeat_is_no_hole(new_wire):
    wire = at_client(new_wire)
    wire.server(100, "A", 5001, 1001, b"a" * 10, ttl=57)
    wire.server(400, "A", 5001, 1001, b"a" * 10, ttl=57)
    assert rows(wire) == []


def test_they_are_ordered_by_connection_and_time(new_wire):
    wire = new_wire()
    for port in (40001, 40002):
        more = {"client_port": port}
        wire.handshake(0, **more)
        wire.server(103, "A", 5011, 1001, b"b", ttl=57, **more)
        wire.client(102, "A", 1002, 5001, b"c", **more)
    holes = wire.analyse().facts.holes
    assert holes.connection_no.tolist() == [0, 0, 1, 1]
    assert holes.from_client.tolist() == [True, False, True, False]
    assert holes.opened_ns.tolist() == [102 * MS, 103 * MS] * 2


def test_bytes_from_before_the_capture_are_no_gap(new_wire):
    """The capture begins while a lost segment has not been repeated yet."""
    wire = new_wire()
    wire.client(99, "A", 1001, 5001)
    wire.server(100, "A", 5061, 1001, b"g" * 10, ttl=57)
    wire.client(100.1, "A", 1001, 5001, sack=[(5011, 5071)], options=16)
    wire.server(120, "A", 5001, 1001, b"a" * 10, ttl=57)
    wire.client(120.1, "A", 1001, 5071)
    assert rows(wire) == []


def test_a_gap_further_on_is_one(new_wire):
    wire = new_wire()
    wire.client(99, "A", 1001, 5001)
    wire.server(100, "A", 5001, 1001, b"a" * 10, ttl=57)
    wire.server(101, "A", 5021, 1001, b"c" * 10, ttl=57)
    wire.client(101.1, "A", 1001, 5031)
    assert [row[0] for row in rows(wire)] == ["capture"]


def test_a_fin_behind_bytes_that_were_not_captured(new_wire):
    """Of a stream without any data; there is nothing that could have come before."""
    wire = new_wire()
    wire.client(0, "A", 1001, 5001)
    wire.client(10, "FA", 1051, 5001)
    assert rows(wire) == [("loss", 0, 50, 10, None, 2, 0)]
