"""The pcap container: an index over its packets.

draft-ietf-opsawg-pcap: a 24-byte file header, then for each packet 16 bytes of header
(seconds, fraction of a second, captured length, original length) and its bytes. A patched
libpcap of the nineties writes 24 bytes of header: interface, protocol and packet type follow.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.capture import Capture, CaptureFile, Interface
from capture_analyzer.model.column import constant
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.readers.source import Source
from capture_analyzer.readers.walk import walk
from capture_analyzer.wire.windows import Bytes, Offsets, Windows, column

FILE_HEADER_BYTES: Final = 24
PACKET_HEADER_BYTES: Final = 16

MAX_PACKET_BYTES: Final = 262_144
"""A captured length above this is damage: it is the largest snap length that libpcap uses
(MAXIMUM_SNAPLEN), and a network packet is never longer."""

PATCHED_HEADER_BYTES: Final = 24

_MAGICS: Final = {
    b"\xa1\xb2\xc3\xd4": (">", 1_000_000, PACKET_HEADER_BYTES),
    b"\xd4\xc3\xb2\xa1": ("<", 1_000_000, PACKET_HEADER_BYTES),
    b"\xa1\xb2\x3c\x4d": (">", 1_000_000_000, PACKET_HEADER_BYTES),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000_000, PACKET_HEADER_BYTES),
    b"\xa1\xb2\xcd\x34": (">", 1_000_000, PATCHED_HEADER_BYTES),
    b"\x34\xcd\xb2\xa1": ("<", 1_000_000, PATCHED_HEADER_BYTES),
}
"""First four bytes -> (byte order, ticks a second, bytes of a packet's header)."""

_NEARBY_SECONDS: Final = 90_000_000
"""Packets of one file are rarely more than some three years apart."""


def is_pcap(start: bytes) -> bool:
    """Whether a file that starts with these bytes is a pcap file."""
    return start[:4] in _MAGICS


def read_pcap(source: Source, *, progress: Progress = silent) -> Capture:
    """Index a pcap file.

    A file that is cut or damaged gives the packets before that place and an anomaly.
    """
    buffer = source.buffer
    order, ticks, head = _MAGICS[bytes(buffer[:4])]
    anomalies = list(source.anomalies)
    windows = Windows(buffer)
    snap_length = link_field = 0
    offsets, end = np.empty(0, np.int64), 0
    heads = np.empty((0, PACKET_HEADER_BYTES), np.uint8)
    if len(buffer) >= FILE_HEADER_BYTES:
        snap_length, link_field = struct.unpack_from(order + "II", buffer, 16)
        records = _Packets(windows, order, ticks, head)
        size = len(buffer)
        found = walk(windows, records, FILE_HEADER_BYTES, lambda done: progress("read", done, size))
        offsets, heads, end = found.offsets, found.heads, found.end
        progress("read", size, size)
    problem = _problem(buffer, order, head, end, len(offsets))
    if problem:
        anomalies.append(problem)
    time_ns, captured_bytes, original_bytes = _headers(heads, order, ticks)
    epoch_ns = int(time_ns[0]) if len(time_ns) else 0
    time_ns -= epoch_ns
    data_offset = offsets
    data_offset += head
    count = len(offsets)
    return Capture(
        files=[
            CaptureFile(
                file_no=0,
                name=source.name,
                format=source.format("pcap"),
                packet_count=count,
                byte_count=int(original_bytes.sum(dtype=np.int64)),
                cut=problem is not None and problem.code == "cut-in-packet",
            )
        ],
        # The low 16 bits are the link type; above lie the length of a frame check sequence.
        interfaces=[Interface(0, 0, link_field & 0xFFFF, snap_length, ticks)],
        buffers=[buffer],
        epoch_ns=epoch_ns,
        time_ns=time_ns,
        file_no=constant(0, count, np.uint16),
        frame_no=np.arange(1, count + 1, dtype=np.int32),
        interface_no=constant(0, count, np.uint16),
        data_offset=data_offset,
        captured_bytes=captured_bytes,
        original_bytes=original_bytes,
        anomalies=anomalies,
    )


def _headers(
    heads: Bytes, order: str, ticks: int
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]]:
    """Time in ns, captured and original length of the packets with these headers.

    The two lengths are one array if no packet was cut.
    """
    second, fraction, captured, original = (
        column(heads, place, order + "u4") for place in (0, 4, 8, 12)
    )
    time_ns = second * np.int64(1_000_000_000)
    time_ns += fraction * np.int64(1_000_000_000 // ticks)
    cut = not np.array_equal(captured, original)
    captured = captured.astype(np.uint32)
    return time_ns, captured, original.astype(np.uint32) if cut else captured


def _problem(
    buffer: memoryview | bytes, order: str, head: int, end: int, count: int
) -> Anomaly | None:
    """What stopped the walk at `end`, if that is not the end of the file."""
    left = len(buffer) - end
    if not left:
        return None
    if not end:
        return Anomaly("cut-in-packet", "capture", "the file ends inside its header")
    if left >= head:
        (length,) = struct.unpack_from(order + "I", buffer, end + 8)
        if length > MAX_PACKET_BYTES:
            detail = (
                f"the packet header at byte {end} gives an impossible length ({length} bytes); "
                f"what follows packet {count} can't be read"
            )
            return Anomaly("damaged-file", "capture", detail)
    detail = f"the file ends in the middle of packet {count + 1} (at byte {end})"
    return Anomaly("cut-in-packet", "capture", detail)


class _Packets:
    """The packet records of a pcap file (see `walk.Records`)."""

    def __init__(
        self, windows: Windows, order: str, ticks: int, head: int = PACKET_HEADER_BYTES
    ) -> None:
        self._windows = windows
        self._head = head
        self._order = order
        self._ticks = ticks
        self._size = len(windows)
        self._buffer = windows.buffer
        self._length = struct.Struct(order + "I").unpack_from
        first = windows.at(np.array([FILE_HEADER_BYTES], np.int64), 4)
        self._first_second = int(column(first, 0, order + "u4")[0])

    def following(self, at: int) -> int:
        if at + self._head > self._size:
            return -1
        (length,) = self._length(self._buffer, at + 8)
        following: int = at + self._head + length
        return -1 if length > MAX_PACKET_BYTES or following > self._size else following

    def heads(self, at: Offsets) -> Bytes:
        return self._windows.at(at, PACKET_HEADER_BYTES)

    def all_following(self, at: Offsets, heads: Bytes) -> Offsets:
        # A length past the end of the buffer reads as 0: the sum is still past the end.
        length = column(heads, 8, self._order + "u4")
        following = at + self._head
        following += length
        bad = (length > MAX_PACKET_BYTES) | (following > self._size)
        if bad.any():
            following[bad] = -1
        return following

    def candidates(self, windows: Bytes, count: int) -> NDArray[np.bool_]:
        # The upper bytes of captured and original length: 0 and at most 4, 0 and at most 16.
        high, low = (11, 10) if self._order == "<" else (8, 9)
        result: NDArray[np.bool_] = windows[:, high : high + count] == 0
        result &= windows[:, low : low + count] <= MAX_PACKET_BYTES >> 16
        result &= windows[:, high + 4 : high + 4 + count] == 0
        result &= windows[:, low + 4 : low + 4 + count] <= 16
        return result

    def plausible(self, at: Offsets) -> NDArray[np.bool_]:
        headers = self.heads(at)
        second, fraction, captured, original = (
            column(headers, place, self._order + "u4").astype(np.int64) for place in (0, 4, 8, 12)
        )
        result: NDArray[np.bool_] = np.abs(second - self._first_second) < _NEARBY_SECONDS
        result &= fraction < self._ticks
        result &= (captured <= original) & (captured > 0)
        return result
