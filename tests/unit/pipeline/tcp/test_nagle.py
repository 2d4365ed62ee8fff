"""Small segments that waited for an acknowledgement, and those that only look like it."""

from __future__ import annotations

import pytest

from capture_analyzer.model.limits import LIMIT_NAMES

MS = 1_000_000
RTT = 4.0
DELAY = 40.0  # of an acknowledgement on Linux


def kinds(wire):
    table = wire.analyse().facts.limits
    return [LIMIT_NAMES[code] for code in table.kind]


def start(new_wire, side="client"):
    """A connection with an MSS of 1000, seen at its client or server."""
    wire = new_wire()
    if side == "client":
        wire.handshake(0, rtt=RTT, mss=1000, options=2, window=60_000)
    else:
        wire.client(0, "S", 1000, mss=1000, options=2, window=60_000)
        wire.server(0.02, "SA", 5000, 1001, mss=1000, options=2, window=60_000)
        wire.client(RTT, "A", 1001, 5001, window=60_000)
    return wire


def two_writes(wire, at, seq, delay=DELAY, gap=None, side="client", first=160, second=300):
    """A request in two pieces; the second leaves on the acknowledgement of the first.

    Seen at the client, or at the server, where the acknowledgement passes first.
    """
    acked = at + RTT + delay if side == "client" else at + delay
    back = 0.0 if side == "client" else RTT
    wire.client(at, "PA", seq, 5001, b"h" * first)
    wire.server(acked, "A", 5001, seq + first)
    sent = acked + back + 0.02 if gap is None else at + gap
    wire.client(sent, "PA", seq + first, 5001, b"b" * second)
    wire.server(sent + RTT - back, "A", 5001, seq + first + second)


@pytest.mark.parametrize("side", ["client", "server"])
def test_held_until_a_delayed_acknowledgement(new_wire, side):
    wire = start(new_wire, side)
    for turn in range(3):
        two_writes(wire, 100 + 100 * turn, 1001 + 460 * turn, side=side)
    table = wire.analyse().facts.limits
    assert [LIMIT_NAMES[code] for code in table.kind] == ["nagle_delayed_ack"] * 3
    assert table.from_client.all()
    assert ((table.to_ns - table.from_ns) / MS).round().tolist() == [44.0] * 3
    assert table.confidence.min() > 0.9


def test_one_alone_is_less_certain(new_wire):
    wire = start(new_wire)
    two_writes(wire, 100, 1001)
    table = wire.analyse().facts.limits
    assert [LIMIT_NAMES[code] for code in table.kind] == ["nagle_delayed_ack"]
    assert table.confidence[0] < 0.7


def test_near_miss_the_program_paused(new_wire):
    """The second piece leaves 60 ms behind the first, whatever the acknowledgement does."""
    wire = start(new_wire)
    for turn in range(3):
        two_writes(wire, 100 + 100 * turn, 1001 + 460 * turn, gap=60)
    assert kinds(wire) == []


def test_near_miss_a_small_segment_was_sent_while_one_was_in_flight(new_wire):
    """That shows that the algorithm is off, so the other times were chance."""
    wire = start(new_wire)
    two_writes(wire, 100, 1001)
    two_writes(wire, 200, 1461, gap=1.0)
    assert kinds(wire) == []


def test_near_miss_delayed_acknowledgement_with_nothing_held(new_wire):
    wire = start(new_wire)
    for turn in range(3):
        wire.client(100 + 100 * turn, "PA", 1001 + 160 * turn, 5001, b"h" * 160)
        wire.server(100 + 100 * turn + RTT + DELAY, "A", 5001, 1001 + 160 * (turn + 1))
    assert kinds(wire) == []


def test_near_miss_the_second_answers_the_peers_data(new_wire):
    """Request, answer on the acknowledgement, next request: nothing was held."""
    wire = start(new_wire)
    seq, ack = 1001, 5001
    for turn in range(4):
        at = 100 + 100 * turn
        wire.client(at, "PA", seq, ack, b"h" * 160)
        seq += 160
        wire.server(at + RTT + DELAY, "PA", ack, seq, b"a" * 50)
        ack += 50
        wire.client(at + RTT + DELAY + 0.02, "PA", seq, ack, b"n" * 100)
        seq += 100
        wire.server(at + 2 * RTT + DELAY, "PA", ack, seq, b"a" * 50)
        ack += 50
    assert kinds(wire) == []


def test_near_miss_full_segments(new_wire):
    """Those are never held by the algorithm."""
    wire = start(new_wire)
    for turn in range(3):
        two_writes(wire, 100 + 100 * turn, 1001 + 2000 * turn, first=1000, second=1000)
    assert "nagle_delayed_ack" not in kinds(wire)


def test_near_miss_around_a_repeat(new_wire):
    wire = start(new_wire)
    wire.client(100, "PA", 1001, 5001, b"h" * 160)
    wire.client(130, "PA", 1001, 5001, b"h" * 160)
    wire.server(100 + RTT + DELAY, "A", 5001, 1161)
    wire.client(100 + RTT + DELAY + 0.02, "PA", 1161, 5001, b"b" * 300)
    assert kinds(wire) == []


def test_one_round_trip_each_is_a_rule_only_if_often(new_wire):
    for count, found in ((3, 0), (8, 7)):
        wire = start(new_wire)
        at, seq = 100.0, 1001
        for _ in range(count):
            wire.client(at, "PA", seq, 5001, b"t" * 90)
            seq += 90
            wire.server(at + RTT, "A", 5001, seq)
            at += RTT + 0.02
        assert kinds(wire) == ["nagle"] * found


def test_near_miss_a_stream_at_its_own_pace(new_wire):
    """Each segment is later than the acknowledgement of the one before, by its own time."""
    wire = start(new_wire)
    at, seq = 100.0, 1001
    for number in range(20):
        wire.client(at, "PA", seq, 5001, b"t" * 90)
        seq += 90
        wire.server(at + RTT, "A", 5001, seq)
        at += 7 + 3 * (number % 3)
    assert kinds(wire) == []


def crossing(new_wire, rtt, leaves):
    """A ticket and a request cross; the answer leaves so long behind the ticket's ACK.

    Seen at the client.
    """
    wire = new_wire()
    wire.handshake(0, rtt=rtt, mss=1000, options=2, window=60_000)
    wire.client(100, "A", 1001, 5001, b"GET")
    wire.server(110, "A", 5001, 1001, b"t" * 500)  # sent before the request was there
    wire.client(110 + DELAY, "A", 1004, 5501)
    wire.server(110 + DELAY + rtt + leaves, "A", 5501, 1004, b"a" * 300)
    return kinds(wire)


def test_near_miss_the_answer_to_a_request_that_crossed_the_first_segment(new_wire):
    assert crossing(new_wire, 40, 0.1) == []


def test_near_miss_a_single_one_that_does_not_quite_fit(new_wire):
    for late, there in ((0.5, True), (3.5, False)):
        wire = new_wire()
        wire.handshake(0, rtt=40, mss=1000, options=2, window=60_000)
        wire.server(110, "A", 5001, 1001, b"t" * 500)
        wire.client(110 + DELAY, "A", 1001, 5501)
        wire.server(110 + DELAY + 40 + late, "A", 5501, 1001, b"a" * 300)
        assert (kinds(wire) == ["nagle_delayed_ack"]) == there
