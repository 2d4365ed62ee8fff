"""What held a sender back: closed and used-up windows, the congestion window, a start over."""

from __future__ import annotations

import pytest

from capture_analyzer.model.limits import LIMIT_NAMES

MS = 1_000_000
FULL = b"x" * 1000  # the largest segment that both SYNs allow
RTT = 40.0


def rows(wire):
    table = wire.analyse().facts.limits
    return [
        (
            LIMIT_NAMES[table.kind[i]],
            bool(table.from_client[i]),
            round(int(table.from_ns[i]) / MS, 1),
            round(int(table.to_ns[i]) / MS, 1),
            int(table.from_packet_no[i]),
            int(table.freed_packet_no[i]),
            int(table.to_packet_no[i]),
        )
        for i in range(len(table))
    ]


def at_client(new_wire, window=60_000):
    """A connection seen at its client, without window scaling, MSS 1000."""
    wire = new_wire()
    wire.handshake(0, rtt=RTT, mss=1000, window=window, options=2)
    return wire


def flight(wire, at, first, count, **more):
    """Full segments of the server, back to back; the client acknowledges each at once."""
    for number in range(first, first + count):
        when = at + 0.1 * (number - first)
        wire.server(when, "A", 5001 + 1000 * number, 1001, FULL, ttl=57)
        wire.client(when + 0.02, "A", 1001, 5001 + 1000 * (number + 1), **more)


def test_congestion_window(new_wire):
    """Ten segments, then twenty, a round trip behind the first acknowledgement."""
    wire = at_client(new_wire)
    flight(wire, 100, 0, 10, window=60_000)
    flight(wire, 100.02 + RTT, 10, 20, window=60_000)
    assert rows(wire) == [("congestion_window", False, 100.9, 140.0, 22, 5, 24)]


def test_near_miss_the_server_had_no_more_to_send(new_wire):
    """The next flight comes whenever the server is ready, not on an acknowledgement."""
    for pause in (17.0, 33.0, 61.0):
        wire = at_client(new_wire)
        flight(wire, 100, 0, 10, window=60_000)
        flight(wire, 100.9 + pause, 10, 20, window=60_000)
        assert rows(wire) == []


def test_near_miss_the_last_segment_was_not_full(new_wire):
    wire = at_client(new_wire)
    flight(wire, 100, 0, 9, window=60_000)
    wire.server(100.9, "A", 5001 + 9000, 1001, b"x" * 700, ttl=57)
    wire.client(100.92, "A", 1001, 5001 + 9700, window=60_000)
    wire.server(100.02 + RTT, "A", 5001 + 9700, 1001, FULL, ttl=57)
    assert rows(wire) == []


def test_window_that_is_used_up(new_wire):
    """The client offers room for five segments; so many come in each round trip."""
    wire = at_client(new_wire, window=5_500)
    for turn in range(3):
        flight(wire, 100 + turn * (RTT + 0.02), 5 * turn, 5, window=5_500)
    assert [row[0] for row in rows(wire)] == ["window_full", "window_full"]


def test_at_the_server_likewise(new_wire):
    """There the acknowledgements come a round trip late, and the next flight at once."""
    wire = new_wire()
    wire.client(0, "S", 1000, mss=1000, window=5_500, options=2, ttl=57)
    wire.server(0.05, "SA", 5000, 1001, mss=1000, options=2)
    wire.client(RTT, "A", 1001, 5001, window=5_500, ttl=57)
    for turn in range(3):
        begin = 100 + turn * (RTT + 0.1)
        for number in range(5):
            wire.server(begin + 0.01 * number, "A", 5001 + 1000 * (5 * turn + number), 1001, FULL)
        for number in range(5):
            ack = 5001 + 1000 * (5 * turn + number + 1)
            wire.client(begin + RTT + 0.01 * number, "A", 1001, ack, window=5_500, ttl=57)
    assert [(row[0], row[3] - row[2] > 39) for row in rows(wire)] == [("window_full", True)] * 2


def test_unknown_scale_says_nothing_of_windows(new_wire):
    """Without a SYN the window's unit is not known: only that acknowledgements were needed."""
    wire = new_wire()
    wire.client(60, "A", 1001, 5001, b"GET", window=55)
    for turn in range(3):
        flight(wire, 100.1 + turn * RTT, 5 * turn, 5, window=55)
    assert "window_full" not in {row[0] for row in rows(wire)}


def closed(new_wire, opened=900.0, resumed=None, probe=True):
    """The client's buffer is full at 100.5 ms; it opens later."""
    wire = at_client(new_wire, window=3_000)
    for number in range(3):
        wire.server(100 + 0.1 * number, "A", 5001 + 1000 * number, 1001, FULL, ttl=57)
    wire.client(100.5, "A", 1001, 8001, window=0)
    if probe:
        wire.server(400, "A", 8000, 1001, ttl=57)
        wire.client(400.02, "A", 1001, 8001, window=0)
    if opened:
        wire.client(opened, "A", 1001, 8001, window=3_000)
    if resumed:
        wire.server(resumed, "A", 8001, 1001, FULL, ttl=57)
    return wire


def test_zero_window(new_wire):
    wire = closed(new_wire, resumed=900 + RTT)
    assert rows(wire) == [("zero_window", False, 100.2, 940.0, 6, 10, 11)]


def test_zero_window_without_probes(new_wire):
    """Data that came the moment that the window opened had waited, too."""
    wire = closed(new_wire, resumed=900 + RTT, probe=False)
    assert [row[0] for row in rows(wire)] == ["zero_window"]


def test_near_miss_nobody_waited(new_wire):
    wire = closed(new_wire, resumed=1400, probe=False)
    assert rows(wire) == []


def test_zero_window_that_never_opened(new_wire):
    wire = closed(new_wire, opened=None)
    assert rows(wire) == [("zero_window", False, 100.2, 400.0, 6, 0, 0)]


def test_start_over_after_idle(new_wire):
    """Twenty segments were in flight before; behind a second of silence ten, and a wait."""
    wire = at_client(new_wire)
    flight(wire, 100, 0, 10, window=60_000)
    flight(wire, 100.02 + RTT, 10, 20, window=60_000)
    flight(wire, 100.04 + 2 * RTT, 30, 5, window=60_000)
    wire.client(1200, "A", 1001, 5001 + 35_000, b"GET", window=60_000)
    flight(wire, 1200 + RTT, 35, 10, window=60_000)
    flight(wire, 1200.02 + 2 * RTT, 45, 10, window=60_000)
    assert [row[0] for row in rows(wire)] == [
        "congestion_window",
        "congestion_window",
        "idle_restart",
    ]


def test_near_miss_as_much_in_flight_as_before(new_wire):
    """A window that never grew is not started over."""
    wire = at_client(new_wire)
    flight(wire, 100, 0, 10, window=60_000)
    flight(wire, 100.02 + RTT, 10, 5, window=60_000)
    wire.client(1200, "A", 1001, 5001 + 15_000, b"GET", window=60_000)
    flight(wire, 1200 + RTT, 15, 10, window=60_000)
    flight(wire, 1200.02 + 2 * RTT, 25, 10, window=60_000)
    assert [row[0] for row in rows(wire)] == ["congestion_window", "congestion_window"]


@pytest.mark.parametrize("noise", [[], ["R"], ["F"], ["S"]])
def test_senseless_packets_do_no_harm(new_wire, noise):
    wire = new_wire()
    for number, flags in enumerate(noise * 3):
        wire.client(number, flags, 7 * number, 3 * number, b"x" * number, window=0)
        wire.server(number, flags, 5 * number, 9 * number, window=0)
    rows(wire)
