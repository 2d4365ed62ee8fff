"""The time line of a sender: what limited it, without gaps."""

from __future__ import annotations

import json

import numpy as np
import pytest

from capture_analyzer.model.sender_limits import SENDER_LIMIT_NAMES
from capture_analyzer.pipeline.tcp.senders import sender_tables

MS = 1_000_000
FULL = b"x" * 1000
RTT = 40.0


def line(wire, *, client=False):
    """(limit, from, to in ms, bytes) of one direction."""
    made = wire.analyse()
    _, table, _ = sender_tables(made.packets, made.facts)
    table.complete()
    mine = np.flatnonzero(table.from_client == client)
    assert (table.from_ns[mine[1:]] == table.to_ns[mine[:-1]]).all()
    return [
        (
            SENDER_LIMIT_NAMES[table.limit[i]],
            round(int(table.from_ns[i]) / MS, 1),
            round(int(table.to_ns[i]) / MS, 1),
            int(table.bytes[i]),
        )
        for i in mine
    ]


def at_client(new_wire, window=60_000):
    wire = new_wire()
    wire.handshake(0, rtt=RTT, mss=1000, window=window, options=2)
    return wire


def flight(wire, at, first, count, size=1000, window=60_000):
    """Segments of the server, back to back; the client acknowledges each at once."""
    for number in range(first, first + count):
        when = at + 0.1 * (number - first)
        wire.server(when, "A", 5001 + 1000 * number, 1001, b"x" * size, ttl=57)
        wire.client(when + 0.02, "A", 1001, 5001 + 1000 * number + size, window=window)


def test_slow_start(new_wire):
    """Two flights and the wait between them belong to the congestion window."""
    wire = at_client(new_wire)
    for turn, (first, count) in enumerate(((0, 5), (5, 10), (15, 20))):
        flight(wire, 100 + turn * (RTT + 0.02), first, count)
    assert line(wire) == [
        ("sending", 100.0, 100.4, 4000),
        ("congestion_window", 100.4, 180.0, 11000),
        ("sending", 180.0, 181.9, 19000),
    ]


def test_a_small_window(new_wire):
    wire = at_client(new_wire, window=5_500)
    for turn in range(4):
        flight(wire, 100 + turn * (RTT + 0.02), 5 * turn, 5, window=5_500)
    assert [row[0] for row in line(wire)] == ["sending", "receiver_window", "sending"]


def test_a_program_that_pauses(new_wire):
    """The last segment before the pause was not full."""
    wire = at_client(new_wire)
    flight(wire, 100, 0, 1, size=600)
    wire.server(300, "A", 5601, 1001, b"y" * 600, ttl=57)
    assert line(wire) == [("application", 100.0, 300.0, 600)]


def test_a_pause_behind_a_full_segment(new_wire):
    """All was acknowledged: nothing but the program can have held it up."""
    wire = at_client(new_wire)
    flight(wire, 100, 0, 3)
    flight(wire, 450, 3, 2)
    assert [row[0] for row in line(wire)] == ["sending", "application", "sending"]


def test_a_loss(new_wire):
    """From when the receiver lacked it until its acknowledgement is back at the sender."""
    wire = at_client(new_wire)
    flight(wire, 100, 0, 2)
    for number in range(3, 7):  # the third is missing
        when = 100 + 0.1 * number
        wire.server(when, "A", 5001 + 1000 * number, 1001, FULL, ttl=57)
        sack = [(8001, 6001 + 1000 * number)]
        wire.client(when + 0.02, "A", 1001, 7001, window=60_000, sack=sack, options=16)
    wire.server(141, "A", 7001, 1001, FULL, ttl=57)
    wire.client(141.02, "A", 1001, 12001, window=60_000)
    wire.server(400, "A", 12001, 1001, FULL, ttl=57)
    assert line(wire) == [
        ("sending", 100.0, 100.3, 2000),
        ("recovery", 100.3, 181.0, 3000),
        ("application", 181.0, 400.0, 1000),
    ]


def test_nothing_is_said_where_the_way_is_unknown(new_wire):
    wire = new_wire()
    wire.server(0, "A", 5001, 1001, FULL)
    wire.server(50, "A", 6001, 1001, FULL)
    assert line(wire) == [("unknown", 0.0, 50.0, 1000)]


@pytest.mark.shared
@pytest.mark.parametrize("side", ["client", "server"])
def test_lab(lab, side):
    """What the scenario made is what limited the download most."""
    from capture_analyzer.api import analyze

    expected = {
        "loss/zero-window": "receiver_window",
        "loss/tail-one": "recovery",
        "loss/acks-blackout": "recovery",
        "loss/none": "congestion_window" if side == "server" else None,
        "sse-llm/h1-stall": "application",
        "h2-flowcontrol/late-updates": "application",  # the window is HTTP/2's, not TCP's
        "nagle-delack/client-nagle": "nagle",
    }
    for name, limit in expected.items():
        if limit is None:
            continue
        tables = analyze(lab / name / f"{side}.pcap").tables
        table = tables.sender_limits.complete()
        mine = table.from_client == (limit == "nagle")
        length = table.to_ns - table.from_ns
        sums = np.bincount(table.limit[mine], length[mine], len(SENDER_LIMIT_NAMES))
        names = list(SENDER_LIMIT_NAMES)
        if name in ("nagle-delack/client-nagle", "loss/tail-one"):
            sums[names.index("application")] = 0  # its pauses between requests
        assert names[int(sums.argmax())] == limit, (name, dict(zip(names, sums, strict=True)))


NEVER_LESS = 0.85  # of the sender's congestion window, where that limited it to the end
LIMITED = ("loss/none", "loss/single", "loss/nano", "loss/reorder-large", "loss/rate-limit")
JIFFIES_NS = 25 * MS  # the kernel's own sums run in steps of 4 ms


@pytest.mark.shared
def test_what_the_senders_kernel_says(lab):
    """Against TCP_INFO at the end: its congestion window, and time limited by the receiver's."""
    from capture_analyzer.api import analyze

    windows = compared = 0
    for folder in sorted(lab.glob("*/*")):
        name = f"{folder.parent.name}/{folder.name}"
        rows = [
            row
            for row in json.loads((folder / "truth.json").read_text())["app"]
            if row.get("ev") == "tcp_info" and row["role"] == "server" and "remote" in row
        ]
        tables = analyze(folder / "server.pcap").tables if rows else None
        for row in rows:
            port = int(row["remote"].rsplit(":", 1)[1])
            numbers = [c.connection_no for c in tables.connections if c.client_port == port]
            if len(numbers) != 1:
                continue
            table, line = tables.windows.of(numbers), tables.sender_limits.of(numbers)
            mine = (table.connection_no == numbers[0]) & ~table.from_client
            limited = (line.connection_no == numbers[0]) & ~line.from_client
            limited &= line.limit == SENDER_LIMIT_NAMES.index("receiver_window")
            told = row["info"]["rwnd_limited"] * 1000
            found = int((line.to_ns - line.from_ns)[limited].sum())
            assert abs(found - told) < JIFFIES_NS, (name, found, told)
            compared += 1
            last = int(table.congestion_window_bytes[mine][-1]) if mine.any() else -1
            true = row["info"]["snd_cwnd"] * row["info"]["snd_mss"]
            assert last <= true, (name, last, true)
            if name in LIMITED:
                assert last > NEVER_LESS * true, (name, last, true)
                windows += 1
    assert compared > 20
    assert windows == len(LIMITED)
