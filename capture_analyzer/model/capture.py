"""Tables `files` and `interfaces`, and the capture itself: bytes and where its packets lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.column import column
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.room import Room


@quick_dataclass
class CaptureFile:
    """A file of packets."""

    file_no: int = column("0-based, in the order of the merged capture.")
    name: str = column("The file's name without its folder.")
    format: str = column(
        '"pcap" or "pcapng", with "+gzip", "+zstd" or "+lz4" behind it where it was compressed.'
    )
    packet_count: int = column("Packets read from it.")
    byte_count: int = column("Sum of the packets' original lengths.", unit="bytes")
    cut: bool = column("The file ends in the middle of a packet.", default=False)


@quick_dataclass
class Interface:
    """An interface that packets were captured on (pcap files have exactly one)."""

    interface_no: int = column("0-based over all files.")
    file_no: int = column("The file that declares it.")
    link_type: int = column("LINKTYPE_ number of its packets (www.tcpdump.org/linktypes.html).")
    snap_length: int = column("Most bytes kept of a packet; 0 = no limit.", unit="bytes")
    ticks_per_second: int = column("Time stamp resolution as the file states it.")
    name: str | None = column("The name the file gives it, if any.", default=None)
    received_count: int | None = column("Packets seen, by its statistics block.", default=None)
    dropped_count: int | None = column(
        "Packets dropped, by its statistics block, else as packets say it.", default=None
    )


@quick_dataclass
class Capture:
    """Packets as they lie in their files: bytes, and an index over them.

    Made by ``readers``; the arrays have one element a packet, in merged order. Nothing of
    a packet's content has been looked at yet.
    """

    files: list[CaptureFile]
    interfaces: list[Interface]
    # One a file: its mapped (or spooled) bytes; then those of reassembled IP fragments.
    buffers: Sequence[memoryview | bytes]
    epoch_ns: int  # instant of the first packet that has a time, since 1970-01-01 UTC
    time_ns: NDArray[np.int64]  # since epoch_ns; NO_TIME where the packet has none
    file_no: NDArray[np.uint16]
    frame_no: NDArray[np.int32]  # 1-based in its file
    interface_no: NDArray[np.uint16]
    data_offset: NDArray[np.int64]  # of the packet's first byte in its file's buffer
    captured_bytes: NDArray[np.uint32]
    original_bytes: NDArray[np.uint32]
    secrets: list[bytes] = dataclasses.field(default_factory=list, repr=False)  # key logs inside
    anomalies: list[Anomaly] = dataclasses.field(default_factory=list)
    names: dict[str, str] = dataclasses.field(default_factory=dict)  # of addresses, by the files

    def __len__(self) -> int:
        return len(self.time_ns)

    def forget_places(self) -> None:
        """Give up where packets lie, and on which interface: decoded, nobody asks any more."""
        self.data_offset = np.empty(0, np.int64)
        self.interface_no = np.empty(0, np.uint16)

    def move(self, room: Room) -> None:
        """Move the index to where columns lie."""
        for name in INDEX:
            setattr(self, name, room.joined([getattr(self, name)]))


INDEX: Final = (
    "time_ns",
    "file_no",
    "frame_no",
    "interface_no",
    "data_offset",
    "captured_bytes",
    "original_bytes",
)
"""The columns of `Capture` that have an element a packet."""
