from __future__ import annotations

import struct

import pytest

from capture_analyzer.errors import TwoPointsError
from capture_analyzer.pipeline import file_points
from capture_analyzer.pipeline.file_points import refuse_two_points
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.readers import open_captures


def write(path, *packets: tuple[float, bytes]):
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
    for when, frame in packets:
        head = struct.pack("<IIII", int(when), round(when % 1 * 1e6), len(frame), len(frame))
        parts.append(head + frame)
    path.write_bytes(b"".join(parts))
    return path


def segment(
    seq: int, *, number: int = 0, clock: int = 0, source: int = 1, size: int = 50, flags: int = 0x18
) -> bytes:
    options = b"\x01\x01\x08\x0a" + struct.pack(">II", clock, 1) if clock else b""
    words = 5 + len(options) // 4
    tcp = struct.pack(">HHIIBBHHH", 4000, 443, seq, 9, words << 4, flags, 500, 0, 0)
    tcp += options + bytes(size)
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), number, 0, 60, 6, 0)
    return head + bytes([10, 0, 0, source, 10, 0, 0, 9]) + tcp


def datagram(payload: bytes, number: int) -> bytes:
    udp = struct.pack(">HHHH", 4000, 443, 8 + len(payload), 0) + payload
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), number, 0, 60, 17, 0)
    return head + bytes([10, 0, 0, 1, 10, 0, 0, 9]) + udp


def refused(*paths) -> bool:
    capture = open_captures(paths)
    packets, _ = scan(capture)
    try:
        refuse_two_points(capture, packets)
    except TwoPointsError as error:
        return "\n" not in str(error) and all(path.name in str(error) for path in paths)
    return False


def test_the_same_segments_seen_at_two_points(tmp_path):
    sent = [(n, segment(100 + 50 * n, number=n + 1)) for n in range(8)]
    client = write(tmp_path / "client", *sent)
    server = write(tmp_path / "server", *((when + 0.01, frame) for when, frame in sent))
    hours = write(tmp_path / "hours", *((when + 7200, frame) for when, frame in sent))
    assert refused(client, server)
    assert refused(client, hours)


def test_behind_a_translator_and_with_other_segment_sizes(tmp_path):
    sent = [(n, segment(100 + 50 * n, clock=5 + n)) for n in range(8)]
    translated = [
        (n + 0.01, segment(100 + 50 * n, clock=5 + n, source=77, size=100)) for n in range(0, 8, 2)
    ]
    assert refused(write(tmp_path / "a", *sent), write(tmp_path / "b", *translated))


def test_a_ring_with_segments_sent_again_is_one_point(tmp_path):
    first = [(n, segment(100 + 50 * n, number=n + 1)) for n in range(8)]
    again = [(9 + n, segment(100 + 50 * n, number=n + 20)) for n in range(8)]
    assert not refused(write(tmp_path / "a", *first), write(tmp_path / "b", *again))
    first = [(n, segment(100 + 50 * n, clock=5)) for n in range(8)]
    again = [(9 + n, segment(100 + 50 * n, clock=205)) for n in range(8)]
    assert not refused(write(tmp_path / "a", *first), write(tmp_path / "b", *again))


def test_what_has_neither_number_nor_clock_says_nothing(tmp_path):
    first = [(n, segment(100 + 50 * n)) for n in range(8)]
    again = [(9 + n, segment(100 + 50 * n)) for n in range(8)]
    assert not refused(write(tmp_path / "a", *first), write(tmp_path / "b", *again))


def test_a_few_shared_segments_of_many_are_no_second_point(tmp_path):
    first = [(n, segment(100 + 50 * n, number=n + 1)) for n in range(60)]
    other = [(100 + n, segment(9000 + 50 * n, number=n + 100)) for n in range(60)]
    shared = [(when + 200, frame) for when, frame in first[:5]]
    assert not refused(write(tmp_path / "a", *first), write(tmp_path / "b", *other, *shared))


def test_a_recording_played_again_and_again_is_no_second_point(tmp_path):
    for name, first in (("a", 0), ("b", 100)):
        frames = [
            (first + turn * 10 + n, segment(100 + 50 * n, number=n + 1, source=first + turn))
            for turn in range(10)
            for n in range(8)
        ]
        write(tmp_path / name, *frames)
    assert not refused(tmp_path / "a", tmp_path / "b")


def test_other_ends_are_other_segments(tmp_path):
    sent = [(n, segment(100 + 50 * n, number=n + 1)) for n in range(8)]
    other = [(n, frame[:12] + bytes([7, 7, 7, 7, 8, 8, 8, 8]) + frame[20:]) for n, frame in sent]
    assert not refused(write(tmp_path / "a", *sent), write(tmp_path / "b", *other))


def test_copies_within_a_file_are_not_of_two_points(tmp_path):
    sent = [(n, segment(100 + 50 * n, number=n + 1)) for n in range(8)]
    doubled = [packet for packet in sent for _ in range(2)]
    other = [(100 + n, segment(9000 + 50 * n, number=n + 100)) for n in range(8)]
    assert not refused(write(tmp_path / "a", *doubled), write(tmp_path / "b", *other))


def test_datagrams(tmp_path):
    sent = [(n, datagram(bytes([n]) * 40, n)) for n in range(5)]
    later = [(n + 0.5, datagram(bytes([n]) * 40, n + 7)) for n in range(5)]
    other = [(n + 0.5, datagram(bytes([n + 50]) * 40, n + 7)) for n in range(5)]
    short = [(n + 0.5, datagram(b"ping", n)) for n in range(5)]
    client = write(tmp_path / "client", *sent)
    assert refused(client, write(tmp_path / "server", *later))
    assert not refused(client, write(tmp_path / "other", *other))
    assert not refused(
        write(tmp_path / "c", *short), write(tmp_path / "d", *((t + 9, f) for t, f in short))
    )


def test_a_part_is_compared_of_very_many(tmp_path, monkeypatch):
    monkeypatch.setattr(file_points, "MAX_COMPARED", 100)
    sent = [(n, segment(100 + 50 * n, number=n + 1)) for n in range(900)]
    client = write(tmp_path / "client", *sent)
    server = write(tmp_path / "server", *((when + 0.01, frame) for when, frame in sent))
    assert refused(client, server)


@pytest.mark.shared
def test_both_ends_of_lab_runs(lab):
    for run in ("two-sided/offset-drift", "two-sided/same-clock", "sse-llm/h2-healthy"):
        assert refused(lab / run / "client.pcap", lab / run / "server.pcap"), run
    assert not refused(
        lab / "sse-llm/h2-healthy/client.pcap", lab / "sse-llm/h1-healthy/client.pcap"
    )
