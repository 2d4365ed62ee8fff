"""Round trips that grow while data flows, and what only looks like it."""

from __future__ import annotations

import pytest

MS = 1_000_000
FULL = b"x" * 1000


def transfer(new_wire, delays, pace=10.0, released=None, stamps=False):
    """A download seen at its server; each segment is acknowledged after its own delay, in ms."""
    wire = new_wire()
    extra = {"tsval": 1, "tsecr": 0} if stamps else {}
    wire.client(0, "S", 1000, mss=1000 + (12 if stamps else 0), options=2, ttl=57, **extra)
    wire.server(0.05, "SA", 5000, 1001, mss=1000, options=2, **extra)
    wire.client(20, "A", 1001, 5001, ttl=57, **extra)
    events = []
    for number, delay in enumerate(delays):
        at = 100 + pace * number
        back = at + delay if released is None else max(at + 20, released)
        events.append((at, 0, number))
        events.append((back, 1, number))
    for at, ack, number in sorted(events):
        if ack:
            wire.client(at, "A", 1001, 5001 + 1000 * (number + 1), ttl=57)
        else:
            wire.server(at, "A", 5001 + 1000 * number, 1001, FULL)
    return wire.analyse().facts.queues


def test_a_queue_that_grows(new_wire):
    queues = transfer(new_wire, [20 + 4 * n for n in range(60)])
    assert len(queues) == 1
    assert not queues.from_client[0]
    assert queues.smallest_ns[0] < 21 * MS
    assert queues.largest_ns[0] == 256 * MS
    assert queues.samples[0] == 35  # from 120 ms on


@pytest.mark.parametrize("delays", [[20 + n for n in range(60)], [300] * 60])
def test_near_miss_small_rise_and_long_path(new_wire, delays):
    if delays[0] == 300:  # the handshake took as long
        queues = transfer(new_wire, [d - 281 + 20 for d in delays])
    else:
        queues = transfer(new_wire, delays)
    assert len(queues) == 0


def test_near_miss_a_spike(new_wire):
    """All is held up for half a second and let go at once."""
    assert len(transfer(new_wire, [20] * 60, released=700)) == 0


def test_near_miss_too_little_data(new_wire):
    assert len(transfer(new_wire, [20 + 40 * n for n in range(12)], pace=30)) == 0


def test_seen_by_echoed_timestamps_at_the_receiver(new_wire):
    """Captured at the client: each segment echoes the acknowledgement that let it go."""
    wire = new_wire()
    wire.client(0, "S", 1000, mss=1012, options=2, tsval=1, tsecr=0)
    wire.server(20, "SA", 5000, 1001, mss=1012, options=2, tsval=900, tsecr=1, ttl=57)
    wire.client(20.05, "A", 1001, 5001, tsval=21, tsecr=900)
    sent, stamp = [(100.0, 101)], 101
    for number in range(60):
        at = 110 + 10 * number
        delay = min(20 + 4 * number, 200)
        known = [value for when, value in sent if when <= at - delay]
        echo = known[-1] if known else 21
        wire.server(
            at, "A", 5001 + 1000 * number, 1001, FULL, tsval=1000 + number, tsecr=echo, ttl=57
        )
        stamp = round(at) + 1
        wire.client(
            at + 0.05, "A", 1001, 5001 + 1000 * (number + 1), tsval=stamp, tsecr=1000 + number
        )
        sent.append((at + 0.05, stamp))
    queues = wire.analyse().facts.queues
    assert len(queues) == 1
    assert not queues.from_client[0]
    assert queues.largest_ns[0] > 190 * MS
    assert queues.smallest_ns[0] < 21 * MS
