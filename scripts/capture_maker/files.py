"""Writers for pcap and pcapng files."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterable
from typing import Literal

ByteOrder = Literal["<", ">"]


@dataclasses.dataclass(slots=True)
class Frame:
    """A captured frame: absolute time stamp, bytes, and the length it had on the wire."""

    time_ns: int
    data: bytes
    original: int

    def cut(self, snap_length: int) -> Frame:
        """The same frame with at most so many bytes."""
        return Frame(self.time_ns, self.data[:snap_length], self.original)


def pcap(
    frames: Iterable[Frame],
    link_type: int,
    *,
    order: ByteOrder = "<",
    nanoseconds: bool = False,
    snap_length: int = 262_144,
) -> bytes:
    """A pcap file (draft-ietf-opsawg-pcap)."""
    magic, unit = (0xA1B23C4D, 1) if nanoseconds else (0xA1B2C3D4, 1_000)
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap_length, link_type)]
    for frame in frames:
        seconds, rest = divmod(frame.time_ns, 1_000_000_000)
        out.append(
            struct.pack(order + "IIII", seconds, rest // unit, len(frame.data), frame.original)
        )
        out.append(frame.data)
    return b"".join(out)


class Pcapng:
    """Builds a pcapng file block by block (draft-ietf-opsawg-pcapng)."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.order: ByteOrder = "<"
        self.units: list[int] = []

    def _block(self, kind: int, body: bytes) -> None:
        body += b"\0" * (-len(body) % 4)
        size = len(body) + 12
        self.data += struct.pack(self.order + "II", kind, size) + body
        self.data += struct.pack(self.order + "I", size)

    def _option(self, code: int, value: bytes) -> bytes:
        padded = value + b"\0" * (-len(value) % 4)
        return struct.pack(self.order + "HH", code, len(value)) + padded

    def section(self, order: ByteOrder = "<") -> None:
        """Section Header Block; interfaces start anew."""
        self.order = order
        self.units = []
        head = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
        self._block(0x0A0D0D0A, head + self._option(4, b"make_captures") + self._option(0, b""))

    def interface(self, link_type: int, name: str, *, nanoseconds: bool = False) -> None:
        """Interface Description Block."""
        options = self._option(2, name.encode())
        if nanoseconds:
            options += self._option(9, b"\x09")
        self.units.append(1 if nanoseconds else 1_000)
        head = struct.pack(self.order + "HHI", link_type, 0, 262_144)
        self._block(1, head + options + self._option(0, b""))

    def secrets(self, key_log: bytes) -> None:
        """Decryption Secrets Block with a TLS key log."""
        self._block(10, struct.pack(self.order + "II", 0x544C534B, len(key_log)) + key_log)

    def packet(self, frame: Frame, interface: int = 0) -> None:
        """Enhanced Packet Block."""
        ticks = frame.time_ns // self.units[interface]
        head = struct.pack(
            self.order + "IIIII",
            interface,
            ticks >> 32,
            ticks & 0xFFFFFFFF,
            len(frame.data),
            frame.original,
        )
        self._block(6, head + frame.data)

    def statistics(self, received: int, dropped: int, interface: int = 0) -> None:
        """Interface Statistics Block."""
        options = self._option(4, struct.pack(self.order + "Q", received))
        options += self._option(5, struct.pack(self.order + "Q", dropped))
        head = struct.pack(self.order + "III", interface, 0, 0)
        self._block(5, head + options + self._option(0, b""))
