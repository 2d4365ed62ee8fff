"""Every round-trip sample, and none where it can't be told which copy was acknowledged."""

from __future__ import annotations

import functools
import json

import pytest

from capture_analyzer.model.rtt_samples import RttSamples
from capture_analyzer.pipeline.tcp.samples import add_samples

MS = 1_000_000


def samples(wire):
    """(connection, from client, packet, answer, ms, smoothed ms, by timestamp)."""
    table = RttSamples()
    add_samples(table, packets=wire.analyse().packets)
    columns = (table.connection_no, table.from_client, table.packet_no, table.answer_packet_no)
    times = ((table.rtt_ns / MS).round(3), (table.srtt_ns / MS).round(3))
    every = (*columns, *times, table.by_timestamp)
    return list(zip(*(column.tolist() for column in every), strict=True))


@pytest.fixture
def up(new_wire):
    wire = new_wire()
    wire.handshake(0, rtt=30)
    return wire


def test_all_samples_of_both_directions_smoothed(up):
    for number, rtt in enumerate((40, 24, 48)):
        up.client(100 * number, "A", 1001 + number, 5001, b"a")
        up.server(100 * number + rtt, "A", 5001, 1002 + number)
    up.server(400, "A", 5001, 1004, b"b")
    up.client(401, "A", 1004, 5002)
    assert samples(up) == [
        (0, True, 4, 5, 40, 40, False),
        (0, True, 6, 7, 24, 38, False),
        (0, True, 8, 9, 48, 39.25, False),
        (0, False, 10, 11, 1, 1, False),
    ]


def test_none_where_an_acknowledgement_ends_inside_a_segment(up):
    up.client(100, "A", 1001, 5001, b"abc")
    up.server(120, "A", 5001, 1003)
    assert samples(up) == []


def test_none_where_bytes_were_sent_again(up):
    up.client(100, "A", 1001, 5001, b"abc")
    up.client(400, "A", 1001, 5001, b"abc")
    up.server(430, "A", 5001, 1004)
    assert samples(up) == []


@pytest.mark.parametrize(
    ("echo", "expected"),
    [(10, [(0, True, 4, 6, 330, 330, True)]), (310, [(0, True, 5, 6, 30, 30, True)]), (11, [])],
)
def test_timestamps_tell_copies_apart(up, echo, expected):
    up.client(100, "A", 1001, 5001, b"abc", tsval=10)
    up.client(400, "A", 1001, 5001, b"abc", tsval=310)
    up.server(430, "A", 5001, 1004, tsval=7, tsecr=echo)
    assert samples(up) == expected


def test_copies_with_the_same_timestamp_are_not_told_apart(up):
    up.client(100, "A", 1001, 5001, b"abc", tsval=10)
    up.client(102, "A", 1001, 5001, b"abc", tsval=10)
    up.server(130, "A", 5001, 1004, tsval=7, tsecr=10)
    assert samples(up) == []


def test_by_connection_in_batches(new_wire, monkeypatch):
    monkeypatch.setattr("capture_analyzer.pipeline.tcp.regroup.BATCH_PACKETS", 3)
    wire = new_wire()
    for port, rtt in ((1, 20), (2, 25)):
        wire.client(100, "A", 1001, 5001, b"a", client_port=port)
        wire.server(100 + rtt, "A", 5001, 1002, client_port=port)
    assert samples(wire) == [(0, True, 1, 2, 20, 20, False), (1, True, 3, 4, 25, 25, False)]


def test_only_when_asked_for(up):
    up.client(100, "A", 1001, 5001, b"a")
    up.server(120, "A", 5001, 1002)
    packets = up.analyse().packets
    table = RttSamples(unfinished=functools.partial(add_samples, packets=packets))
    assert len(table) == 0
    assert len(table.complete()) == 1
    assert len(table.complete()) == 1
    assert table.rows_of(0) == slice(0, 1)
    assert table.rows_of(1) == slice(1, 1)


def test_no_packets(new_wire):
    assert samples(new_wire()) == []


@pytest.mark.shared
def test_the_smoothed_round_trip_is_the_kernels(lab):
    """Against TCP_INFO of the sender at the end."""
    from capture_analyzer.api import analyze

    for name in ("none", "single", "nano", "no-timestamps", "reorder-large", "delay-spike"):
        folder = lab / "loss" / name
        told = [
            row["info"]["rtt"]
            for row in json.loads((folder / "truth.json").read_text())["app"]
            if row.get("ev") == "tcp_info" and row["role"] == "server"
        ]
        samples = analyze(folder / "server.pcap").tables.rtt_samples.complete()
        last = samples.srtt_ns[~samples.from_client][-1]
        assert abs(last / 1000 - told[-1]) < 0.01 * told[-1], name
        assert samples.rttvar_ns.min() >= 0
