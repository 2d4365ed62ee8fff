"""Round trips on data, their running minimum, and the vantage that follows."""

from __future__ import annotations

import numpy as np
import pytest

from capture_analyzer.model.column import NO_TIME

MS = 1_000_000


def minimum(facts, *times, connection=0, side="server"):
    numbers = np.full(len(times), connection)
    found = facts.min_rtt_before(numbers, np.array([t * MS for t in times], np.int64), side)
    return [None if rtt == NO_TIME else rtt / MS for rtt in found.tolist()]


def test_the_smallest_sample_so_far(new_wire):
    wire = new_wire()
    wire.handshake(0, rtt=30)
    wire.client(100, "A", 1001, 5001, b"a")
    wire.server(120, "A", 5001, 1002)
    wire.client(200, "A", 1002, 5001, b"b")
    wire.server(225, "A", 5001, 1003)
    wire.client(300, "A", 1003, 5001, b"c")
    wire.server(310, "A", 5001, 1004, b"answer")
    facts = wire.analyse().facts
    assert minimum(facts, 29, 30, 119, 120, 250, 310, 9999) == [None, 30, 30, 20, 20, 10, 10]
    assert minimum(facts, 50, connection=1) == [None]


def test_both_sides(new_wire):
    wire = new_wire()
    wire.handshake(0, rtt=30)
    wire.server(100, "A", 5001, 1001, b"a")
    wire.client(100.02, "A", 1001, 5002)
    facts = wire.analyse().facts
    assert minimum(facts, 100, 101, side="client") == [0.05, 0.02]
    assert minimum(facts, 101, side="server") == [30]


def test_what_was_sent_again_gives_no_sample(new_wire):
    wire = new_wire()
    wire.handshake(0, rtt=30)
    wire.client(100, "A", 1001, 5001, b"abc")
    wire.client(400, "A", 1001, 5001, b"abc")
    wire.server(401, "A", 5001, 1004)
    assert minimum(wire.analyse().facts, 500) == [30]


def test_an_acknowledgement_between_segments_gives_none(new_wire):
    wire = new_wire()
    wire.handshake(0, rtt=30)
    wire.client(100, "A", 1001, 5001, b"abc")
    wire.server(101, "A", 5001, 1003)
    assert minimum(wire.analyse().facts, 500) == [30]


def test_many_questions_in_any_order(new_wire):
    wire = new_wire()
    for i in range(5):
        wire.handshake(i * 1000, rtt=10 + i, client_port=41000 + i)
    facts = wire.analyse().facts
    numbers = np.array([4, 0, 3, 0, 2, 1])
    times = np.array([9999, 5, 9999, 11, 2011, 1011]) * MS
    found = facts.min_rtt_before(numbers, times)
    assert found.tolist() == [14 * MS, NO_TIME, 13 * MS, 10 * MS, NO_TIME, 11 * MS]


@pytest.mark.parametrize(
    ("server_rtt", "client_rtt", "client_ttl", "server_ttl", "side"),
    [
        (20, 0.05, 64, 57, "client"),
        (20, 0.05, 64, 64, "client"),  # by time alone
        (0.05, 20, 57, 64, "server"),
        (12, 10, 60, 57, "middle"),
        (0.02, 0.02, 64, 64, "unknown"),  # one machine, or next door
        (0.02, 0.02, 128, 57, "client"),  # by TTL alone
    ],
)
def test_vantage(new_wire, server_rtt, client_rtt, client_ttl, server_ttl, side):
    wire = new_wire()
    wire.client(0, "S", 1000, ttl=client_ttl)
    wire.server(server_rtt, "SA", 5000, 1001, ttl=server_ttl)
    wire.client(server_rtt + client_rtt, "A", 1001, 5001, ttl=client_ttl)
    connection = wire.analyse().facts.connections[0]
    assert connection.vantage_side == side
    assert (connection.vantage_confidence > 0.5) == (side != "unknown")


def test_vantage_is_most_certain_where_time_and_ttl_agree(new_wire):
    confidences = []
    for ttl in (57, 64):
        wire = new_wire()
        wire.client(0, "S", 1000, ttl=64)
        wire.server(20, "SA", 5000, 1001, ttl=ttl)
        wire.client(20.05, "A", 1001, 5001, ttl=64)
        confidences.append(wire.analyse().facts.connections[0].vantage_confidence)
    assert confidences[0] > confidences[1]
