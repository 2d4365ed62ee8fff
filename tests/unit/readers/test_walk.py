"""The walk in step gives what the plain walk gives, whatever the bytes look like."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from capture_analyzer.readers import pcap, walk
from capture_analyzer.readers.pcapng import blocks
from capture_analyzer.wire.windows import Offsets, Windows


def record(order: str, body: bytes, second: int = 1_700_000_000) -> bytes:
    return struct.pack(order + "IIII", second, 999, len(body), len(body)) + body


def pcap_bytes(order: str, bodies: list[bytes]) -> bytes:
    head = struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
    return head + b"".join(record(order, body) for body in bodies)


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def plain(data: bytes, records: walk.Records, at: int) -> tuple[list[int], int]:
    found = []
    while at < len(data):
        following = records.following(at)
        if following < 0:
            break
        found.append(at)
        at = following
    return found, at


def walked(windows: Windows, records: walk.Records, start: int, report) -> tuple[Offsets, int]:
    """Where records begin, and where the walk ended; their headers are those that lie there."""
    found = walk.walk(windows, records, start, report)
    assert found.heads.tolist() == records.heads(found.offsets).tolist()
    return found.offsets, found.end


@pytest.fixture
def in_step(monkeypatch):
    """Makes small files be walked in step, by many chains."""
    monkeypatch.setattr(walk, "LOCKSTEP_BYTES", 4096)
    monkeypatch.setattr(walk, "CHAIN_BYTES", 1024)
    monkeypatch.setattr(walk, "MAX_CHAINS", 200)
    monkeypatch.setattr(walk, "FEW", 2)


def bodies(seed: int, count: int, decoys: bool) -> list[bytes]:
    """Random packets; with decoys some hold what looks like records that follow each other."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        size = rng.choice((0, 1, 40, 66, 600, 1514))
        if decoys and rng.random() < 0.5:
            inner = b"".join(record("<", bytes(rng.randrange(1, 90))) for _ in range(12))
            made.append(rng.randbytes(rng.randrange(40)) + inner + rng.randbytes(3))
        else:
            made.append(bytes(size) if rng.random() < 0.3 else rng.randbytes(size))
    return made


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("decoys", [False, True])
def test_pcap_in_step(in_step, seed, decoys):
    data = pcap_bytes("<", bodies(seed, 400, decoys))
    records = pcap._Packets(Windows(data), "<", 1_000_000)
    expected, expected_end = plain(data, records, 24)
    found, end = walked(Windows(data), records, 24, lambda done: None)
    assert found.tolist() == expected
    assert end == expected_end == len(data)


def test_chains_are_really_used(in_step):
    data = pcap_bytes(">", [bytes(60)] * 2000)
    records = pcap._Packets(Windows(data), ">", 1_000_000)
    starts = walk._beginnings(Windows(data), records, 24)
    assert len(starts) > 50
    assert set((starts - 24) % 76) == {0}


def test_decoys_do_mislead_the_search(in_step):
    """So that the test above tests the way back."""
    data = pcap_bytes("<", bodies(3, 400, decoys=True))
    records = pcap._Packets(Windows(data), "<", 1_000_000)
    true = set(plain(data, records, 24)[0])
    assert any(start not in true for start in walk._beginnings(Windows(data), records, 24).tolist())


@pytest.mark.parametrize("seed", range(8))
def test_damage_stops_the_walk_where_it_stops_the_plain_one(in_step, seed):
    rng = random.Random(seed)
    data = bytearray(pcap_bytes("<", bodies(seed, 400, decoys=seed % 2 == 1)))
    records = pcap._Packets(Windows(bytes(data)), "<", 1_000_000)
    at = rng.choice(plain(bytes(data), records, 24)[0])
    data[at + 8 : at + 12] = rng.choice((b"\xff\xff\xff\xff", b"\x01\x01\x00\x00", bytes(4)))
    records = pcap._Packets(Windows(bytes(data)), "<", 1_000_000)
    found, end = walked(Windows(bytes(data)), records, 24, lambda done: None)
    expected, expected_end = plain(bytes(data), records, 24)
    assert found.tolist() == expected
    assert end == expected_end


@pytest.mark.parametrize("cut", [1, 15, 16, 17, 500])
def test_a_cut_file(in_step, cut):
    data = pcap_bytes("<", bodies(5, 300, decoys=False))[:-cut]
    records = pcap._Packets(Windows(data), "<", 1_000_000)
    found, end = walked(Windows(data), records, 24, lambda done: None)
    assert (found.tolist(), end) == plain(data, records, 24)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_in_step_up_to_the_next_section(in_step, order):
    rng = random.Random(7)
    parts = []
    for _ in range(500):
        body = rng.randbytes(rng.choice((0, 60, 1400)))
        if rng.random() < 0.2:
            inner = block(order, 6, bytes(20) + rng.randbytes(40))
            body += bytes(-len(body) % 4) + inner * 5
        size = struct.pack(order + "II", len(body), len(body))
        parts.append(block(order, rng.choice((6, 6, 6, 5, 99)), bytes(12) + size + body))
    first = b"".join(parts)
    data = first + block(order, blocks.SECTION_HEADER, bytes(16)) + first
    records = blocks.Blocks(Windows(data), order)
    found, end = walked(Windows(data), records, 0, lambda done: None)
    assert end == len(first)
    assert (found.tolist(), end) == plain(data, records, 0)


def test_progress_is_told(in_step):
    data = pcap_bytes("<", [bytes(20)] * 20_000)
    told: list[int] = []
    records = pcap._Packets(Windows(data), "<", 1_000_000)
    walk.walk(Windows(data), records, 24, told.append)
    assert told
    assert told == sorted(told)
    assert told[-1] <= len(data)


def test_both_forms_of_a_step_agree():
    rng = np.random.default_rng(1)
    data = rng.integers(0, 4, 5000, np.uint8).tobytes()
    for records in (
        pcap._Packets(Windows(data), "<", 1_000_000),
        pcap._Packets(Windows(data), ">", 1_000_000),
        blocks.Blocks(Windows(data), "<"),
        blocks.Blocks(Windows(data), ">"),
    ):
        at = np.arange(len(data), dtype=np.int64)
        assert records.all_following(at, records.heads(at)).tolist() == [
            records.following(i) for i in at.tolist()
        ]
