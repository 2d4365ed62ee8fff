"""Whatever becomes of a capture's packets, its streams are the same, or say what they lack.

Real captures are taken apart and put together anew: segments cut in two or joined, packets
repeated, packets and parts of packets left out, the file cut off.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.reassemble import reassemble
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.pipeline.tcp import analyse
from capture_analyzer.readers import open_capture

CAPTURES = Path(__file__).resolve().parents[2] / "captures"
NAMES = (
    "http-keepalive",  # sequence numbers that wrap
    "loss-fast-client",
    "spurious-server",
    "sse-h2",
    "six-connections",
)
ETHERNET, IP_HEADER = 14, 20
FIN, SYN, PSH = 1, 2, 8
HEADER, RECORD = struct.Struct("<IHHiIII"), struct.Struct("<IIII")

pytestmark = pytest.mark.skipif(not CAPTURES.is_dir(), reason="no captures here")


@dataclasses.dataclass(frozen=True)
class Frame:
    """A packet of a file: time in µs, bytes, and how many of these are in the file."""

    time: int
    data: bytes
    kept: int | None = None  # None = all

    @property
    def header_bytes(self) -> int:
        return ETHERNET + IP_HEADER + (self.data[ETHERNET + IP_HEADER + 12] >> 4) * 4

    @property
    def payload(self) -> bytes:
        return self.data[self.header_bytes :]

    @property
    def seq(self) -> int:
        return int.from_bytes(self.data[ETHERNET + IP_HEADER + 4 :][:4], "big")

    @property
    def ends(self) -> bytes:
        """Addresses and ports."""
        return self.data[ETHERNET + 12 : ETHERNET + IP_HEADER + 4]

    @property
    def flags(self) -> int:
        return self.data[ETHERNET + IP_HEADER + 13]

    @property
    def is_plain(self) -> bool:
        """TCP with payload, no SYN: it may be cut in two."""
        return self.data[ETHERNET + 9] == 6 and not self.flags & SYN and bool(self.payload)

    def part(self, start: int, stop: int) -> Frame:
        """A segment with a part of the payload."""
        data = bytearray(self.data[: self.header_bytes] + self.payload[start:stop])
        data[ETHERNET + 2 : ETHERNET + 4] = (len(data) - ETHERNET).to_bytes(2, "big")
        seq = (self.seq + start) % 2**32
        data[ETHERNET + IP_HEADER + 4 : ETHERNET + IP_HEADER + 8] = seq.to_bytes(4, "big")
        if stop < len(self.payload):
            data[ETHERNET + IP_HEADER + 13] &= ~(FIN | PSH)
        return dataclasses.replace(self, data=bytes(data))

    def joined(self, other: Frame) -> Frame | None:
        """One segment of two, as receive offload makes it; None if they don't follow."""
        follows = (
            self.is_plain
            and other.is_plain
            and self.ends == other.ends
            and other.seq == (self.seq + len(self.payload)) % 2**32
            and not self.flags & FIN
        )
        if not follows:
            return None
        data = bytearray(self.data + other.payload)
        data[ETHERNET + 2 : ETHERNET + 4] = (len(data) - ETHERNET).to_bytes(2, "big")
        data[ETHERNET + IP_HEADER + 13] |= other.flags
        return dataclasses.replace(self, data=bytes(data))


def write(frames: list[Frame], cut_bytes: int = 0) -> bytes:
    out = bytearray(HEADER.pack(0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
    for frame in frames:
        data = frame.data[: frame.kept]
        out += RECORD.pack(*divmod(frame.time, 1_000_000), len(data), len(frame.data)) + data
    return bytes(out[: len(out) - cut_bytes])


@functools.cache
def read(name: str) -> list[Frame]:
    data = (CAPTURES / f"{name}.pcap").read_bytes()
    at, frames = HEADER.size, []
    while at < len(data):
        seconds, fraction, kept, length = RECORD.unpack_from(data, at)
        assert kept == length
        at += RECORD.size
        frames.append(Frame(seconds * 1_000_000 + fraction, data[at : at + kept]))
        at += kept
    return frames


Streams = dict[bytes, ByteStream]


def streams_of(path: Path) -> Streams:
    """Both directions of all connections by their ends."""
    capture = open_capture(path)
    packets, _ = scan(capture)
    flows = group(packets)
    facts = analyse(packets, flows)
    table = reassemble(capture, packets, flows, facts.connections)
    found: Streams = {}
    for connection in facts.connections:
        client = _end(connection.client_ip, connection.client_port)
        server = _end(connection.server_ip, connection.server_port)
        for from_client in (True, False):
            (a, b), (c, d) = (client, server) if from_client else (server, client)
            found[a + c + b + d] = table.stream(connection.connection_no, from_client)
    return found


def _end(ip: str, port: int) -> tuple[bytes, bytes]:
    return bytes(map(int, ip.split("."))), port.to_bytes(2, "big")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams")


@functools.cache
def original(name: str) -> Streams:
    found = streams_of(CAPTURES / f"{name}.pcap")
    assert sum(stream.end for stream in found.values()) > 1000
    assert not any(stream.gaps() for stream in found.values())
    return found


def edited(folder: Path, frames: list[Frame], cut_bytes: int = 0) -> Streams:
    path = folder / "edited.pcap"
    path.write_bytes(write(frames, cut_bytes))
    return streams_of(path)


def text(stream: ByteStream) -> bytes:
    return stream.read(0, stream.end)


def check_parts(name: str, got: Streams, kept: list[Frame]) -> None:
    """Each byte is the right one, and all that is lacking is a gap.

    Args:
        name: of the capture.
        got: what became of it.
        kept: the frames that are in the edited file.
    """
    whole = original(name)
    for ends, stream in got.items():
        expected = text(whole[ends])
        shift = 0
        if stream.begins_mid_stream and len(stream):
            # Offset 0 is the first byte that was captured.
            shift = _base(kept, ends) - _base(read(name), ends)
            shift = (shift + 2**31) % 2**32 - 2**31
        covered = []
        for offset, view, _ in stream.segments():
            begin = offset + shift
            assert bytes(view) == expected[begin : begin + len(view)]
            covered.append((offset, len(view)))
        # Chunks and gaps take turns and leave nothing out.
        pieces = sorted(covered + stream.gaps())
        at = 0
        for offset, length in pieces:
            assert offset == at
            at += length
        assert at >= stream.end
        # What is acknowledged behind a gap may be a FIN that the capture lacks.
        assert stream.end + shift <= len(expected) + 1


def _base(frames: list[Frame], ends: bytes) -> int:
    """Sequence number of a direction's first byte: behind the SYN, else of its first payload.

    Without either it is what the other side acknowledged first.
    """
    mine = [frame for frame in frames if frame.ends == ends]
    for frame in mine:
        if frame.flags & SYN:
            return frame.seq + 1
    data = [frame for frame in mine if frame.payload]
    first = data[0].seq
    # Repeats and late ones may lie below it.
    return first + min((frame.seq - first + 2**31) % 2**32 - 2**31 for frame in data)


EDITS = settings(
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
PLACES = st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 10_000)), max_size=25)


@pytest.mark.parametrize("name", NAMES)
@EDITS
@given(cuts=PLACES, joins=PLACES, copies=PLACES)
def test_cut_joined_and_repeated(
    name: str,
    cuts: list[tuple[int, int]],
    joins: list[tuple[int, int]],
    copies: list[tuple[int, int]],
    folder: Path,
) -> None:
    """The bytes are the same, and none is missing."""
    frames = list(read(name))
    for place, _ in joins:
        at = place % (len(frames) - 1)
        both = frames[at].joined(frames[at + 1])
        if both is not None:
            frames[at : at + 2] = [both]
    for place, where in cuts:
        at = place % len(frames)
        frame = frames[at]
        if frame.is_plain and len(frame.payload) > 1:
            middle = 1 + where % (len(frame.payload) - 1)
            frames[at : at + 1] = [frame.part(0, middle), frame.part(middle, len(frame.payload))]
    for place, later in copies:
        at = place % len(frames)
        behind = min(at + 1 + later % 12, len(frames))
        copy = dataclasses.replace(frames[at], time=frames[behind - 1].time)
        if not copy.flags & SYN:  # a SYN that comes late may begin another connection
            frames.insert(behind, copy)
    got = edited(folder, frames)
    assert got.keys() == original(name).keys()
    for ends, stream in got.items():
        assert text(stream) == text(original(name)[ends])
        assert stream.gaps() == []


@pytest.mark.parametrize("name", NAMES)
@EDITS
@given(missing=PLACES, first=st.integers(0, 20), last=st.integers(0, 20))
def test_packets_left_out(
    name: str, missing: list[tuple[int, int]], first: int, last: int, folder: Path
) -> None:
    """In the middle, at the begin (connections are caught under way) and at the end."""
    frames = read(name)
    gone = {place % len(frames) for place, _ in missing}
    gone |= set(range(first)) | set(range(len(frames) - last, len(frames)))
    kept = [frame for number, frame in enumerate(frames) if number not in gone]
    if kept:
        check_parts(name, edited(folder, kept), kept)


@pytest.mark.parametrize("name", NAMES)
@EDITS
@given(shortened=PLACES)
def test_packets_cut_by_a_snap_length(
    name: str, shortened: list[tuple[int, int]], folder: Path
) -> None:
    """Headers stay whole; the bytes that are not there are gaps."""
    frames = list(read(name))
    for place, bytes_ in shortened:
        at = place % len(frames)
        frame = frames[at]
        if frame.is_plain:
            kept = frame.header_bytes + bytes_ % (len(frame.payload) + 1)
            frames[at] = dataclasses.replace(frame, kept=kept)
    got = edited(folder, frames)
    check_parts(name, got, frames)
    whole = original(name)
    assert all(stream.end == whole[ends].end for ends, stream in got.items())


@pytest.mark.parametrize("name", NAMES)
@EDITS
@given(share=st.floats(0, 1))
def test_a_file_that_is_cut_off(name: str, share: float, folder: Path) -> None:
    """Anywhere behind its header."""
    frames = list(read(name))
    size = len(write(frames)) - HEADER.size
    cut_bytes = int(size * share)
    kept = list(frames)
    while kept and len(write(kept)) > HEADER.size + size - cut_bytes:
        kept.pop()
    check_parts(name, edited(folder, frames, cut_bytes), kept)
