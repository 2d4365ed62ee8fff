from __future__ import annotations

import struct
from pathlib import Path

import pytest

from capture_analyzer.errors import UnsupportedFormatError
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.readers import open_capture
from capture_analyzer.readers.pcapng import reader, section


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section_header(order: str, major: int = 1, extra: bytes = b"") -> bytes:
    body = struct.pack(order + "IHHq", 0x1A2B3C4D, major, 0, -1) + extra
    return block(order, 0x0A0D0D0A, body)


def interface(order: str, link: int = 1, snap: int = 0, options: bytes = b"") -> bytes:
    return block(order, 1, struct.pack(order + "HHI", link, 0, snap) + options)


def enhanced(order: str, number: int, ticks: int, body: bytes, original: int = -1) -> bytes:
    original = len(body) if original < 0 else original
    head = struct.pack(
        order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(body), original
    )
    return block(order, 6, head + body)


def simple(order: str, body: bytes, original: int = -1) -> bytes:
    return block(order, 3, struct.pack(order + "I", max(original, len(body))) + body)


def opened(tmp_path: Path, *blocks: bytes):
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"".join(blocks))
    return open_capture(path)


def contents(capture) -> list[bytes]:
    return [
        bytes(capture.buffers[0][at : at + size])
        for at, size in zip(capture.data_offset, capture.captured_bytes, strict=True)
    ]


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_plain_file(tmp_path, order):
    capture = opened(
        tmp_path,
        section_header(order, extra=option(order, 3, b"Linux") + option(order, 0, b"")),
        interface(order, 113, 96, option(order, 2, b"eth0\0") + option(order, 0, b"")),
        enhanced(order, 0, 1_700_000_000_000_001, b"abcde", 1500),
        block(order, 0x7777, b"unknown"),
        enhanced(order, 0, 1_700_000_000_000_000, b"f"),
    )
    assert capture.epoch_ns == 1_700_000_000_000_001_000
    assert capture.time_ns.tolist() == [0, -1000]
    assert capture.original_bytes.tolist() == [1500, 1]
    assert contents(capture) == [b"abcde", b"f"]
    (only,) = capture.interfaces
    assert (only.link_type, only.snap_length, only.ticks_per_second, only.name) == (
        113,
        96,
        1_000_000,
        "eth0",
    )
    assert (capture.files[0].format, capture.files[0].packet_count) == ("pcapng", 2)
    assert capture.anomalies == []


def test_sections_have_their_own_byte_order_and_interfaces(tmp_path):
    nano = option("<", 9, bytes([9])) + option("<", 0, b"")
    capture = opened(
        tmp_path,
        section_header(">"),
        interface(">", 1),
        interface(">", 101),
        enhanced(">", 1, 5_000_000, b"one"),
        section_header("<"),
        interface("<", 276, options=nano),
        enhanced("<", 0, 5_000_000_123, b"two"),
        section_header(">"),  # an empty one
    )
    assert contents(capture) == [b"one", b"two"]
    assert capture.interface_no.tolist() == [1, 2]
    assert [one.interface_no for one in capture.interfaces] == [0, 1, 2]
    assert [one.link_type for one in capture.interfaces] == [1, 101, 276]
    assert capture.time_ns.tolist() == [0, 123]
    assert capture.frame_no.tolist() == [1, 2]


def test_clocks_of_several_interfaces_in_one_section(tmp_path):
    def clock(resolution: int, offset: int = 0) -> bytes:
        value = option("<", 9, bytes([resolution])) + option("<", 14, struct.pack("<q", offset))
        return interface("<", options=value)

    capture = opened(
        tmp_path,
        section_header("<"),
        clock(3),
        clock(0x80 | 10, 2),
        clock(9, -1),
        enhanced("<", 0, 10_000, b""),  # 10 s
        enhanced("<", 1, 8 * 1024 + 1, b""),  # 2 s + 8 s + 1/1024 s
        enhanced("<", 2, 11_000_000_005, b""),  # 11 s - 1 s + 5 ns
        enhanced("<", 1, 8 * 1024, b""),
    )
    assert capture.epoch_ns == 10 * 10**9
    assert capture.time_ns.tolist() == [0, 976_562, 5, 0]


def test_simple_and_obsolete_packet_blocks(tmp_path):
    obsolete = struct.pack("<HHIIII", 0, 0xFFFF, 0, 7_000_000, 2, 9) + b"ob"
    capture = opened(
        tmp_path,
        section_header("<"),
        interface("<", snap=4),
        simple("<", b"simp", 60),
        block("<", 2, obsolete),
        simple("<", b"xy"),
    )
    assert contents(capture) == [b"simp", b"ob", b"xy"]
    assert capture.original_bytes.tolist() == [60, 9, 2]
    assert capture.time_ns.tolist() == [NO_TIME, 0, NO_TIME]
    assert capture.epoch_ns == 7 * 10**9  # of the first that has a time
    assert capture.anomalies == []  # scan says that they are left aside


def test_key_logs_are_kept_and_not_shown(tmp_path):
    def secrets(kind: int, data: bytes) -> bytes:
        return block("<", 10, struct.pack("<II", kind, len(data)) + data)

    capture = opened(
        tmp_path,
        section_header("<"),
        secrets(section.TLS_KEY_LOG, b"CLIENT_RANDOM aa bb\n"),
        secrets(0x57474B4C, b"wireguard"),
        block("<", 10, struct.pack("<II", section.TLS_KEY_LOG, 9999) + b"cut"),
        interface("<"),
        enhanced("<", 0, 1, b""),
        secrets(section.TLS_KEY_LOG, b"second"),
    )
    assert capture.secrets == [b"CLIENT_RANDOM aa bb\n", b"second"]
    assert "CLIENT_RANDOM" not in repr(capture)


def test_the_last_interface_statistics_hold(tmp_path):
    def statistics(*values: tuple[int, int]) -> bytes:
        options = b"".join(option("<", code, struct.pack("<Q", value)) for code, value in values)
        return block("<", 5, struct.pack("<III", 1, 0, 0) + options)

    capture = opened(
        tmp_path,
        section_header("<"),
        interface("<"),
        interface("<"),
        statistics((4, 10), (5, 1)),
        statistics((4, 1 << 40), (5, 3), (7, 4)),
        block("<", 5, struct.pack("<III", 7, 0, 0)),  # of no interface
    )
    assert capture.interfaces[1].received_count == 1 << 40
    assert capture.interfaces[1].dropped_count == 7
    assert capture.interfaces[0].received_count is None


def test_blocks_that_wireshark_numbers_are_said_to_be_missing(tmp_path):
    capture = opened(
        tmp_path, section_header("<"), block("<", 9, b"log"), block("<", 0xBAD, b"mine")
    )
    (anomaly,) = capture.anomalies
    assert (anomaly.code, anomaly.count) == ("block-skipped", 2)


def test_absurd_times_are_no_times(tmp_path):
    capture = opened(
        tmp_path,
        section_header("<"),
        interface("<"),
        enhanced("<", 0, 2**64 - 1, b"a"),
        enhanced("<", 0, 10, b"b"),
    )
    assert capture.time_ns.tolist() == [NO_TIME, 0]
    (anomaly,) = capture.anomalies
    assert (anomaly.code, anomaly.count) == ("time-out-of-range", 1)


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_cut_file_gives_what_is_before_the_cut(tmp_path, cut):
    last = enhanced("<", 0, 2, b"efgh")
    assert len(last) == 36
    whole = section_header("<") + interface("<") + enhanced("<", 0, 1, b"abcd") + last
    capture = opened(tmp_path, whole[:-cut])
    assert contents(capture) == ([b"abcd"] if cut <= 36 else [])
    if cut == 36:
        assert (capture.anomalies, capture.files[0].cut) == ([], False)
    else:
        assert [a.code for a in capture.anomalies] == ["cut-in-packet"]
        assert capture.files[0].cut


def test_a_file_cut_in_a_later_section_header(tmp_path):
    start = section_header("<") + interface("<") + enhanced("<", 0, 1, b"abcd")
    for cut in range(1, 28):
        capture = opened(tmp_path, start, section_header(">")[:-cut])
        assert contents(capture) == [b"abcd"]
        assert capture.files[0].cut


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (struct.pack("<II", 6, 31) + bytes(40), "impossible length"),
        (struct.pack("<II", 6, 8) + bytes(40), "impossible length"),
        (struct.pack("<II", 6, 0) + bytes(40), "impossible length"),
        (struct.pack("<II", 6, (16 << 20) + 4) + bytes(40), "impossible length"),
        (enhanced("<", 1, 0, b"of no interface"), "not declared"),
        (block("<", 6, struct.pack("<IIIII", 0, 0, 0, 5, 5) + b"four"), "too short"),
        (block("<", 6, b"short"), "too short"),
        (section_header("<", 2), "version 2"),
        (block("<", 0x0A0D0D0A, bytes(16)), "byte-order magic"),
    ],
)
def test_damage_in_the_middle_keeps_what_precedes(tmp_path, damaged, words):
    start = section_header("<") + interface("<") + enhanced("<", 0, 1, b"abcd")
    capture = opened(tmp_path, start, damaged, enhanced("<", 0, 2, b"never read"))
    assert contents(capture) == [b"abcd"]
    (anomaly,) = capture.anomalies
    assert (anomaly.code, anomaly.origin) == ("damaged-file", "capture")
    assert words in anomaly.detail
    assert f"byte {len(start)}" in anomaly.detail
    assert not capture.files[0].cut


def test_an_interface_must_be_declared_before_its_packets(tmp_path):
    capture = opened(
        tmp_path,
        section_header("<"),
        interface("<"),
        enhanced("<", 0, 1, b"ok"),
        enhanced("<", 1, 1, b"too early"),
        interface("<"),
        enhanced("<", 1, 1, b"behind it"),
    )
    assert contents(capture) == [b"ok"]
    assert [a.code for a in capture.anomalies] == ["damaged-file"]


def test_an_interface_declared_between_packets(tmp_path):
    capture = opened(
        tmp_path,
        section_header("<"),
        interface("<"),
        enhanced("<", 0, 1, b"one"),
        interface("<"),
        enhanced("<", 1, 1, b"two"),
    )
    assert contents(capture) == [b"one", b"two"]


def test_another_version_is_not_supported(tmp_path):
    with pytest.raises(UnsupportedFormatError, match="version 2"):
        opened(tmp_path, section_header("<", 2))


def test_options_that_do_not_fit_are_not_read(tmp_path):
    broken = option("<", 9, bytes([9])) + struct.pack("<HH", 2, 60) + b"eth0"
    capture = opened(
        tmp_path, section_header("<"), interface("<", options=broken), enhanced("<", 0, 1, b"")
    )
    assert capture.interfaces[0].name is None
    assert capture.interfaces[0].ticks_per_second == 10**9


def test_too_many_sections(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_SECTIONS", 3)
    capture = opened(tmp_path, section_header("<") * 4)
    assert [a.code for a in capture.anomalies] == ["too-many-sections"]
    assert opened(tmp_path, section_header("<") * 3).anomalies == []


def test_too_many_interfaces_and_secrets(tmp_path, monkeypatch):
    monkeypatch.setattr(section, "MAX_INTERFACES", 2)
    monkeypatch.setattr(section, "MAX_SECRETS_BYTES", 5)
    body = struct.pack("<II", section.TLS_KEY_LOG, 3) + b"abc"
    capture = opened(
        tmp_path,
        section_header("<"),
        interface("<") * 3,
        block("<", 10, body) * 2,
        enhanced("<", 1, 1, b"one"),
        enhanced("<", 2, 1, b"beyond"),
    )
    assert contents(capture) == [b"one"]
    assert capture.secrets == [b"abc"]


@pytest.mark.parametrize("order", ["<", ">"])
def test_names_of_addresses(tmp_path, order):
    def record(kind: int, value: bytes) -> bytes:
        return struct.pack(order + "HH", kind, len(value)) + value + bytes(-len(value) % 4)

    four, six = bytes([192, 0, 2, 1]), bytes([0x20, 1, 0xD, 0xB8]) + bytes(11) + b"\x01"
    records = record(1, four + b"Web.Example\0alias\0") + record(2, six + b"six.example\0")
    records += record(77, b"unknown") + record(1, four + b"later\0") + record(1, b"\x01\x02")
    records += record(0, b"") + record(1, bytes(4) + b"behind the end\0")
    cut = record(2, six + b"x\0")[:-6]
    capture = opened(
        tmp_path,
        section_header(order),
        block(order, 4, records),
        block(order, 4, cut),
        block(order, 4, b""),
        interface(order),
        enhanced(order, 0, 5, b"x"),
    )
    assert capture.names == {"192.0.2.1": "web.example", "2001:db8::1": "six.example"}
    assert len(capture) == 1


@pytest.mark.parametrize("order", ["<", ">"])
def test_drops_that_packets_state(tmp_path, order):
    def with_options(number: int, *options: bytes) -> bytes:
        head = struct.pack(order + "IIIII", number, 0, 0, 5, 5)
        return block(order, 6, head + b"abcde" + bytes(3) + b"".join(options))

    def drops(count: int) -> bytes:
        return option(order, 4, struct.pack(order + "Q", count))

    old = struct.pack(order + "HHIIII", 1, 7, 0, 0, 3, 3) + b"abc"
    unknown = struct.pack(order + "HHIIII", 1, 0xFFFF, 0, 0, 3, 3) + b"abc"
    statistics = struct.pack(order + "III", 2, 0, 0) + option(order, 5, struct.pack(order + "Q", 3))
    capture = opened(
        tmp_path,
        section_header(order),
        interface(order),
        interface(order),
        interface(order),
        interface(order),
        with_options(0, option(order, 1, b"a comment"), drops(2), option(order, 0, b"")),
        with_options(0, drops(40)),
        with_options(0, option(order, 0, b""), drops(500)),
        with_options(0, struct.pack(order + "HH", 4, 8) + bytes(4)),  # cut
        with_options(0, *[option(order, 1, b"x")] * 40),
        block(order, 2, old),
        block(order, 2, unknown),
        with_options(2, drops(9)),
        block(order, 5, statistics),
    )
    assert [i.dropped_count for i in capture.interfaces] == [42, 7, 3, None]
    assert len(capture) == 8
