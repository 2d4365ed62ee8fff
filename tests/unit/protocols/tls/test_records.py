"""The walk over TLS records."""

from __future__ import annotations

import random

import numpy as np
import pytest

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.protocols.tls import records
from capture_analyzer.protocols.tls import walk as walk_module
from capture_analyzer.protocols.tls.records import Chunks, evidence, walk, walk_rows


def record(kind: int, size: int, fill: int = 0xAA) -> bytes:
    return bytes((kind, 3, 3)) + size.to_bytes(2, "big") + bytes([fill]) * size


def join(streams) -> Chunks:
    """Streams as rows; each keeps its own buffer."""
    return Chunks(
        bounds=np.cumsum([0, *(len(s) for s in streams)]),
        starts=np.concatenate([s.starts for s in streams]),
        lengths=np.concatenate([s.lengths for s in streams]),
        packet_nos=np.concatenate([s.packet_nos for s in streams]),
        seen_ns=np.concatenate([s.seen_ns for s in streams]),
        in_order_ns=np.concatenate([s.in_order_ns for s in streams]),
        buffer_nos=np.concatenate([np.full(len(s), n, np.uint16) for n, s in enumerate(streams)]),
        buffer_offsets=np.concatenate([s.buffer_offsets for s in streams]),
        buffers=[s.buffers[0] for s in streams],
    )


def test_records_in_one_and_over_several_packets(make_stream):
    data = record(22, 100) + record(20, 1) + record(23, 3000)
    stream = make_stream([(10, 1, data[:150]), (20, 4, data[150:1500]), (35, 5, data[1500:])])
    table = walk(stream)
    assert table.offset.tolist() == [0, 105, 111]
    assert table.length.tolist() == [100, 1, 3000]
    assert table.content_type.tolist() == [22, 20, 23]
    assert table.first_packet_no.tolist() == [1, 1, 1]
    assert table.last_packet_no.tolist() == [1, 1, 5]
    assert table.seen_ns.tolist() == [10, 10, 10]
    assert table.complete_ns.tolist() == [10, 10, 35]
    assert table.complete.tolist() == [True, True, True]


@pytest.mark.parametrize("cut", range(1, 5))
def test_header_may_lie_in_two_packets(make_stream, cut):
    data = record(23, 50) + record(23, 60)
    stream = make_stream([(1, 1, data[: 55 + cut]), (2, 2, data[55 + cut :])])
    table = walk(stream)
    assert table.offset.tolist() == [0, 55]
    assert table.first_packet_no.tolist() == [1, 1]
    assert table.last_packet_no.tolist() == [1, 2]


def test_header_in_five_packets_of_one_byte(make_stream):
    data = record(23, 2) + record(23, 3)
    stream = make_stream([(n, n, data[n : n + 1]) for n in range(len(data))])
    assert walk(stream).length.tolist() == [2, 3]


def test_record_cut_by_the_end_of_the_capture(make_stream):
    data = record(23, 50) + record(23, 1000)
    stream = make_stream([(1, 1, data[:500])], end=len(data))
    table = walk(stream)
    assert table.length.tolist() == [50, 1000]
    assert table.complete.tolist() == [True, False]
    assert table.complete_ns.tolist() == [1, NO_TIME]


def test_gap_inside_a_record_costs_no_boundary(make_stream):
    data = record(23, 3000)
    stream = make_stream([(1, 1, data[:1000]), (0, 0, 1000), (3, 3, data[2000:] + record(23, 9))])
    chunks = Chunks.of(stream)
    walked = walk_rows(chunks, np.zeros(1, np.int64))
    assert walked.length.tolist() == [3000, 9]
    assert walked.complete.tolist() == [False, True]
    assert walked.lost == []
    assert walk(stream).complete_ns.tolist() == [3, 3]


def test_gap_over_a_header_is_resynchronised(make_stream):
    data = record(23, 1000) + record(23, 1000) + record(23, 40) + record(23, 41)
    stream = make_stream([(1, 1, data[:900]), (0, 0, 300), (3, 3, data[1200:])])
    walked = walk_rows(Chunks.of(stream), np.zeros(1, np.int64))
    assert walked.offset.tolist() == [0, 2010, 2055]
    (lost,) = walked.lost
    assert (lost.offset, lost.found, lost.packet_no, lost.gap) == (1005, 2010, 3, True)


def test_lone_header_look_alike_is_not_taken(make_stream):
    fake = record(23, 700)[:5]
    data = bytes(50) + fake + bytes(100) + record(23, 30) + record(23, 31)
    stream = make_stream([(1, 1, data)], begins_mid_stream=True)
    walked = walk_rows(Chunks.of(stream), np.zeros(1, np.int64))
    assert walked.offset.tolist() == [155, 190]


def test_stream_that_begins_in_mid_record(make_stream):
    data = record(23, 16000)[9000:] + record(23, 20) + record(23, 21)
    stream = make_stream([(1, 1, data)], begins_mid_stream=True)
    walked = walk_rows(Chunks.of(stream), np.zeros(1, np.int64))
    assert walked.length.tolist() == [20, 21]
    assert [lost.gap for lost in walked.lost] == [False]


def test_record_longer_than_allowed_is_no_record(make_stream):
    stream = make_stream([(1, 1, record(23, records.MAX_FRAGMENT + 1))])
    assert len(walk(stream)) == 0
    stream = make_stream([(1, 1, record(23, records.MAX_FRAGMENT))])
    assert len(walk(stream)) == 1


def test_garbage_is_given_up_in_bounded_time(make_stream):
    unit = record(23, 0) + record(23, 0) + b"x"
    stream = make_stream([(1, 1, unit * 5000)])
    walked = walk_rows(Chunks.of(stream), np.zeros(1, np.int64))
    assert len(walked.lost) == records.MAX_LOST + 1
    assert walked.lost[-1].found is None


def test_empty_stream(make_stream):
    assert len(walk(make_stream([]))) == 0


def test_evidence(make_stream):
    def score(data):
        return evidence(make_stream([(1, 1, data)], begins_mid_stream=True))

    three = record(23, 100) + record(23, 100) + record(23, 100)
    assert score(three[50:] + record(23, 10)) >= 3
    assert score(record(23, 100)) == 2
    assert score(record(23, 100)[:50]) == 0
    assert score(record(23, 100) + b"no record behind it") == 0
    assert score(random.Random(1).randbytes(200_000)) == 0
    assert score(b"\x17\x03\x03" * 5000) < 3


def _random_stream(make_stream, rng: random.Random):
    data = b"".join(
        record(rng.choice((20, 21, 22, 23, 23, 23)), rng.choice((0, 1, 40, 300, 5000, 16400)))
        for _ in range(rng.randrange(1, 30))
    )
    if rng.random() < 0.3:
        at = rng.randrange(len(data))
        data = data[:at] + rng.randbytes(rng.randrange(1, 40)) + data[at:]
    if rng.random() < 0.3:
        data = data[rng.randrange(len(data)) :]
    pieces = []
    at, number = 0, 1
    while at < len(data):
        size = rng.choice((1, 3, 5, 100, 1448, 1448, 1448, 9000))
        if rng.random() < 0.05:
            pieces.append((0, 0, min(size, len(data) - at)))
        else:
            pieces.append((number * 7, number, data[at : at + size]))
        number += 1
        at += size
    return make_stream(pieces)


@pytest.mark.parametrize("seed", range(20))
def test_lockstep_finds_what_the_loop_finds(make_stream, monkeypatch, seed):
    rng = random.Random(seed)
    chunks = join([_random_stream(make_stream, rng) for _ in range(60)])
    rows = np.arange(60)
    monkeypatch.setattr(walk_module, "_LOCKSTEP_MIN", 10**9)
    one_by_one = walk_rows(chunks, rows)
    monkeypatch.setattr(walk_module, "_LOCKSTEP_MIN", 2)
    lockstep = walk_rows(chunks, rows)
    for name in ("row", "offset", "length", "content_type", "first_chunk", "last_chunk"):
        assert np.array_equal(getattr(one_by_one, name), getattr(lockstep, name)), name
    assert np.array_equal(one_by_one.complete, lockstep.complete)
    key = lambda lost: (lost.row, lost.offset)  # noqa: E731
    assert sorted(one_by_one.lost, key=key) == sorted(lockstep.lost, key=key)
    assert len(one_by_one.row) > 300
