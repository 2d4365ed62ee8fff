from __future__ import annotations

import contextlib
import gzip
import os
import random
import struct
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from capture_analyzer.errors import CaptureReadError, OptionError, UnsupportedFormatError
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.readers import inputs, open_captures, source


def pcap(*packets: tuple[float, bytes], link: int = 1, ns: bool = False) -> bytes:
    """A file of packets: (seconds, bytes)."""
    unit = 10**9 if ns else 10**6
    magic = 0xA1B23C4D if ns else 0xA1B2C3D4
    parts = [struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 65535, link)]
    for when, data in packets:
        ticks = round(when * unit)
        head = struct.pack("<IIII", ticks // unit, ticks % unit, len(data), len(data))
        parts.append(head + data)
    return b"".join(parts)


def pcapng(*packets: tuple[float | None, bytes]) -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    made = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    made += block(1, struct.pack("<HHI", 1, 0, 0))
    for when, data in packets:
        if when is None:
            made += block(3, struct.pack("<I", len(data)) + data)
            continue
        ticks = round(when * 10**6)
        head = struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
        made += block(6, head + data)
    return made


def write(folder: Path, **files: bytes) -> list[Path]:
    paths = []
    for name, data in files.items():
        path = folder / name
        path.write_bytes(data)
        paths.append(path)
    return paths


def seen(capture) -> list[tuple[str, int, int | None, bytes]]:
    """(file, frame number, time in ms since the first packet, bytes) of every packet."""
    result = []
    for i in range(len(capture)):
        file_no = int(capture.file_no[i])
        at, size = int(capture.data_offset[i]), int(capture.captured_bytes[i])
        time_ns = int(capture.time_ns[i])
        result.append(
            (
                capture.files[file_no].name,
                int(capture.frame_no[i]),
                None if time_ns == NO_TIME else time_ns // 10**6,
                bytes(capture.buffers[file_no][at : at + size]),
            )
        )
    return result


def test_files_are_ordered_by_their_first_packets_not_by_name(tmp_path):
    write(
        tmp_path, ring0=pcap((30, b"c")), ring1=pcap((10, b"a"), (11, b"b")), ring2=pcap((20, b"x"))
    )
    capture = open_captures([tmp_path])
    assert seen(capture) == [
        ("ring1", 1, 0, b"a"),
        ("ring1", 2, 1000, b"b"),
        ("ring2", 1, 10000, b"x"),
        ("ring0", 1, 20000, b"c"),
    ]
    assert [file.file_no for file in capture.files] == [0, 1, 2]
    assert [i.file_no for i in capture.interfaces] == [0, 1, 2]
    assert capture.interface_no.tolist() == [0, 0, 1, 2]
    assert capture.epoch_ns == 10 * 10**9
    assert capture.anomalies == []
    assert capture.file_no.dtype == np.uint16
    assert capture.frame_no.dtype == np.int32


def test_packets_are_merged_in_time_order_and_stable(tmp_path):
    paths = write(
        tmp_path,
        b=pcap((1, b"b1"), (3, b"b3"), (3, b"b3'"), (6, b"b6")),
        a=pcapng((1, b"a1"), (2, b"a2"), (3, b"a3"), (7, b"a7")),
    )
    order = [row[3] for row in seen(open_captures(paths))]
    assert order == [b"b1", b"a1", b"a2", b"b3", b"b3'", b"a3", b"b6", b"a7"]
    order = [row[3] for row in seen(open_captures(paths[::-1]))]
    assert order == [b"a1", b"b1", b"a2", b"a3", b"b3", b"b3'", b"b6", b"a7"]


def test_a_file_keeps_its_own_order(tmp_path):
    paths = write(
        tmp_path,
        a=pcap((1, b"a1"), (5, b"a5"), (2, b"a2"), (6, b"a6")),
        b=pcap((3, b"b3"), (5.5, b"b55")),
    )
    order = [row[3] for row in seen(open_captures(paths))]
    assert order == [b"a1", b"b3", b"a5", b"a2", b"b55", b"a6"]


def test_random_files_against_the_plain_merge(tmp_path):
    rng = random.Random(6)
    for attempt in range(30):
        files = []
        for number in range(rng.randrange(2, 6)):
            count = rng.randrange(0, 9)
            times = [rng.randrange(12) for _ in range(count)]
            if rng.random() < 0.6:
                times.sort()
            files.append([(t, b"%d-%d" % (number, n)) for n, t in enumerate(times)])
        folder = tmp_path / str(attempt)
        folder.mkdir()
        paths = write(folder, **{str(n): pcap(*packets) for n, packets in enumerate(files)})
        queues = sorted(
            (list(packets) for packets in files),
            key=lambda packets: (not packets, packets[0][0] if packets else 0),
        )
        expected = []
        while any(queues):
            best = min((q for q in queues if q), key=lambda q: q[0][0])
            expected.append(best.pop(0)[1])
        assert [row[3] for row in seen(open_captures(paths))] == expected


def test_packets_without_a_time_stay_behind_the_one_before(tmp_path):
    paths = write(
        tmp_path,
        a=pcapng((None, b"n0"), (2, b"a2"), (None, b"n1"), (9, b"a9")),
        b=pcap((1, b"b1"), (3, b"b3")),
    )
    rows = seen(open_captures(paths))
    assert [row[3] for row in rows] == [b"b1", b"n0", b"a2", b"n1", b"b3", b"a9"]
    assert [row[2] for row in rows] == [0, None, 1000, None, 2000, 8000]


def test_empty_files_and_strangers_in_a_folder_are_left_out(tmp_path):
    write(tmp_path, a=pcap((1, b"a")), b=pcap(), c=b"", d=b"a note", e=pcap((2, b"e")))
    (tmp_path / "sub").mkdir()
    capture = open_captures([tmp_path])
    assert [row[3] for row in seen(capture)] == [b"a", b"e"]
    assert [file.name for file in capture.files] == ["a", "e", "b"]
    (anomaly,) = capture.anomalies
    assert anomaly.code == "file-skipped"
    assert "c (the file is empty)" in anomaly.detail
    assert "d (" in anomaly.detail


def test_what_was_named_has_to_be_a_capture(tmp_path):
    good, empty, note = write(tmp_path, a=pcap((1, b"a")), b=b"", c=b"a note")
    assert len(open_captures([good, empty])) == 1  # a ring's last file may be empty
    with pytest.raises(UnsupportedFormatError, match="c: this is not a capture"):
        open_captures([good, note])
    with pytest.raises(UnsupportedFormatError, match="empty"):
        open_captures([empty])
    with pytest.raises(CaptureReadError, match="no such file"):
        open_captures([good, tmp_path / "missing"])


def test_folders_and_patterns_without_captures(tmp_path):
    write(tmp_path, c=b"a note", d=b"another")
    with pytest.raises(UnsupportedFormatError, match="no capture among"):
        open_captures([tmp_path])
    with pytest.raises(CaptureReadError, match="no file matches"):
        open_captures([tmp_path / "x*"])
    (tmp_path / "sub").mkdir()
    with pytest.raises(CaptureReadError, match="no file in this folder"):
        open_captures([tmp_path / "sub"])


def test_patterns(tmp_path):
    write(tmp_path, **{"t.pcap0": pcap((2, b"0")), "t.pcap1": pcap((1, b"1")), "u.txt": b"note"})
    write(tmp_path, **{"odd[1].pcap": pcap((3, b"odd"))})
    capture = open_captures([str(tmp_path / "t.pcap*")])
    assert [row[3] for row in seen(capture)] == [b"1", b"0"]
    assert capture.anomalies == []
    assert len(open_captures([tmp_path / "odd[1].pcap"])) == 1  # there is a file of that name


def test_the_same_file_named_twice_is_read_once(tmp_path):
    (path,) = write(tmp_path, a=pcap((1, b"a")))
    link = tmp_path / "link"
    link.symlink_to(path)
    capture = open_captures([path, link, tmp_path])
    assert len(capture) == 1
    (anomaly,) = capture.anomalies
    assert anomaly.code == "file-repeated"
    assert anomaly.detail.endswith(": link, a, link")


def test_copies_of_a_file_are_read_once(tmp_path):
    packets = [(1 + n / 7, bytes([n % 3]) * 60) for n in range(50)]
    paths = write(
        tmp_path,
        one=pcap(*packets),
        two=gzip.compress(pcap(*packets)),
        three=pcap(*packets, ns=False, link=1),
    )
    capture = open_captures(paths)
    assert len(capture) == 50
    assert set(capture.file_no.tolist()) == {0}
    assert [file.packet_count for file in capture.files] == [50, 0, 0]
    assert [file.byte_count for file in capture.files] == [3000, 0, 0]
    assert [a.code for a in capture.anomalies] == ["file-repeated"] * 2
    assert capture.anomalies[0].detail.startswith("two holds nothing but packets that are in one")


def test_packets_that_overlapping_files_share_are_read_once(tmp_path):
    packets = [(1 + n // 2, b"%d" % n * 20) for n in range(40)]  # two of each time
    paths = write(tmp_path, a=pcap(*packets[:25]), b=pcap(*packets[15:]))
    capture = open_captures(paths)
    assert [row[3] for row in seen(capture)] == [data for _, data in packets]
    assert capture.frame_no.tolist() == [*range(1, 26), *range(11, 26)]
    assert [a.code for a in capture.anomalies] == ["packets-repeated"]
    assert capture.anomalies[0].detail.startswith("10 packets of b are in a")
    assert [file.packet_count for file in capture.files] == [25, 15]


def test_a_file_that_holds_a_packet_twice_keeps_both(tmp_path):
    twice = [(1, b"x" * 60), (1, b"x" * 60), (2, b"y")]
    paths = write(tmp_path, a=pcap(*twice), b=pcap(*twice, (3, b"z")))
    capture = open_captures(paths)
    assert [row[3] for row in seen(capture)] == [b"x" * 60, b"x" * 60, b"y", b"z"]


def test_equal_times_or_equal_bytes_alone_are_no_repeats(tmp_path):
    paths = write(
        tmp_path,
        a=pcap((1, b"a" * 60), (2, b"b" * 60), (3, b"c" * 200)),
        b=pcap((1, b"b" * 60), (1.5, b"a" * 60), (3, b"c" * 201)),
    )
    capture = open_captures(paths)
    assert len(capture) == 6
    assert capture.anomalies == []


def test_anomalies_say_which_file_they_are_about(tmp_path):
    paths = write(tmp_path, a=pcap((1, b"a"), (2, b"b"))[:-1], b=pcap((3, b"c")))
    capture = open_captures(paths)
    assert capture.anomalies[0].detail.startswith("a: the file ends")
    assert [file.cut for file in capture.files] == [True, False]


def test_standard_input(tmp_path, monkeypatch):
    data = pcap((1, b"a"), (2, b"b"))
    for content, name in ((data, "pcap"), (gzip.compress(data), "pcap+gzip")):
        for regular in (True, False):
            if regular:
                path = tmp_path / "x"
                path.write_bytes(content)
                stream = path.open("rb")
            else:
                reading, writing = os.pipe()
                os.write(writing, content)
                os.close(writing)
                stream = os.fdopen(reading, "rb")
            with stream:
                monkeypatch.setattr(source.sys, "stdin", type("", (), {"buffer": stream}))
                capture = open_captures(["-"])
            assert len(capture) == 2
            assert (capture.files[0].name, capture.files[0].format) == ("stdin", name)
    with pytest.raises(OptionError, match="only once"):
        open_captures(["-", "-"])
    with Path("/dev/null").open("rb") as stream:
        monkeypatch.setattr(source.sys, "stdin", type("", (), {"buffer": stream}))
        with pytest.raises(UnsupportedFormatError, match=r"^standard input: there is nothing"):
            open_captures(["-"])


def test_pipes(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    big = pcap(*((n, bytes(60_000)) for n in range(120)))  # more than stays in memory

    def write_all(data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # the reader may have seen enough
            path.write_bytes(data)

    def feed(data: bytes) -> threading.Thread:
        thread = threading.Thread(target=write_all, args=(data,))
        thread.start()
        return thread

    thread = feed(big)
    capture = open_captures([path])
    thread.join()
    assert len(capture) == 120
    thread = feed(b"no capture")
    with pytest.raises(UnsupportedFormatError, match="not a capture"):
        open_captures([path])
    thread.join()
    thread = feed(big)
    capture = open_captures([path], max_spool=1_000_000)
    thread.join()
    assert len(capture) == 16
    assert {a.code for a in capture.anomalies} == {"spool-limit", "cut-in-packet"}


def test_more_files_than_a_process_may_open_by_default(tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = Path("/proc/self/fd")
    opened = len(list(descriptors.iterdir())) if descriptors.exists() else 100
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 20, hard))
        write(tmp_path, **{str(n): pcap((n, b"x" * 60)) for n in range(60)})
        assert len(open_captures([tmp_path])) == 60
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    monkeypatch.setattr(inputs, "MAX_FILES", 59)
    with pytest.raises(OptionError, match="at most 59"):
        open_captures([tmp_path])


def test_too_many_interfaces(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["capture_analyzer.readers.merge"], "MAX_INTERFACES", 2)
    paths = write(tmp_path, a=pcap((1, b"a")), b=pcap((2, b"b")), c=pcap((3, b"c")))
    assert len(open_captures(paths[:2])) == 2
    with pytest.raises(OptionError, match="interfaces"):
        open_captures(paths)
