"""In flight against the windows, segment by segment, as the sender knew it."""

from __future__ import annotations

import numpy as np

from capture_analyzer.pipeline.tcp.senders import sender_tables

FULL = b"x" * 1000
RTT = 40.0


def rows(wire, **more):
    """(packet_no, in flight, window, congestion window) of the server's segments."""
    made = wire.analyse()
    table, _, _ = sender_tables(made.packets, made.facts)
    table.complete()
    mine = np.flatnonzero(~table.from_client)
    columns = (
        table.packet_no,
        table.in_flight_bytes,
        table.window_bytes,
        table.congestion_window_bytes,
    )
    return [tuple(int(column[i]) for column in columns) for i in mine]


def at_server(new_wire, window=8_000):
    """A connection seen at its server, without window scaling, MSS 1000."""
    wire = new_wire()
    wire.client(0, "S", 1000, mss=1000, window=window, options=2)
    wire.server(0.02, "SA", 5000, 1001, mss=1000, window=window, options=2)
    wire.client(RTT, "A", 1001, 5001, window=window)
    return wire


def test_at_the_sender(new_wire):
    wire = at_server(new_wire)
    for number in range(4):
        wire.server(100 + number, "A", 5001 + 1000 * number, 1001, FULL)
    wire.client(140, "A", 1001, 7001, window=7_000)
    wire.server(140.1, "A", 9001, 1001, FULL)
    assert rows(wire) == [
        (4, 1000, 8000, 1000),
        (5, 2000, 8000, 2000),
        (6, 3000, 8000, 3000),
        (7, 4000, 8000, 4000),
        (9, 3000, 7000, 4000),
    ]


def test_at_the_receiver_it_is_what_the_sender_can_have_known(new_wire):
    """Acknowledgements are there at once, but have not reached the sender yet."""
    wire = new_wire()
    wire.handshake(0, rtt=RTT, mss=1000, window=8_000, options=2)
    for number in range(4):
        wire.server(100 + number, "A", 5001 + 1000 * number, 1001, FULL)
        wire.client(100.02 + number, "A", 1001, 6001 + 1000 * number, window=8_000)
    wire.server(140.03, "A", 9001, 1001, FULL)  # on the first acknowledgement
    in_flight = [row[1] for row in rows(wire)]
    assert in_flight == [1000, 2000, 3000, 4000, 4000]


def test_a_loss_ends_what_is_known_of_the_congestion_window(new_wire):
    wire = at_server(new_wire, window=60_000)
    for number in range(6):
        wire.server(100 + number / 10, "A", 5001 + 1000 * number, 1001, FULL)
    for copy in range(3):
        at = 140 + copy / 10
        sack = [(7001, 8001 + 1000 * copy)]
        wire.client(at, "A", 1001, 6001, window=60_000, sack=sack, options=16)
    wire.server(140.4, "A", 6001, 1001, FULL)  # the second was lost
    wire.client(181, "A", 1001, 11001, window=60_000)
    wire.server(181.1, "A", 11001, 1001, FULL)
    wire.server(181.2, "A", 12001, 1001, FULL)
    assert [row[3] for row in rows(wire)] == [1000, 2000, 3000, 4000, 5000, 6000, -1, 1000, 2000]


def test_an_idle_time_begins_anew(new_wire):
    wire = at_server(new_wire)
    for number in range(3):
        wire.server(100 + number, "A", 5001 + 1000 * number, 1001, FULL)
    wire.client(140, "A", 1001, 8001, window=8_000)
    wire.server(900, "A", 8001, 1001, FULL)
    assert [row[3] for row in rows(wire)] == [1000, 2000, 3000, 1000]


def test_unknown_scale_and_unknown_way(new_wire):
    wire = new_wire()  # begins in the middle
    wire.server(0, "A", 5001, 1001, FULL)
    wire.client(0.1, "A", 1001, 6001)
    assert rows(wire) == [(1, -1, -1, -1)]
