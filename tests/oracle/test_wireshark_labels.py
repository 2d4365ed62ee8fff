"""Our rendering of Wireshark's rules against tshark: every flag of every packet."""

from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from capture_analyzer.errors import CaptureAnalyzerError
from capture_analyzer.model.wireshark_labels import WIRESHARK_FLAGS
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.pipeline.tcp import analyse
from capture_analyzer.pipeline.tcp.wireshark import add_labels
from capture_analyzer.readers import open_capture

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark here"),
]

RULES_OF = "4.0.17"
"""The version whose rules these are. Others differ in details; they are reported, not failed."""

KNOWN: dict[str, tuple[int, str]] = {}  # by file: packets that differ, and why
"""The differences that are left over the lab and the corpus: none."""

Said = list[frozenset[str]]


def theirs(path: Path) -> Said | None:
    """What tshark says of each packet; None if it and we don't see the same packets."""
    command = ["tshark", "-n", "-r", str(path), "-T", "fields"]
    for name in WIRESHARK_FLAGS:
        command += ["-e", f"tcp.analysis.{name}"]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [
        frozenset(
            name for name, value in zip(WIRESHARK_FLAGS, row.split("\t"), strict=True) if value
        )
        for row in output.splitlines()
    ]


def ours(path: Path) -> Said:
    capture = open_capture(path)
    packets, _ = scan(capture)
    analyse(packets, group(packets))
    add_labels(packets, capture.epoch_ns)
    sets = [frozenset(text.split("+")) - {""} for text in packets.wireshark_labels]
    return [sets[code] for code in packets.wireshark_label.tolist()]


def version() -> str:
    text = subprocess.run(
        ["tshark", "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"\d+\.\d+\.\d+", text)
    assert found
    return found[0]


class Tally:
    """How often each flag was set by both, by us only, by them only; and packets that differ."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.packets = 0
        self.differ: Counter[str] = Counter()

    def add(self, name: str, mine: Said, other: Said) -> None:
        # tshark shows a cut last packet, or a block that holds no packet, as a row or not.
        for a, b in zip(mine, other, strict=False):
            self.packets += 1
            self.differ[name] += a != b
            for sort, flags in (("both", a & b), ("ours", a - b), ("theirs", b - a)):
                self.counts.update((flag, sort) for flag in flags)

    def rates(self) -> dict[str, tuple[float, float]]:
        """Precision and recall of every flag that either side set."""
        result = {}
        for flag in WIRESHARK_FLAGS:
            both, mine, other = (self.counts[flag, sort] for sort in ("both", "ours", "theirs"))
            if both + mine + other:
                result[flag] = (both / max(both + mine, 1), both / max(both + other, 1))
        return result

    def report_if_other_version(self) -> None:
        found = version()
        if found != RULES_OF:
            shown = {flag: f"{p:.4f}/{r:.4f}" for flag, (p, r) in self.rates().items()}
            different = sum(self.differ.values())
            pytest.skip(f"tshark {found}, not {RULES_OF}: {different} packets differ; {shown}")


def compared(paths: Iterable[Path]) -> Tally:
    tally = Tally()
    readable = []
    for path in paths:
        try:
            readable.append((path, ours(path)))
        except CaptureAnalyzerError:
            continue
    with ThreadPoolExecutor(2) as pool:
        for (path, mine), other in zip(
            readable, pool.map(theirs, [path for path, _ in readable]), strict=True
        ):
            tally.add(f"{path.parent.name}/{path.name}", mine, other)
    return tally


@pytest.mark.shared
def test_lab_and_corpus(lab: Path, corpus: Path) -> None:
    paths = sorted(lab.glob("*/*/*.pcap*")) + sorted(
        path for path in corpus.glob("*/*") if ".pcap" in path.name
    )
    assert len(paths) > 180
    tally = compared(paths)
    tally.report_if_other_version()
    assert tally.packets > 40_000
    assert {flag for flag, _ in tally.counts} >= set(WIRESHARK_FLAGS) - {
        # not in these captures: the random ones below have them
        *("keep_alive_ack", "zero_window_probe", "zero_window_probe_ack", "reused_ports"),
    }
    assert {name: count for name, count in tally.differ.items() if count} == {
        name: count for name, (count, _) in KNOWN.items()
    }
    for flag, (precision, recall) in tally.rates().items():
        assert precision >= 0.99, flag
        assert recall >= 0.99, flag
    assert sum(tally.differ.values()) <= 0.001 * tally.packets


def random_connection(
    rng: random.Random, port: int
) -> list[tuple[int, int, int, int, bytes, int, bytes]]:
    """Packets (side, flags, seq, ack, payload, window, options) around what was sent before.

    Few numbers, close together, so that the rules' conditions meet; now and then around the
    wrap of sequence numbers.
    """
    first = [rng.choice([1, 100, 5000]), rng.choice([1, 3, 5000])]
    if rng.random() < 0.2:
        first[0] = 2**32 - 2
    windows = rng.choice([[0, 2, 4, 100, 100, 100], [100], [100, 100, 100, 50], [0, 0, 0, 1]])
    lengths = rng.choice([[0, 0, 0, 1, 1, 2, 3, 5], [0] * 9 + [1, 2], [0, 1]])
    calm = rng.choice([10, 40])
    sent = [0, 0]
    rows = []

    def send(
        side: int, flags: int, at: int, upto: int, length: int, window: int, options: bytes = b""
    ) -> None:
        ack = (first[1 - side] + upto) % 2**32 if flags & 0x10 else 0
        seq = (first[side] + at) % 2**32
        rows.append((side, flags, seq, ack, b"x" * length, window, options))

    if rng.random() < 0.4:
        scales = [rng.choice([b"", bytes([3, 3, 0, 1]), bytes([3, 3, 2, 1])]) for _ in range(2)]
        for _ in range(rng.choice([1, 1, 1, 2])):
            send(0, 0x02, 0, 0, 0, rng.choice([100, 4]), scales[0])
        send(1, 0x12, 0, 1, 0, rng.choice([100, 4]), scales[1])
        send(0, 0x10, 1, 1, 0, 100)
        sent = [1, 1]
    for _ in range(rng.randrange(3, 30)):
        side, flags = rng.randrange(2), 0x10
        if rng.random() < 0.05:
            flags = rng.choice([0x02, 0x12, 0x11, 0x14, 0x04, 0x18, 0x00, 0x01])
        length = rng.choice(lengths)
        at = sent[side] + rng.choice([0] * calm + [-1, -1, -2, -3, 1, 2, -5])
        upto = sent[1 - side] + rng.choice([0] * calm + [-1, -2, 1, 2, -3])
        options = bytes([3, 3, 1, 1]) if rng.random() < 0.01 else b""
        send(side, flags, at, upto, length, rng.choice(windows), options)
        sent[side] = max(sent[side], at + length + bool(flags & 3))
    return rows


def write_random(path: Path, seed: int, connections: int, epoch: int) -> None:
    rng = random.Random(seed)
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
    time = number = 0
    for port in range(1000, 1000 + connections):
        for side, flags, seq, ack, payload, window, options in random_connection(rng, port):
            time += rng.choice([1, 10, 100, 1000, 2000, 3000, 19_000, 20_000, 40_000])  # us
            number += 1
            ends = [(bytes([10, 0, 0, 1]), port), (bytes([10, 0, 0, 2]), 80)]
            (source, source_port), (target, target_port) = ends[::-1] if side else ends
            tcp = struct.pack(">HHII", source_port, target_port, seq, ack)
            tcp += struct.pack(">BBHHH", 0x50 + len(options) * 4, flags, window, 0, 0)
            tcp += options + payload
            ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), number & 0xFFFF, 0, 64, 6, 0)
            packet = ip + source + target + tcp
            stamp = (epoch + time // 1_000_000, time % 1_000_000)
            parts.append(struct.pack("<IIII", *stamp, len(packet), len(packet)) + packet)
    path.write_bytes(b"".join(parts))


@pytest.mark.parametrize(("seed", "epoch"), [(1, 1_700_000_000), (2, 4), (3, 0)])
def test_random_packets(tmp_path: Path, seed: int, epoch: int) -> None:
    path = tmp_path / "random.pcap"
    write_random(path, seed, 1000, epoch)
    tally = compared([path])
    tally.report_if_other_version()
    assert tally.packets > 10_000
    assert {flag for flag, _ in tally.counts} == set(WIRESHARK_FLAGS)
    assert tally.differ.total() == 0
