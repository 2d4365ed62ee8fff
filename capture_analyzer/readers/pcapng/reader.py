"""All sections of a pcapng file, one after the other, into one Capture."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.errors import UnsupportedFormatError
from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.capture import Capture, CaptureFile
from capture_analyzer.model.column import NO_TIME, constant
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.readers.pcapng.blocks import (
    BYTE_ORDER_MAGIC,
    MAX_BLOCK_BYTES,
    SECTION_HEADER,
    SECTION_HEADER_BYTES,
    Blocks,
    impossible_length,
)
from capture_analyzer.readers.pcapng.section import Found, Section
from capture_analyzer.readers.source import Source
from capture_analyzer.readers.walk import walk
from capture_analyzer.wire.windows import Windows

MAX_SECTIONS: Final = 4_096
"""Each costs time of its own, whatever its size; files joined end to end have hundreds."""

_ORDERS: Final = {
    BYTE_ORDER_MAGIC.to_bytes(4, "little"): "<",
    BYTE_ORDER_MAGIC.to_bytes(4, "big"): ">",
}


def is_pcapng(start: bytes) -> bool:
    """Whether a file that starts with these 12 bytes is a pcapng file."""
    return start[:4] == SECTION_HEADER.to_bytes(4, "big") and start[8:12] in _ORDERS


def read_pcapng(source: Source, *, progress: Progress = silent) -> Capture:
    """Index a pcapng file.

    A file that is cut or damaged gives the packets before that place and an anomaly.

    Raises:
        UnsupportedFormatError: its version is not 1.
    """
    return _Reader(source, progress).read()


class _Reader:
    def __init__(self, source: Source, progress: Progress) -> None:
        self._source = source
        self._windows = Windows(source.buffer)
        self._size = len(source.buffer)
        self._progress = progress
        self._anomalies = list(source.anomalies)
        self._found = Found()
        self._cut = False

    def read(self) -> Capture:
        at = sections = 0
        while 0 <= at < self._size:
            if sections >= MAX_SECTIONS:
                detail = f"the file has more than {MAX_SECTIONS:,} sections; the rest is not read"
                self._anomalies.append(Anomaly("too-many-sections", "analyzer", detail))
                break
            order, body = self._section_header(at)
            if body < 0:
                break
            at = self._section(order, body)
            sections += 1
        self._count_oddities()
        return self._capture()

    def _section_header(self, at: int) -> tuple[str, int]:
        """Byte order of the section that begins at `at`, and where its blocks begin (-1: none)."""
        if at + SECTION_HEADER_BYTES > self._size:
            return "", self._is_cut(at)
        order = _ORDERS.get(bytes(self._source.buffer[at + 8 : at + 12]))
        if order is None:
            return "", self._is_damaged(at, "has no byte-order magic")
        length, _, major = struct.unpack_from(order + "IIH", self._source.buffer, at + 4)
        if major != 1:
            if not at:
                reason = f"pcapng version {major} is not supported"
                raise UnsupportedFormatError(self._source.path, reason)
            return "", self._is_damaged(at, f"has version {major}")
        if length < SECTION_HEADER_BYTES or length % 4 or length > MAX_BLOCK_BYTES:
            return "", self._is_damaged(at, f"gives an impossible length ({length} bytes)")
        if at + length > self._size:
            return "", self._is_cut(at)
        return order, at + length

    def _section(self, order: str, body: int) -> int:
        """Read a section's blocks; returns where the next section begins, -1 for nowhere."""
        found = walk(
            self._windows,
            Blocks(self._windows, order),
            body,
            lambda done: self._progress("read", body + done, self._size),
        )
        blocks, end = found.offsets, found.end
        self._progress("read", end, self._size)
        damaged_at, what = Section(self._windows, order, self._found).read(blocks)
        if damaged_at >= 0:
            return self._is_damaged(damaged_at, what)
        if end + 8 > self._size:
            return self._size if end == self._size else self._is_cut(end)
        kind, length = struct.unpack_from(order + "II", self._source.buffer, end)
        if kind == SECTION_HEADER:
            return end
        if impossible_length(length):
            return self._is_damaged(end, f"gives an impossible length ({length} bytes)")
        return self._is_cut(end)

    def _is_cut(self, at: int) -> int:
        self._cut = True
        detail = f"the file ends in the middle of a block (at byte {at})"
        self._anomalies.append(Anomaly("cut-in-packet", "capture", detail))
        return -1

    def _is_damaged(self, at: int, what: str) -> int:
        detail = f"the block at byte {at} {what}; what follows can't be read"
        self._anomalies.append(Anomaly("damaged-file", "capture", detail))
        return -1

    def _count_oddities(self) -> None:
        count = self._found.out_of_range
        if count:
            detail = "time stamps past the year 2116"
            self._anomalies.append(
                Anomaly("time-out-of-range", "capture", detail, None, None, count)
            )
        count = self._found.foreign
        if count:
            detail = (
                "blocks that are no packets (journal entries, custom blocks) are passed over; "
                "Wireshark gives them frame numbers, so its numbers run ahead of ours"
            )
            self._anomalies.append(Anomaly("block-skipped", "analyzer", detail, None, None, count))

    def _capture(self) -> Capture:
        def joined(name: str, dtype: type[np.generic]) -> NDArray[Any]:
            arrays = [getattr(part, name) for part in self._found.packets]
            return np.concatenate(arrays) if arrays else np.empty(0, dtype)

        time_ns = joined("time_ns", np.int64)
        timed = time_ns != NO_TIME
        count = len(time_ns)
        epoch_ns = int(time_ns[np.argmax(timed)]) if timed.any() else 0
        original_bytes = joined("original_bytes", np.uint32)
        return Capture(
            files=[
                CaptureFile(
                    file_no=0,
                    name=self._source.name,
                    format=self._source.format("pcapng"),
                    packet_count=count,
                    byte_count=int(original_bytes.sum(dtype=np.int64)),
                    cut=self._cut,
                )
            ],
            interfaces=self._found.interfaces,
            buffers=[self._source.buffer],
            epoch_ns=epoch_ns,
            time_ns=np.where(timed, time_ns - epoch_ns, NO_TIME),
            file_no=constant(0, count, np.uint16),
            frame_no=np.arange(1, count + 1, dtype=np.int32),
            interface_no=joined("interface_no", np.uint16),
            data_offset=joined("data_offset", np.int64),
            captured_bytes=joined("captured_bytes", np.uint32),
            original_bytes=original_bytes,
            secrets=self._found.secrets,
            names=self._found.names,
            anomalies=self._anomalies,
        )
