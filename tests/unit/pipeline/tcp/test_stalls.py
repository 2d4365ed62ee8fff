"""Silences of connections: how long they must be, and their causes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from capture_analyzer.model.stalls import PARTIES, STALL_NAMES, STALLS
from capture_analyzer.pipeline.tcp.senders import sender_tables

MS = 1_000_000
FULL = b"x" * 1000
RTT = 40.0


def stalls(wire):
    """(cause, from, to in ms, direction) of each silence."""
    made = wire.analyse()
    _, _, table = sender_tables(made.packets, made.facts)
    table.complete()
    for i in range(len(table)):
        party = STALLS[STALL_NAMES[table.cause[i]]][0]
        assert PARTIES[table.party[i]] == party
    return [
        (
            STALL_NAMES[table.cause[i]],
            round(int(table.from_ns[i]) / MS),
            round(int(table.to_ns[i]) / MS),
            "c" if table.from_client[i] else "s",
        )
        for i in range(len(table))
    ]


def at_server(new_wire, window=60_000, **more):
    """A connection seen at its server, MSS 1000, 40 ms away."""
    wire = new_wire()
    wire.client(0, "S", 1000, mss=1000, window=window, options=10, **more)
    wire.server(0.02, "SA", 5000, 1001, mss=1000, window=window, options=10)
    wire.client(RTT, "A", 1001, 5001, window=window)
    return wire


def flight(wire, at, first, count):
    for number in range(first, first + count):
        wire.server(at + number / 100, "A", 5001 + 1000 * number, 1001, FULL)


@pytest.mark.parametrize(("wait", "there"), [(79, False), (81, True)])
def test_two_round_trips(new_wire, wait, there):
    wire = at_server(new_wire)
    wire.client(RTT + wait, "A", 1001, 5001, b"GET", window=60_000)
    assert bool(stalls(wire)) == there


def test_turns(new_wire):
    """Who had not spoken last is whose turn it was."""
    wire = at_server(new_wire)
    wire.client(300, "A", 1001, 5001, b"GET", window=60_000)
    wire.server(300.1, "A", 5001, 1004)
    wire.server(600, "A", 5001, 1004, b"answer")
    wire.client(641, "A", 1004, 5007, window=60_000)
    wire.server(900, "A", 5007, 1004, b"more")
    wire.client(941, "A", 1004, 5011, window=60_000)
    wire.client(1200, "A", 1004, 5011, b"GET", window=60_000)
    wire.server(1200.1, "A", 5011, 1007)
    wire.client(1500, "A", 1007, 5011, b"again", window=60_000)
    assert [row[0] for row in stalls(wire)] == [
        "client_idle",
        "server_think",
        "server_pause",
        "client_idle",
        "client_pause",
    ]


def test_timers(new_wire):
    """The tail is probed for, then the timer repeats it, then once more."""
    wire = at_server(new_wire)
    flight(wire, 100, 0, 5)
    wire.client(141, "A", 1001, 9001, window=60_000)
    wire.server(400, "A", 9001, 1001, FULL)
    wire.server(700, "A", 9001, 1001, FULL)
    wire.server(1300, "A", 9001, 1001, FULL)
    wire.client(1341, "A", 1001, 10001, window=60_000)
    assert stalls(wire) == [
        ("tail_probe", 141, 400, "s"),
        ("timeout_again", 400, 700, "s"),
        ("timeout_again", 700, 1300, "s"),
    ]


def test_a_timer_with_few_in_flight(new_wire):
    """Without SACK there is no probe; the first of three was lost."""
    wire = new_wire()
    wire.client(0, "S", 1000, mss=1000, window=60_000, options=2)
    wire.server(0.02, "SA", 5000, 1001, mss=1000, window=60_000, options=2)
    wire.client(RTT, "A", 1001, 5001, window=60_000)
    flight(wire, 100, 0, 3)
    for copy in range(2):
        wire.client(140 + copy / 10, "A", 1001, 5001, window=60_000)
    wire.server(400, "A", 5001, 1001, FULL)
    wire.client(440.5, "A", 1001, 8001, window=60_000)
    assert stalls(wire) == [("timeout_small_flight", 140, 400, "s")]


def test_a_closed_window(new_wire):
    wire = at_server(new_wire, window=2_000)
    flight(wire, 100, 0, 2)
    wire.client(141, "A", 1001, 7001, window=0)
    wire.client(500, "A", 1001, 7001, window=2_000)
    wire.server(500.1, "A", 7001, 1001, FULL)
    wire.client(541, "A", 1001, 8001, window=1_000)
    assert stalls(wire) == [("zero_window", 141, 500, "s")]


def test_a_syn_that_was_lost(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000, mss=1000, options=2)
    wire.client(1010, "S", 1000, mss=1000, options=2)
    wire.server(1050, "SA", 5000, 1001, mss=1000, options=2)
    wire.client(1050.1, "A", 1001, 5001)
    assert stalls(wire) == [("handshake", 0, 1010, "c")]


def test_keep_alives_are_idle(new_wire):
    wire = at_server(new_wire)
    wire.client(100, "A", 1001, 5001, b"GET", window=60_000)
    wire.server(100.1, "A", 5001, 1004, b"answer")
    wire.client(141, "A", 1004, 5007, window=60_000)
    wire.server(1000, "A", 5006, 1004)
    wire.client(1041, "A", 1004, 5007, window=60_000)
    assert stalls(wire) == [("idle", 141, 1000, "c")]


def test_where_no_round_trip_is_known_a_second_counts(new_wire):
    wire = new_wire()
    for at in (0, 900, 2000):
        wire.server(at, "A", 5001 + at, 1001, b"x" * 900)
        wire.server(at + 0.1, "A", 5901 + at, 1001, b"x" * (1 if at == 0 else 200))
    assert [row[1:] for row in stalls(wire)] == [(900, 2000, "s")]


@pytest.mark.shared
@pytest.mark.parametrize("side", ["client", "server"])
def test_lab(lab, side):
    """Timers and probes that the sender's kernel counted are causes of a silence."""
    from capture_analyzer.api import analyze

    of = {
        "TLP": {"tail_probe"},
        "RTO": {"timeout", "timeout_tail", "timeout_again", "timeout_small_flight"},
    }
    held = 0
    for folder in sorted(lab.glob("*/*")):
        truth = json.loads((folder / "truth.json").read_text())
        rows = {
            row[f"{side}_frame"]: row
            for flow in truth["flows"]
            if flow["proto"] == "tcp"
            for way in ("c2s", "s2c")
            for row in flow[way]["retransmissions"]
            if row.get(f"{side}_frame") and row["mechanism"].split()[0] in of
        }
        if not rows:
            continue
        table = analyze(folder / f"{side}.pcap").tables.stalls.complete()
        causes = dict(zip(table.to_packet_no.tolist(), table.cause.tolist(), strict=True))
        for number, row in rows.items():
            if number not in causes:
                continue  # other packets came in the meantime
            held += 1
            expected = of[row["mechanism"].split()[0]] if row["needed"] else {"repeat_needless"}
            assert STALL_NAMES[causes[number]] in expected, (folder.name, number)
    assert held >= 6


def test_the_order_of_rows(new_wire):
    wire = at_server(new_wire)
    for turn in range(3):
        wire.client(300 * (turn + 1), "A", 1001 + 3 * turn, 5001, b"GET", window=60_000)
        wire.server(300 * (turn + 1) + 0.1, "A", 5001, 1004 + 3 * turn)
    made = wire.analyse()
    _, _, table = sender_tables(made.packets, made.facts)
    assert len(table) == 0  # until it is asked for
    table.complete()
    assert (np.diff(table.from_ns) > 0).all()
    assert table.rows_of(0) == slice(0, 3)
