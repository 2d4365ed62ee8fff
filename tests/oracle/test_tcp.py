"""TCP against tshark: connection numbers, and bytes put together."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from capture_analyzer.errors import CaptureAnalyzerError
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.reassemble import reassemble
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.pipeline.tcp import analyse
from capture_analyzer.readers import open_capture

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark here"),
]

NOT_DECODED_YET = {"nflog-http.pcap", "pppoe-over-qinq.pcap", "vxlan.pcap"}


def tshark(path: Path, *arguments: str) -> list[str]:
    command = ["tshark", "-n", "-r", str(path), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.split("\n")


def wireshark_streams(path: Path) -> list[int]:
    lines = tshark(path, "-T", "fields", "-e", "tcp.stream")[:-1]
    return [int(line.split(",")[0]) if line else -1 for line in lines]


def our_streams(path: Path) -> list[int]:
    packets, _ = scan(open_capture(path))
    group(packets)
    return packets.connection_no.tolist()


def captures_in(folder: Path) -> list[Path]:
    found = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name in NOT_DECODED_YET:
            continue
        try:
            open_capture(path)
        except CaptureAnalyzerError:
            continue
        found.append(path)
    return found


@pytest.mark.shared
def test_stream_numbers_in_the_corpus(corpus):
    paths = captures_in(corpus)
    assert len(paths) > 30
    for path in paths:
        theirs, ours = wireshark_streams(path), our_streams(path)
        both = min(len(theirs), len(ours))  # a cut last packet may count or not
        assert ours[:both] == theirs[:both], path


@pytest.mark.shared
def test_stream_numbers_in_the_lab(lab):
    for path in sorted(lab.glob("*/*/client.pcap")):
        assert our_streams(path) == wireshark_streams(path), path


def write_pcap(path: Path, segments: list[tuple[bool, int, int, int, int]]) -> None:
    """Raw-IP packets between two hosts: (from the client, client's port, flags, seq, ack)."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
    for number, (from_client, port, flags, seq, ack) in enumerate(segments):
        ends = [(bytes([10, 0, 0, 1]), port), (bytes([10, 0, 0, 2]), 80)]
        (source, source_port), (target, target_port) = ends if from_client else ends[::-1]
        tcp = struct.pack(">HHIIBBHHH", source_port, target_port, seq, ack, 0x50, flags, 1000, 0, 0)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), number, 0, 64, 6, 0)
        packet = ip + source + target + tcp
        parts.append(struct.pack("<IIII", number // 1000, number % 1000, len(packet), len(packet)))
        parts.append(packet)
    path.write_bytes(b"".join(parts))


def test_stream_numbers_of_every_way_to_reuse_ports(tmp_path):
    rng = random.Random(4)
    segments = []
    for port in range(1000, 2500):
        for _ in range(rng.randrange(2, 9)):
            flags = rng.choice([0x02, 0x02, 0x02, 0x12, 0x10, 0x10, 0x18, 0x11, 0x14, 0x04])
            seq, ack = rng.choice([99, 100, 101, 500]), rng.choice([100, 101, 500, 501])
            segments.append((rng.random() < 0.7, port, flags, seq, ack if flags & 0x10 else 0))
    path = tmp_path / "reuse.pcap"
    write_pcap(path, segments)
    theirs, ours = wireshark_streams(path), our_streams(path)
    wrong = [i for i, (a, b) in enumerate(zip(theirs, ours, strict=True)) if a != b]
    assert not wrong, [s for s in segments if s[1] == segments[wrong[0]][1]]


def followed(path: Path, number: int) -> tuple[bytes, bytes]:
    """The bytes of a connection's two directions as tshark puts them together.

    First those of the side that tshark calls node 0: the sender of its first packet.
    """
    lines = tshark(path, "-q", "-z", f"follow,tcp,raw,{number}")
    parts: tuple[list[str], list[str]] = ([], [])
    for line in lines:
        if line and set(line.strip()) <= set("0123456789abcdef"):
            parts[line.startswith("\t")].append(line.strip())
    return bytes.fromhex("".join(parts[0])), bytes.fromhex("".join(parts[1]))


@pytest.mark.shared
@pytest.mark.parametrize(
    "name",
    [
        "lab/http1-plain/ipv6/client.pcap",
        "lab/loss/random/client.pcap",
        "lab/loss/random/server.pcap",
        "lab/loss/rate-limit/client.pcap",
        "lab/loss/reorder-large/client.pcap",
        "lab/loss/tun-rawip/client.pcap",
        "lab/sse-llm/h1-loss-twice/client.pcap",
        "lab/capture-quirks/sll2/client.pcap",
        "corpus/http1/pipelined-requests.pcap",
        "corpus/http1/get-gzip.pcap",
        "corpus/tls-no-keys/tls-fragmented-handshakes.pcap.gz",
        "corpus/tcp/http-ooo.pcap",
        "corpus/tcp/206_example_a.pcap",
        "corpus/tcp/wireshark-retrans.pcap",
    ],
)
def test_reassembled_bytes(lab, name):
    path = lab.parent / name
    if not path.exists():
        pytest.skip(f"no {name} here")
    capture = open_capture(path)
    packets, _ = scan(capture)
    flows = group(packets)
    facts = analyse(packets, flows)
    streams = reassemble(capture, packets, flows, facts.connections)
    compared = 0
    for connection in facts.connections[:12]:
        number = connection.connection_no
        both = [streams.stream(number, side) for side in (True, False)]
        if any(stream.gaps() for stream in both):
            continue
        ours = tuple(stream.read(0, stream.end) for stream in both)
        if not packets.from_client[connection.first_packet_no - 1]:
            ours = ours[::-1]
        assert ours == followed(path, number), number
        compared += len(ours[0]) + len(ours[1])
    assert compared > 100
