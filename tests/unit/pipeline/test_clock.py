"""Steps of the capture's clock: backwards, and against the hosts' timestamps."""

from __future__ import annotations

import re

import pytest

from capture_analyzer.pipeline.clock import find_clock_steps

MS = 1_000_000


def steps(wire):
    analysed = wire.analyse()
    rows = find_clock_steps(analysed.packets, analysed.facts.connections)
    assert {(row.code, row.origin) for row in rows} <= {("clock-step", "capture")}
    sizes = []
    for row in rows:
        found = re.search(r"set (back|ahead) by ([\d,]+) ms", row.detail)
        assert found
        size = int(found[2].replace(",", ""))
        sizes.append((row.packet_no, -size if found[1] == "back" else size))
    return sizes


def polls(new_wire, step_ms, at=600.0, stamps=True, jitter=()):
    """A request each 30 ms, seen at the client, whose clock steps once."""
    wire = new_wire()
    extra = {"tsval": 0, "tsecr": 0} if stamps else {}
    wire.handshake(0, rtt=20, **extra)
    seq, ack = 1001, 5001
    for turn in range(40):
        true = 100 + 30 * turn + (jitter[turn % len(jitter)] if jitter else 0)
        shown = true + (step_ms if true > at else 0)
        mine = {"tsval": round(true) + 7, "tsecr": 5} if stamps else {}
        other = {"tsval": round(true) + 900, "tsecr": 5} if stamps else {}
        wire.client(shown, "PA", seq, ack, b"q" * 50, **mine)
        seq += 50
        wire.server(shown + 20, "PA", ack, seq, b"a" * 80, ttl=57, **other)
        ack += 80
    return wire


def test_set_ahead(new_wire):
    ((packet, size),) = steps(polls(new_wire, 300))
    assert abs(size - 300) <= 3
    assert packet == 38  # the first request behind the step


def test_set_back_a_little(new_wire):
    """Less than the time between two packets: only the timestamps show it."""
    ((_, size),) = steps(polls(new_wire, -18, at=605))
    assert abs(size + 18) <= 3


def test_set_back_without_timestamps(new_wire):
    ((packet, size),) = steps(polls(new_wire, -400, stamps=False))
    assert packet == 38
    assert -400 < size < -370


def test_near_miss_ahead_without_timestamps_is_a_pause(new_wire):
    assert steps(polls(new_wire, 300, stamps=False)) == []


def test_near_miss_none(new_wire):
    assert steps(polls(new_wire, 0)) == []


def test_near_miss_a_busy_host(new_wire):
    """Some requests are sent a little late, as its timestamps say."""
    assert steps(polls(new_wire, 0, jitter=(0, 4, 1, 0, 7))) == []


def test_near_miss_packets_out_of_order(new_wire):
    """A capture of several queues: the next ones are in place again."""
    wire = polls(new_wire, 0)
    for at in range(10, 70, 9):
        wire.rows[at], wire.rows[at + 1] = wire.rows[at + 1], wire.rows[at]
    assert steps(wire) == []


@pytest.mark.parametrize("count", [0, 1, 3])
def test_few_packets(new_wire, count):
    wire = new_wire()
    for number in range(count):
        wire.client(10 - number, "A", 1, 1, tsval=5, tsecr=5)
    assert steps(wire) == []
