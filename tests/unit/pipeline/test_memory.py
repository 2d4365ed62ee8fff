"""What step B and the columns take does not grow where it must not."""

from __future__ import annotations

import gc
import mmap
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from capture_analyzer.model import room as rooms
from capture_analyzer.model.packets import Packets
from capture_analyzer.model.room import Room
from capture_analyzer.pipeline import batches, flows
from capture_analyzer.pipeline.build import build
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.readers import open_captures

CONNECTIONS = 2_000
PACKETS_EACH = 100


def in_a_file(column: NDArray[Any]) -> bool:
    """Whether a column lies in something mapped."""
    base: Any = column
    while isinstance(base, np.ndarray):
        base = base.base
    while isinstance(base, memoryview):
        base = base.obj
    return isinstance(base, mmap.mmap)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200,000 packets: bare ACKs of many connections side by side."""
    path = tmp_path_factory.mktemp("big") / "big.pcap"
    numbers = np.tile(np.arange(CONNECTIONS), PACKETS_EACH)
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
        for at, number in enumerate(numbers.tolist()):
            ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40, at & 0xFFFF, 0, 64, 6, 0, number, 1 << 31)
            tcp = struct.pack(">HHIIBBHHH", 40_000, 443, at, 1, 0x50, 0x10, 512, 0, 0)
            frame = bytes(12) + b"\x08\x00" + ip + tcp
            file.write(struct.pack("<IIII", at // 1000, at % 1000, len(frame), len(frame)) + frame)
    return path


def peak_of(path: Path, room: Room) -> tuple[int, Packets, flows.Flows]:
    """Most bytes allocated (what is mapped does not count), and what came of it."""
    tracemalloc.start()
    try:
        capture = open_captures([path], room=room)
        packets, _ = scan(capture, room=room)
        grouped = group(packets, room)
        return tracemalloc.get_traced_memory()[1], packets, grouped
    finally:
        tracemalloc.stop()


def test_columns_in_files(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = CONNECTIONS * PACKETS_EACH
    at_once, plain, plain_flows = peak_of(big, Room())
    assert not in_a_file(plain.seq)
    monkeypatch.setattr(rooms, "SPILL_PACKETS", 1000)
    monkeypatch.setattr(rooms, "AT_ONCE", 10_000)
    monkeypatch.setattr(rooms, "_SMALL_BYTES", 1)
    monkeypatch.setattr(flows, "SHARE_PACKETS", 10_000)
    peak, packets, grouped = peak_of(big, Room())
    for column in (packets.time_ns, packets.seq, packets.label, packets.payload_offset):
        assert in_a_file(column)
    assert in_a_file(grouped.order)
    assert np.array_equal(grouped.order, plain_flows.order)
    assert np.array_equal(grouped.bounds, plain_flows.bounds)
    assert np.array_equal(packets.connection_no, plain.connection_no)
    # The index of the one file is made in memory; everything behind it in pieces.
    assert at_once > 100 * count
    assert peak < 80 * count


def test_what_finds_no_room_stays_in_memory(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "SPILL_PACKETS", 1000)
    _, packets, grouped = peak_of(big, Room(limit=100))
    assert len(packets) == CONNECTIONS * PACKETS_EACH
    assert len(grouped) == CONNECTIONS


def test_batches_are_of_equal_size_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_PACKETS", 100)
    lengths = [30] * 20 + [500] + [1] * 7
    bounds = np.concatenate(([0], np.cumsum(lengths)))
    order = np.arange(bounds[-1], dtype=np.int32)
    cut = list(batches.cut(flows.Flows(order, bounds, np.ones(len(order), np.bool_))))
    assert [batch.first for batch in cut[:4]] == [0, 3, 6, 9]
    assert max(len(batch.flows.order) for batch in cut if len(batch.flows) > 1) <= 100
    assert np.concatenate([batch.flows.order for batch in cut]).tolist() == order.tolist()
    assert sum(len(batch.flows) for batch in cut) == len(lengths)


@pytest.mark.parametrize("name", ["tls12-no-keys.pcap", "http-keepalive.pcap", "sse-h2.pcap"])
def test_no_array_waits_for_the_garbage_collector(captures: Path, name: str) -> None:
    """The program runs without it: arrays that refer to each other would stay for good."""
    build(open_captures([captures / name]))  # what is imported and cached by the way
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.disable()
    try:
        tables = build(open_captures([captures / name]))
        gc.collect()
        kept = [type(each) for each in gc.garbage if holds_array(each)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert len(tables.packets)
    assert not kept


def holds_array(value: object) -> bool:
    """Whether it refers to an array."""
    return any(isinstance(each, np.ndarray) for each in gc.get_referents(value))
