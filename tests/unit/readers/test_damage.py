"""Whatever is in a file, nothing but the errors a caller knows comes out."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

import pytest

from capture_analyzer.errors import CaptureAnalyzerError
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.readers import open_capture


def frames() -> list[bytes]:
    tcp = (
        struct.pack(">HHIIBBHHH", 1, 2, 3, 4, 0x80, 0x18, 5, 0, 0) + b"\x01\x01\x08\x0a" + bytes(8)
    )
    ip4 = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp) + 9, 7, 0, 60, 6, 0) + bytes(8) + tcp
    ip6 = struct.pack(">IHBB", 6 << 28, 8 + len(tcp), 0, 61) + bytes(32) + b"\x06" + bytes(7) + tcp
    udp = struct.pack(">BBHHHBBH", 0x46, 0, 40, 7, 0, 60, 17, 0) + bytes(12) + bytes(16)
    vlan = b"\x81\x00\x00\x01\x08\x00"
    return [
        bytes(12) + b"\x08\x00" + ip4 + b"\x16\x03\x01 data",
        bytes(12) + vlan + ip4,
        bytes(12) + b"\x86\xdd" + ip6,
        bytes(12) + b"\x08\x00" + udp,
    ]


def pcap() -> bytes:
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    for number, frame in enumerate(frames()):
        parts.append(struct.pack("<IIII", 5, number, len(frame), len(frame)) + frame)
    return b"".join(parts)


def pcapng() -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    section += block(1, struct.pack("<HHI", 1, 0, 0) + b"\x09\x00\x01\x00\x09\0\0\0" + bytes(4))
    for number, frame in enumerate(frames()):
        head = struct.pack("<IIIII", 0, 0, number, len(frame), len(frame))
        section += block(6, head + frame)
    section += block(3, struct.pack("<I", 60) + bytes(60))
    section += block(5, struct.pack("<III", 0, 0, 0) + b"\x04\x00\x08\x00" + bytes(12))
    section += block(10, struct.pack("<II", 0x544C534B, 5) + b"hello")
    return section * 2


def mutated(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(made))
        kind = rng.randrange(5)
        if kind == 0:
            made[at] = rng.randrange(256)
        elif kind == 1:
            made[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", bytes(4), b"\x00\x00\x00\x80"))
        elif kind == 2:
            del made[at : at + rng.randrange(1, 30)]
        elif kind == 3:
            made[at:at] = rng.randbytes(rng.randrange(1, 30))
        else:
            made[at] ^= 1 << rng.randrange(8)
        if not made:
            break
    return bytes(made[: rng.randrange(len(made) + 1)] if rng.random() < 0.2 else made)


def survives(path: Path) -> int:
    """Opens and decodes; returns the number of packets, -1 if it is refused."""
    try:
        capture = open_capture(path)
    except CaptureAnalyzerError:
        return -1
    packets, anomalies = scan(capture)
    assert len(packets) == len(capture) == capture.files[0].packet_count
    size = len(capture.buffers[0])
    ends = capture.data_offset + capture.captured_bytes
    assert (ends <= size).all()
    payload_ends = packets.payload_offset + packets.payload_captured
    assert (payload_ends[packets.payload_captured > 0] <= size).all()
    assert (packets.payload_captured <= packets.payload_bytes).all()
    undecoded = int(((packets.protocol != 6) & (packets.protocol != 17)).sum())
    assert sum(a.count for a in anomalies) == undecoded
    return len(capture)


@pytest.mark.parametrize("wrapping", ["plain", "gzip"])
@pytest.mark.parametrize("container", [pcap, pcapng])
def test_mutated_files(tmp_path, container, wrapping):
    rng = random.Random(f"{container.__name__} {wrapping}")
    whole = container()
    path = tmp_path / "x"
    counts = set()
    for _ in range(400):
        data = mutated(whole, rng)
        if wrapping == "gzip":
            data = mutated(gzip.compress(data, 1), rng)
        path.write_bytes(data)
        counts.add(survives(path))
    assert len(counts) > 3  # refused, some and all packets: the mutations do matter


@pytest.mark.parametrize("container", [pcap, pcapng])
def test_every_length_of_a_cut_file(tmp_path, container):
    whole = container()
    path = tmp_path / "x"
    counts = []
    for size in range(0, len(whole) + 1, 3):
        path.write_bytes(whole[:size])
        counts.append(survives(path))
    assert counts == sorted(counts)
    assert counts[0] == -1


@pytest.mark.shared
def test_damaged_captures_of_others(corpus):
    assert max(survives(path) for path in sorted((corpus / "corrupt").iterdir())) == 24
