from __future__ import annotations

import io
import os
import random
import struct
from collections.abc import Callable

import lz4.frame
import pytest
import zstandard

from capture_analyzer.errors import UnsupportedFormatError
from capture_analyzer.readers import open_capture
from capture_analyzer.readers.compression.framed import Framed, Lz4, Zstd

TEXT = b" ".join(b"%d" % random.Random(1).randrange(10**6) for _ in range(40_000)) + os.urandom(9)
RANDOM = random.Random(2).randbytes(300_000)


def zstd(**options) -> Callable[[bytes], bytes]:
    return zstandard.ZstdCompressor(**options).compress


def lz4_with(**options) -> Callable[[bytes], bytes]:
    return lambda data: lz4.frame.compress(data, **options)


KINDS = {
    "zstd": (Zstd, zstd()),
    "zstd with a check sum": (Zstd, zstd(write_checksum=True)),
    "zstd of unknown size": (Zstd, zstd(write_content_size=False)),
    "zstd 19": (Zstd, zstd(level=19, write_checksum=True)),
    "lz4": (Lz4, lz4_with()),
    "lz4 with check sums": (Lz4, lz4_with(content_checksum=True, block_checksum=True)),
    "lz4 of unknown size": (Lz4, lz4_with(store_size=False, block_linked=False)),
    "lz4 in large blocks": (Lz4, lz4_with(block_size=7, compression_level=9)),
}


def unpacked(kind: type[Framed], data: bytes) -> tuple[bytes, str]:
    stream = kind(io.BytesIO(data).read)
    return b"".join(stream), stream.problem


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("text", [TEXT, RANDOM, b"", b"x", b"a" * 3_000_000, bytes(70_000)])
def test_frames_one_after_the_other(name, text):
    kind, compress = KINDS[name]
    packed = compress(text)
    skipped = struct.pack("<II", 0x184D2A55, 7) + b"comment"
    assert unpacked(kind, packed) == (text, "")
    assert unpacked(kind, skipped + packed + skipped + packed) == (text * 2, "")


@pytest.mark.parametrize("name", KINDS)
def test_cut_anywhere(name):
    kind, compress = KINDS[name]
    packed = compress(TEXT)
    sizes = []
    for size in [*range(1, 40), *range(40, len(packed), 1013), len(packed) - 1]:
        got, problem = unpacked(kind, packed[:size])
        assert TEXT.startswith(got)
        assert problem == "truncated"
        sizes.append(len(got))
    assert sizes == sorted(sizes)
    assert sizes[-1] > len(TEXT) // 3


@pytest.mark.parametrize("name", KINDS)
def test_what_comes_before_damage_is_kept(name):
    kind, compress = KINDS[name]
    whole = TEXT * 10
    packed = bytearray(compress(whole))
    rng = random.Random(3)
    seen = set()
    for _ in range(200):
        bad = bytearray(packed)
        at = rng.randrange(4, len(bad))
        bad[at : at + 8] = rng.randbytes(8)
        got, problem = unpacked(kind, bytes(bad))
        seen.add(problem)
        assert len(got) <= 1 << 30
    assert "damaged" in seen or "lz4" in name  # without check sums lz4 takes much for data


@pytest.mark.parametrize("name", KINDS)
def test_trailing_bytes(name):
    kind, compress = KINDS[name]
    packed = compress(b"one")
    for behind in (b"x", b"PK\x03\x04", bytes(100)):
        assert unpacked(kind, packed + behind) == (b"one", "trailing")
    assert unpacked(kind, b"\x28\xb5") == (b"", "truncated")


@pytest.mark.parametrize("name", KINDS)
def test_parts_are_bounded(name):
    kind, compress = KINDS[name]
    stream = kind(io.BytesIO(compress(bytes(30_000_000))).read)
    sizes = [len(part) for part in stream]
    assert max(sizes) <= 4 << 20
    assert sum(sizes) == 30_000_000


def test_windows_that_need_much_memory():
    # Window descriptor: 2^(10 + 18) bytes; then one raw block.
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([18 << 3]) + b"\x19\x00\x00" + b"abc"
    assert unpacked(Zstd, frame) == (b"", "window")
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([17 << 3]) + b"\x19\x00\x00" + b"abc"
    assert unpacked(Zstd, frame) == (b"abc", "")


@pytest.mark.parametrize("number", [0x07, 0x7FFFF9])
def test_impossible_zstd_blocks(number):
    frame = b"\x28\xb5\x2f\xfd\x00\x00" + number.to_bytes(3, "little") + bytes(10)
    assert unpacked(Zstd, frame) == (b"", "damaged")


def test_impossible_lz4_heads():
    whole = lz4.frame.compress(TEXT, store_size=False)
    for at, value in ((4, 0x00), (5, 0x10), (6, whole[6] ^ 1)):
        bad = whole[:at] + bytes([value]) + whole[at + 1 :]
        assert unpacked(Lz4, bad) == (b"", "damaged")
    too_long = whole[:7] + struct.pack("<I", 5 << 20) + whole[11:]
    assert unpacked(Lz4, too_long) == (b"", "damaged")


@pytest.mark.parametrize("name", ["zstd", "lz4"])
def test_compressed_captures(tmp_path, name):
    _, compress = KINDS[name]
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    packets = struct.pack("<IIII", 5, 0, 100, 100) + bytes(100)
    path = tmp_path / "capture"
    path.write_bytes(compress(head + packets * 1000))
    capture = open_capture(path)
    assert len(capture) == 1000
    assert capture.files[0].format == f"pcap+{name}"
    assert capture.anomalies == []
    path.write_bytes(compress(head + packets * 100_000)[:-20])
    capture = open_capture(path)
    assert capture.anomalies[0].code == f"{name}-truncated"
    for content, words in ((b"", "nothing"), (b"text", "not a capture"), (compress(b"x"), "twice")):
        path.write_bytes(compress(content))
        with pytest.raises(UnsupportedFormatError, match=words):
            open_capture(path)
