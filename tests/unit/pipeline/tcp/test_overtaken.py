"""Reordering that a sender's capture shows by the receiver's reports only."""

from __future__ import annotations

from capture_analyzer.model.holes import HOLE_KINDS

MS = 1_000_000


def rows(wire):
    holes = wire.analyse().facts.holes
    return [
        (
            HOLE_KINDS[holes.kind[i]],
            int(holes.offset[i]),
            int(holes.length[i]),
            round(int(holes.opened_ns[i]) / MS),
            round(int(holes.filled_ns[i]) / MS),
        )
        for i in range(len(holes))
    ]


def at_server(new_wire, count=4):
    """Segments of ten bytes, a millisecond apart, captured where they were sent."""
    wire = new_wire()
    wire.client(0, "S", 1000, ttl=57)
    wire.server(0.05, "SA", 5000, 1001)
    wire.client(20, "A", 1001, 5001, ttl=57)
    for number in range(count):
        wire.server(100 + number, "A", 5001 + 10 * number, 1001, b"x" * 10)
    return wire


def report(wire, at, ack, *blocks):
    wire.client(at, "A", 1001, ack, ttl=57, sack=list(blocks), options=16)


def test_reported_missing_then_acknowledged(new_wire):
    wire = at_server(new_wire)
    report(wire, 121, 5011, (5021, 5031))
    report(wire, 122, 5011, (5021, 5041))
    wire.client(126, "A", 1001, 5041, ttl=57)
    assert rows(wire) == [("reordering", 10, 10, 121, 126)]


def test_near_miss_sent_again(new_wire):
    wire = at_server(new_wire)
    report(wire, 121, 5011, (5021, 5031))
    wire.server(123, "A", 5011, 1001, b"x" * 10)
    wire.client(143, "A", 1001, 5041, ttl=57)
    assert [row[0] for row in rows(wire)] == ["loss"]


def test_near_miss_a_report_of_data_received_twice(new_wire):
    """Blocks below the acknowledgement, or within the second block (RFC 2883)."""
    wire = at_server(new_wire)
    report(wire, 121, 5041, (5011, 5021))
    assert rows(wire) == []


def test_near_miss_never_acknowledged(new_wire):
    wire = at_server(new_wire)
    report(wire, 121, 5011, (5021, 5031))
    assert rows(wire) == []


def test_near_miss_at_the_receiver_the_segments_themselves_tell(new_wire):
    wire = new_wire()
    wire.handshake(0, rtt=20)
    wire.server(100, "A", 5001, 1001, b"x" * 10, ttl=57)
    wire.server(101, "A", 5021, 1001, b"x" * 10, ttl=57)
    wire.client(101.01, "A", 1001, 5011, sack=[(5021, 5031)], options=16)
    wire.server(104, "A", 5011, 1001, b"x" * 10, ttl=57)
    wire.client(104.01, "A", 1001, 5031)
    assert rows(wire) == [("reordering", 10, 10, 101, 104)]


def test_near_miss_the_bytes_were_never_seen_to_be_sent(new_wire):
    """The sender's direction is not in the capture: so its repeat is not, either."""
    wire = new_wire()
    report(wire, 121, 5011, (5021, 5031))
    wire.client(426, "A", 1001, 5041, ttl=57)
    assert rows(wire) == []
