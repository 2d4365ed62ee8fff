from __future__ import annotations

import gzip
import io
import random
import struct
from pathlib import Path

import pytest

from capture_analyzer.errors import UnsupportedFormatError
from capture_analyzer.readers import open_capture, source, spool
from capture_analyzer.readers.compression.gzip import Gunzip


def pcap(count: int, size: int = 100) -> bytes:
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    return head + b"".join(
        struct.pack("<IIII", i, 0, size, size) + bytes([i % 251]) * size for i in range(count)
    )


def gunzip(data: bytes) -> tuple[bytes, str]:
    stream = Gunzip(io.BytesIO(data).read)
    return b"".join(stream), stream.problem


def opened(tmp_path: Path, data: bytes):
    path = tmp_path / "named-otherwise"
    path.write_bytes(data)
    return open_capture(path)


def test_members_one_after_the_other():
    data = gzip.compress(b"one") + gzip.compress(b"") + bytes(512) + gzip.compress(b"two")
    assert gunzip(data + bytes(7)) == (b"onetwo", "")


@pytest.mark.parametrize("cut", [1, 4, 8, 9, 20])
def test_truncated(cut):
    text = bytes(range(256)) * 10
    got, problem = gunzip(gzip.compress(text)[:-cut])
    assert problem == "truncated"
    assert text.startswith(got)
    assert got == text or cut > 8


def test_damaged_in_the_middle_and_in_the_check_sum():
    text = b" ".join(b"%d" % random.Random(i).randrange(10**9) for i in range(20_000))
    packed = bytearray(gzip.compress(text))
    packed[-6] ^= 1
    assert gunzip(bytes(packed)) == (text, "damaged")
    packed = bytearray(gzip.compress(text))
    packed[70_000:70_100] = b"\xff" * 100
    got, problem = gunzip(bytes(packed))
    assert problem == "damaged"
    assert got != text
    assert got[:100_000] == text[:100_000]


def test_trailing_bytes():
    assert gunzip(gzip.compress(b"one") + b"PK") == (b"one", "trailing")
    assert gunzip(gzip.compress(b"one") + b"\x1f") == (b"one", "trailing")


def test_parts_are_bounded():
    stream = Gunzip(io.BytesIO(gzip.compress(bytes(50_000_000))).read)
    sizes = [len(part) for part in stream]
    assert max(sizes) <= 1 << 20
    assert sum(sizes) == 50_000_000


@pytest.mark.parametrize("count", [3, 60_000])  # in memory, and in a temporary file
def test_a_compressed_capture(tmp_path, count):
    capture = opened(tmp_path, gzip.compress(pcap(count), 1))
    assert len(capture) == count
    assert capture.files[0].format == "pcap+gzip"
    at = int(capture.data_offset[count - 1])
    assert bytes(capture.buffers[0][at : at + 100]) == bytes([(count - 1) % 251]) * 100
    assert capture.anomalies == []


def test_a_truncated_one_gives_what_there_is(tmp_path):
    data = gzip.compress(pcap(60_000), 1)
    capture = opened(tmp_path, data[: len(data) // 2])
    assert 10_000 < len(capture) < 50_000
    assert capture.anomalies[0].code == "gzip-truncated"


def test_the_limit_of_a_spool(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "IN_MEMORY_BYTES", 1000)
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(pcap(100)))
    size = 24 + 50 * 116 + 7
    opened_source = source.open_source(path, spool=spool.Spool(size))
    assert len(opened_source.buffer) == size
    assert [a.code for a in opened_source.anomalies] == ["spool-limit"]
    room = spool.Spool(24 + 100 * 116 + 10)
    whole = source.open_source(path, spool=room)
    assert whole.anomalies == []
    assert bytes(whole.buffer) == pcap(100)
    second = source.open_source(path, spool=room)  # the limit is for all files together
    assert (len(second.buffer), second.anomalies[0].code) == (10, "spool-limit")


def test_nothing_in_it(tmp_path):
    with pytest.raises(UnsupportedFormatError, match="nothing"):
        opened(tmp_path, gzip.compress(b""))
    with pytest.raises(UnsupportedFormatError, match="not a capture"):
        opened(tmp_path, gzip.compress(b"some text"))
    with pytest.raises(UnsupportedFormatError, match="twice"):
        opened(tmp_path, gzip.compress(gzip.compress(pcap(1))))
    with pytest.raises(UnsupportedFormatError, match="nothing"):
        opened(tmp_path, b"\x1f\x8b\x08\x00")
