"""The pcap container: an index over its packets.

draft-ietf-opsawg-pcap: a 24-byte file header, then for each packet 16 bytes of header
(seconds, fraction of a second, captured length, original length) and its bytes.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.capture import Capture, CaptureFile, Interface
from capture_analyzer.readers.source import Source

FILE_HEADER_BYTES: Final = 24
PACKET_HEADER_BYTES: Final = 16

MAX_PACKET_BYTES: Final = 262_144
"""A captured length above this is damage: it is the largest snap length that libpcap uses
(MAXIMUM_SNAPLEN), and a network packet is never longer."""

_MAGICS: Final = {
    b"\xa1\xb2\xc3\xd4": (">", 1_000_000),
    b"\xd4\xc3\xb2\xa1": ("<", 1_000_000),
    b"\xa1\xb2\x3c\x4d": (">", 1_000_000_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000_000),
}
"""First four bytes -> (byte order, ticks a second)."""


def is_pcap(start: bytes) -> bool:
    """Whether a file that starts with these bytes is a pcap file."""
    return start[:4] in _MAGICS


def read_pcap(source: Source) -> Capture:
    """Index a pcap file.

    A file that is cut or damaged gives the packets before that place and an anomaly.
    """
    buffer = source.buffer
    order, ticks = _MAGICS[bytes(buffer[:4])]
    anomalies = list(source.anomalies)
    snap_length, link_field = 0, 0
    offsets, cut = np.empty(0, np.int64), True
    if len(buffer) >= FILE_HEADER_BYTES:
        snap_length, link_field = struct.unpack_from(order + "II", buffer, 16)
        offsets, cut, anomaly = _walk(buffer, order)
    else:
        anomaly = Anomaly("cut-in-packet", "capture", "the file ends inside its header")
    if anomaly:
        anomalies.append(anomaly)
    headers = _headers(buffer, offsets, order)
    second, fraction = headers["second"].astype(np.int64), headers["fraction"].astype(np.int64)
    time_ns = second * 1_000_000_000 + fraction * (1_000_000_000 // ticks)
    epoch_ns = int(time_ns[0]) if len(time_ns) else 0
    original_bytes = headers["original"].astype(np.uint32)
    count = len(offsets)
    return Capture(
        files=[
            CaptureFile(
                file_no=0,
                name=source.path.name,
                format="pcap" + (f"+{source.compression}" if source.compression else ""),
                packet_count=count,
                byte_count=int(original_bytes.sum(dtype=np.int64)),
                cut=cut,
            )
        ],
        interfaces=[Interface(0, 0, link_field & 0xFFFF, snap_length, ticks)],
        buffers=[buffer],
        epoch_ns=epoch_ns,
        time_ns=time_ns - epoch_ns,
        file_no=np.zeros(count, np.uint16),
        frame_no=np.arange(1, count + 1, dtype=np.int32),
        interface_no=np.zeros(count, np.uint16),
        data_offset=offsets + PACKET_HEADER_BYTES,
        captured_bytes=headers["captured"].astype(np.uint32),
        original_bytes=original_bytes,
        anomalies=anomalies,
    )


def _headers(
    buffer: memoryview | bytes, offsets: NDArray[np.int64], order: str
) -> NDArray[np.void]:
    """The packet headers at these offsets."""
    names = ("second", "fraction", "captured", "original")
    dtype = np.dtype([(name, order + "u4") for name in names])
    if not len(offsets):
        return np.empty(0, dtype)
    shape = (len(buffer) - PACKET_HEADER_BYTES + 1,)
    return np.ndarray(shape, "V16", buffer, strides=(1,))[offsets].view(dtype)


def _walk(buffer: memoryview | bytes, order: str) -> tuple[NDArray[np.int64], bool, Anomaly | None]:
    """Offsets of the packet headers; whether the file is cut; what stopped the walk."""
    unpack = struct.Struct(order + "I").unpack_from
    offsets: list[int] = []
    append = offsets.append
    end = len(buffer)
    at = FILE_HEADER_BYTES
    while at + PACKET_HEADER_BYTES <= end:
        (length,) = unpack(buffer, at + 8)
        following = at + PACKET_HEADER_BYTES + length
        if following > end or length > MAX_PACKET_BYTES:
            break
        append(at)
        at = following
    found = np.array(offsets, np.int64)
    if at == end:
        return found, False, None
    if at + PACKET_HEADER_BYTES <= end:
        (length,) = unpack(buffer, at + 8)
        if length > MAX_PACKET_BYTES:
            detail = f"a packet header at byte {at} gives an impossible length ({length} bytes)"
            return found, False, Anomaly("damaged-file", "capture", detail)
    detail = f"the file ends in the middle of packet {len(found) + 1} (at byte {at})"
    return found, True, Anomaly("cut-in-packet", "capture", detail)
