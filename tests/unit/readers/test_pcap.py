from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from capture_analyzer.errors import CaptureReadError, UnsupportedFormatError
from capture_analyzer.readers import open_capture

MICRO, NANO = 0xA1B2C3D4, 0xA1B23C4D


def head(order: str = "<", magic: int = MICRO, link: int = 1, snap: int = 65535) -> bytes:
    return struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap, link)


def packet(order: str, second: int, fraction: int, body: bytes, original: int = -1) -> bytes:
    original = len(body) if original < 0 else original
    return struct.pack(order + "IIII", second, fraction, len(body), original) + body


def opened(tmp_path: Path, data: bytes, name: str = "x.pcap"):
    path = tmp_path / name
    path.write_bytes(data)
    return open_capture(path)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit"), [(MICRO, 1000), (NANO, 1)])
def test_times_lengths_and_places(tmp_path, order, magic, unit):
    data = head(order, magic, snap=96) + packet(order, 1_700_000_000, 999_999, b"abc", 1500)
    data += packet(order, 1_700_000_001, 7, b"")
    data += packet(order, 1_699_999_999, 0, b"defgh")
    capture = opened(tmp_path, data)
    assert capture.epoch_ns == 1_700_000_000 * 10**9 + 999_999 * unit
    assert capture.time_ns.tolist() == [
        0,
        10**9 + (7 - 999_999) * unit,
        -(10**9) - 999_999 * unit,
    ]
    assert capture.captured_bytes.tolist() == [3, 0, 5]
    assert capture.original_bytes.tolist() == [1500, 0, 5]
    assert capture.frame_no.tolist() == [1, 2, 3]
    buffer = capture.buffers[0]
    contents = [
        bytes(buffer[at : at + size])
        for at, size in zip(capture.data_offset, capture.captured_bytes, strict=True)
    ]
    assert contents == [b"abc", b"", b"defgh"]
    assert capture.anomalies == []
    (file,) = capture.files
    assert (file.name, file.format, file.packet_count, file.byte_count, file.cut) == (
        "x.pcap",
        "pcap",
        3,
        1505,
        False,
    )
    (interface,) = capture.interfaces
    assert (interface.link_type, interface.snap_length) == (1, 96)
    assert interface.ticks_per_second == 10**9 // unit


def test_the_last_second_of_32_bits_fits(tmp_path):
    data = head() + packet("<", 0, 0, b"") + packet("<", 2**32 - 1, 2**32 - 1, b"")
    capture = opened(tmp_path, data)
    assert capture.time_ns[1] == (2**32 - 1) * 10**9 + (2**32 - 1) * 1000


def test_the_link_type_is_the_low_half_of_its_field(tmp_path):
    capture = opened(tmp_path, head(link=0xF000_0114) + packet("<", 0, 0, b"x"))
    assert capture.interfaces[0].link_type == 276


def test_a_file_without_packets(tmp_path):
    capture = opened(tmp_path, head())
    assert len(capture) == 0
    assert capture.anomalies == []
    assert capture.epoch_ns == 0


@pytest.mark.parametrize("cut", range(1, 21))
def test_a_cut_file_gives_what_is_before_the_cut(tmp_path, cut):
    whole = head() + packet("<", 5, 0, b"abcd") + packet("<", 6, 0, b"efgh")
    capture = opened(tmp_path, whole[:-cut])
    if cut == 20:  # between two packets: nothing is missing
        assert (len(capture), capture.anomalies, capture.files[0].cut) == (1, [], False)
        return
    assert len(capture) == 1
    assert capture.files[0].cut
    (anomaly,) = capture.anomalies
    assert (anomaly.code, anomaly.origin) == ("cut-in-packet", "capture")
    assert "packet 2" in anomaly.detail
    assert "byte 44" in anomaly.detail


@pytest.mark.parametrize("size", [4, 12, 23])
def test_a_file_cut_in_its_header(tmp_path, size):
    capture = opened(tmp_path, head()[:size])
    assert len(capture) == 0
    assert capture.files[0].cut
    assert [a.code for a in capture.anomalies] == ["cut-in-packet"]


@pytest.mark.parametrize("length", [262_145, 2**31, 2**32 - 1])
def test_an_absurd_length_ends_the_file_there(tmp_path, length):
    damaged = struct.pack("<IIII", 6, 0, length, length)
    data = head() + packet("<", 5, 0, b"abcd") + damaged + bytes(300_000)
    capture = opened(tmp_path, data)
    assert len(capture) == 1
    assert not capture.files[0].cut
    (anomaly,) = capture.anomalies
    assert (anomaly.code, anomaly.origin) == ("damaged-file", "capture")
    assert "byte 44" in anomaly.detail
    assert str(length) in anomaly.detail


def test_the_longest_packet_there_is(tmp_path):
    capture = opened(tmp_path, head() + packet("<", 5, 0, bytes(262_144)))
    assert (len(capture), capture.anomalies) == (1, [])


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"just some text, longer than a header", "not a capture file"),
        (b"\x0a\x0d\x0d\x0a" + bytes(60), "not a capture file"),
        (b"\x28\xb5\x2f\xfd" + bytes(9), "zstd"),
        (b"\x04\x22\x4d\x18" + bytes(9), "lz4"),
        (b"snoop\x00\x00\x00" + bytes(9), "snoop"),
        (b"\xd4", "not a capture file"),
    ],
)
def test_what_is_no_capture_is_said_in_a_sentence(tmp_path, start, words):
    with pytest.raises(UnsupportedFormatError, match=words) as caught:
        opened(tmp_path, start)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_an_empty_file(tmp_path):
    with pytest.raises(UnsupportedFormatError, match="empty"):
        opened(tmp_path, b"")


def test_no_such_file_and_a_folder(tmp_path):
    with pytest.raises(CaptureReadError, match="no such file"):
        open_capture(tmp_path / "missing.pcap")
    with pytest.raises(CaptureReadError, match="folder"):
        open_capture(tmp_path)
    with pytest.raises(CaptureReadError, match="nothing in it"):
        open_capture(Path("/dev/null"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all")
def test_no_permission(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(head())
    path.chmod(0)
    with pytest.raises(CaptureReadError, match="permission"):
        open_capture(path)


def test_column_types(tmp_path):
    capture = opened(tmp_path, head(">") + packet(">", 1, 2, b"abc"))
    assert capture.time_ns.dtype == np.int64
    assert capture.data_offset.dtype == np.int64
    assert capture.captured_bytes.dtype == capture.original_bytes.dtype == np.uint32
    assert capture.captured_bytes.dtype.isnative
    assert capture.interface_no.dtype == capture.file_no.dtype == np.uint16
    assert capture.frame_no.dtype == np.int32


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_header_of_a_patched_libpcap(tmp_path, order):
    start = struct.pack(order + "IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 65535, 1)
    more = struct.pack(order + "IHBB", 3, 8, 4, 0)
    made = start + b"".join(
        struct.pack(order + "IIII", 100 + n, n, 50, 60) + more + bytes([n % 256]) * 50
        for n in range(90_000)  # enough for walking in step
    )
    capture = opened(tmp_path, made)
    assert (len(capture), capture.anomalies) == (90_000, [])
    assert capture.time_ns[-1] == 89_999 * 10**9 + 89_999 * 1000
    at = int(capture.data_offset[70_000])
    assert bytes(capture.buffers[0][at : at + 50]) == bytes([70_000 % 256]) * 50
    capture = opened(tmp_path, made[: 24 + 74 + 20])
    assert (len(capture), capture.files[0].cut) == (1, True)
