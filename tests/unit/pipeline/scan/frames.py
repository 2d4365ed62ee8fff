"""Makes packets and captures for the tests of scan."""

from __future__ import annotations

import struct

import numpy as np

from capture_analyzer.model.capture import Capture, CaptureFile, Interface
from capture_analyzer.model.packets import ACK

ETHERNET, RAW, USB = 1, 101, 189
MACS = bytes(12)


def tcp(
    payload: bytes = b"", *, options: bytes = b"", flags: int = ACK, ports: tuple = (1000, 443)
) -> bytes:
    words = 5 + len(options) // 4
    return (
        struct.pack(">HHIIBBHHH", *ports, 1111, 2222, words << 4, flags, 500, 0, 0)
        + options
        + payload
    )


def udp(payload: bytes, length: int = -1) -> bytes:
    return struct.pack(">HHHH", 53, 5353, 8 + len(payload) if length < 0 else length, 0) + payload


def ip4(
    body: bytes,
    protocol: int = 6,
    *,
    total: int = -1,
    fragment: int = 0,
    number: int = 7,
    ends: tuple = (1, 2),
) -> bytes:
    total = 20 + len(body) if total < 0 else total
    head = struct.pack(">BBHHHBBH", 0x45, 0, total, number, fragment, 60, protocol, 0)
    return head + bytes([10, 0, 0, ends[0], 10, 0, 0, ends[1]]) + body


def ip6(body: bytes, protocol: int = 6) -> bytes:
    head = struct.pack(">IHBB", 6 << 28, len(body), protocol, 61)
    return head + bytes(15) + b"\x01" + bytes(15) + b"\x02" + body


def ether(body: bytes, kind: int = 0x0800) -> bytes:
    return MACS + struct.pack(">H", kind) + body


def capture(
    frames: list[bytes],
    *,
    link_types: list[int] | int = ETHERNET,
    originals: list[int] | None = None,
    times: list[int] | None = None,
) -> Capture:
    """A capture of one file; link types by packet."""
    count = len(frames)
    types = [link_types] * count if isinstance(link_types, int) else link_types
    kinds = sorted(set(types))
    sizes = np.array([len(frame) for frame in frames], np.uint32)
    return Capture(
        files=[CaptureFile(0, "x", "pcap", count, 0)],
        interfaces=[Interface(i, 0, kind, 0, 10**6) for i, kind in enumerate(kinds)],
        buffers=[b"HEAD" + b"".join(frames)],
        epoch_ns=0,
        time_ns=np.array(times if times is not None else range(count), np.int64),
        file_no=np.zeros(count, np.uint16),
        frame_no=np.arange(1, count + 1, dtype=np.int32),
        interface_no=np.array([kinds.index(kind) for kind in types], np.uint16),
        data_offset=4 + np.cumsum(sizes, dtype=np.int64) - sizes,
        captured_bytes=sizes,
        original_bytes=sizes if originals is None else np.array(originals, np.uint32),
    )


def payloads(made: Capture, packets) -> list[bytes]:
    return [
        bytes(made.buffers[0][at : at + size])
        for at, size in zip(packets.payload_offset, packets.payload_captured, strict=True)
    ]


def reasons(anomalies) -> list[tuple[str, int, int]]:
    return [(a.code, a.count, a.packet_no) for a in anomalies]
