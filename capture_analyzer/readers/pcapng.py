"""The pcapng container: an index over the packets of all its sections.

draft-ietf-opsawg-pcapng. A file is a row of blocks (type, total length, body, total length
again). A Section Header Block begins a section with its own byte order and its own
interfaces; the packets of the others refer to these.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.errors import UnsupportedFormatError
from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.capture import Capture, CaptureFile, Interface
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.readers.clock import ticks_per_second, to_ns
from capture_analyzer.readers.source import Source
from capture_analyzer.readers.walk import walk
from capture_analyzer.wire.windows import Bytes, Offsets, Windows, column

SECTION_HEADER: Final = 0x0A0D0D0A  # the same in either byte order
INTERFACE: Final = 1
OBSOLETE_PACKET: Final = 2
SIMPLE_PACKET: Final = 3
STATISTICS: Final = 5
ENHANCED_PACKET: Final = 6
JOURNAL: Final = 9
SECRETS: Final = 10

BYTE_ORDER_MAGIC: Final = 0x1A2B3C4D
SECTION_HEADER_BYTES: Final = 28
TLS_KEY_LOG: Final = 0x544C534B
"""Secrets type "TLSK": the contents of a TLS key log file."""

PACKET_HEAD_BYTES: Final = 28
"""Of an enhanced (or obsolete) packet block, before the packet's bytes."""
SIMPLE_HEAD_BYTES: Final = 12
TRAILER_BYTES: Final = 4

MAX_BLOCK_BYTES: Final = 16 << 20
"""A longer block is damage: packets have at most 256 KiB, and name lists, secrets or journal
entries of megabytes are not seen."""

MAX_INTERFACES: Final = 65_535
"""What the packets table can number."""

MAX_SECTIONS: Final = 4_096
"""Each costs time of its own, whatever its size; files joined end to end have hundreds."""

MAX_SECRETS_BYTES: Final = 256 << 20
"""A key log takes some hundred bytes a connection."""

DEFAULT_RESOLUTION: Final = 6  # 10^-6 s

_OPT_END, _IF_NAME, _IF_TSRESOL, _IF_TSOFFSET = 0, 2, 9, 14
_ISB_IFRECV, _ISB_IFDROP, _ISB_OSDROP = 4, 5, 7


def is_pcapng(start: bytes) -> bool:
    """Whether a file that starts with these 12 bytes is a pcapng file."""
    magics = (BYTE_ORDER_MAGIC.to_bytes(4, "big"), BYTE_ORDER_MAGIC.to_bytes(4, "little"))
    return start[:4] == SECTION_HEADER.to_bytes(4, "big") and start[8:12] in magics


def read_pcapng(source: Source, *, progress: Progress = silent) -> Capture:
    """Index a pcapng file.

    A file that is cut or damaged gives the packets before that place and an anomaly.

    Raises:
        UnsupportedFormatError: its version is not 1.
    """
    return _Reader(source, progress).read()


@dataclasses.dataclass(slots=True)
class _Clock:
    """How an interface counts time."""

    resolution: int
    offset_s: int


@dataclasses.dataclass(slots=True)
class _Index:
    """Columns of the packets of a section, or of some of them."""

    time_ns: NDArray[np.int64]  # since 1970, or NO_TIME
    interface_no: NDArray[np.uint16]
    data_offset: Offsets
    captured_bytes: NDArray[np.uint32]
    original_bytes: NDArray[np.uint32]


class _Reader:
    def __init__(self, source: Source, progress: Progress) -> None:
        self.source = source
        self.windows = Windows(source.buffer)
        self.size = len(source.buffer)
        self.progress = progress
        self.anomalies = list(source.anomalies)
        self.interfaces: list[Interface] = []
        self.clocks: list[_Clock] = []
        self.secrets: list[bytes] = []
        self.parts: list[_Index] = []
        self.out_of_range = 0  # packets whose time stamps are absurd
        self.journal = 0
        self.cut = False

    def read(self) -> Capture:
        at = 0
        sections = 0
        while at < self.size:
            if sections >= MAX_SECTIONS:
                detail = f"the file has more than {MAX_SECTIONS:,} sections; the rest is not read"
                self.anomalies.append(Anomaly("too-many-sections", "analyzer", detail))
                break
            order, body = self._section_header(at)
            if not body:
                break
            at = self._section(order, body)
            sections += 1
            if at < 0:
                break
        self._count_oddities()
        return self._capture()

    def _section_header(self, at: int) -> tuple[str, int]:
        """Byte order of the section that begins at `at`, and where its blocks begin (0: none)."""
        buffer = self.source.buffer
        if at + SECTION_HEADER_BYTES > self.size:
            self._is_cut(at)
            return "<", 0
        magic = bytes(buffer[at + 8 : at + 12])
        order = "<" if magic == BYTE_ORDER_MAGIC.to_bytes(4, "little") else ">"
        length, _, major = struct.unpack_from(order + "IIH", buffer, at + 4)
        if magic not in (BYTE_ORDER_MAGIC.to_bytes(4, n) for n in ("big", "little")):
            self._is_damaged(at, "has no byte-order magic")
        elif major != 1:
            if not at:
                raise UnsupportedFormatError(
                    self.source.path, f"pcapng version {major} is not supported"
                )
            self._is_damaged(at, f"has version {major}")
        elif at + length > self.size and length <= MAX_BLOCK_BYTES:
            self._is_cut(at)
        elif length < SECTION_HEADER_BYTES or length % 4 or length > MAX_BLOCK_BYTES:
            self._is_damaged(at, f"gives an impossible length ({length} bytes)")
        else:
            return order, at + length
        return order, 0

    def _section(self, order: str, body: int) -> int:
        """Read a section's blocks; returns where the next section begins, -1 for nowhere."""
        blocks, end = walk(
            self.windows,
            _Blocks(self.windows, order),
            body,
            lambda done: self.progress("read", body + done, self.size),
        )
        self.progress("read", end, self.size)
        types = column(self.windows.at(blocks, 4), 0, order + "u4")
        base = len(self.interfaces)
        declared = blocks[types == INTERFACE]
        for at in declared.tolist():
            if len(self.interfaces) >= MAX_INTERFACES:
                break
            self._interface(order, at)
        for at in blocks[types == STATISTICS].tolist():
            self._statistics(order, at, base)
        for at in blocks[types == SECRETS].tolist():
            self._secrets(order, at)
        self.journal += int((types == JOURNAL).sum())
        is_packet = (types == ENHANCED_PACKET) | (types == OBSOLETE_PACKET)
        simple = types == SIMPLE_PACKET
        if simple.any():
            is_packet |= simple
        if not self._packets(order, blocks[is_packet], types[is_packet], declared, base):
            return -1
        if end >= self.size:
            return self.size
        return self._next_section(order, end)

    def _next_section(self, order: str, at: int) -> int:
        """`at` if a section begins where the walk over blocks ended, else -1 and why."""
        if at + 8 > self.size:
            return self._is_cut(at)
        kind, length = struct.unpack_from(order + "II", self.source.buffer, at)
        if kind == SECTION_HEADER:
            return at
        if length < 12 or length % 4 or length > MAX_BLOCK_BYTES:
            return self._is_damaged(at, f"gives an impossible length ({length} bytes)")
        return self._is_cut(at)

    def _is_cut(self, at: int) -> int:
        self.cut = True
        detail = f"the file ends in the middle of a block (at byte {at})"
        self.anomalies.append(Anomaly("cut-in-packet", "capture", detail))
        return -1

    def _is_damaged(self, at: int, what: str) -> int:
        detail = f"the block at byte {at} {what}; what follows can't be read"
        self.anomalies.append(Anomaly("damaged-file", "capture", detail))
        return -1

    # --- blocks that are no packets ---

    def _options(self, order: str, at: int, begin: int) -> Iterator[tuple[int, bytes]]:
        """(code, value) of the options of the block at `at`, which begin at `begin`."""
        buffer = self.source.buffer
        (length,) = struct.unpack_from(order + "I", buffer, at + 4)
        end = at + length - TRAILER_BYTES
        while begin + 4 <= end:
            code, size = struct.unpack_from(order + "HH", buffer, begin)
            begin += 4
            if code == _OPT_END or begin + size > end:
                return
            yield code, bytes(buffer[begin : begin + size])
            begin += size + -size % 4

    def _interface(self, order: str, at: int) -> None:
        """Interface Description Block: link type, snap length, name, how it counts time."""
        (length,) = struct.unpack_from(order + "I", self.source.buffer, at + 4)
        link_type = snap_length = 0
        if length >= 20:
            link_type, _, snap_length = struct.unpack_from(
                order + "HHI", self.source.buffer, at + 8
            )
        name, resolution, offset_s = None, DEFAULT_RESOLUTION, 0
        for code, value in self._options(order, at, at + 16):
            if code == _IF_NAME:
                name = value.rstrip(b"\0").decode("utf-8", "replace")
            elif code == _IF_TSRESOL and len(value) == 1:
                resolution = value[0]
            elif code == _IF_TSOFFSET and len(value) == 8:
                (offset_s,) = struct.unpack(order + "q", value)
        number = len(self.interfaces)
        self.interfaces.append(
            Interface(number, 0, link_type, snap_length, ticks_per_second(resolution), name)
        )
        self.clocks.append(_Clock(resolution, offset_s))

    def _statistics(self, order: str, at: int, base: int) -> None:
        """Interface Statistics Block: counters since the start, so the last one holds."""
        (length,) = struct.unpack_from(order + "I", self.source.buffer, at + 4)
        if length < 24:
            return
        (number,) = struct.unpack_from(order + "I", self.source.buffer, at + 8)
        if base + number >= len(self.interfaces):
            return
        dropped: list[int] = []
        for code, value in self._options(order, at, at + 20):
            if len(value) == 8 and code in (_ISB_IFRECV, _ISB_IFDROP, _ISB_OSDROP):
                (count,) = struct.unpack(order + "Q", value)
                if code == _ISB_IFRECV:
                    self.interfaces[base + number].received_count = count
                else:
                    dropped.append(count)  # by the interface, by the operating system
        if dropped:
            self.interfaces[base + number].dropped_count = sum(dropped)

    def _secrets(self, order: str, at: int) -> None:
        """Decryption Secrets Block: TLS key logs are kept."""
        (length,) = struct.unpack_from(order + "I", self.source.buffer, at + 4)
        if length < 20:
            return
        kind, size = struct.unpack_from(order + "II", self.source.buffer, at + 8)
        kept = sum(map(len, self.secrets))
        if kind == TLS_KEY_LOG and size <= length - 20 and kept + size <= MAX_SECRETS_BYTES:
            self.secrets.append(bytes(self.source.buffer[at + 16 : at + 16 + size]))

    # --- packets ---

    def _packets(
        self,
        order: str,
        blocks: Offsets,
        types: NDArray[np.uint32],
        declared: Offsets,
        base: int,
    ) -> bool:
        """Index the packet blocks of a section; False if one of them is damaged.

        Args:
            order: the section's byte order.
            blocks: where they begin.
            types: their types.
            declared: where the section's interfaces are declared.
            base: number of its first interface.
        """
        if not len(blocks):
            return True
        heads = self.windows.at(blocks, PACKET_HEAD_BYTES)

        def field(offset: int, size: int = 4) -> NDArray[Any]:
            return column(heads, offset, f"{order}u{size}")

        length = field(4).astype(np.int64)
        number = field(8).astype(np.int64)
        captured, original = field(20).astype(np.int64), field(24).astype(np.uint32)
        room = length - PACKET_HEAD_BYTES - TRAILER_BYTES
        data_offset = blocks + PACKET_HEAD_BYTES
        obsolete = types == OBSOLETE_PACKET
        if obsolete.any():
            number[obsolete] = field(8, 2)[obsolete]
        simple = types == SIMPLE_PACKET
        if simple.any():
            number[simple] = 0
            original[simple] = field(8)[simple]
            data_offset[simple] = blocks[simple] + SIMPLE_HEAD_BYTES
            room[simple] = length[simple] - SIMPLE_HEAD_BYTES - TRAILER_BYTES
            captured[simple] = np.minimum(original[simple], room[simple])
            if base < len(self.interfaces) and self.interfaces[base].snap_length:
                snap_length = self.interfaces[base].snap_length
                captured[simple] = np.minimum(captured[simple], snap_length)
        known = len(self.interfaces) - base
        if known and len(declared) == known and int(declared[-1]) < int(blocks[0]):
            unknown = number >= known  # all are declared before the first packet
        else:
            unknown = number >= np.minimum(np.searchsorted(declared, blocks), known)
        bad = unknown | (captured > room) | (room < 0)
        whole = len(blocks)
        if bad.any():
            whole = int(np.argmax(bad))
        time_ns = self._times(order, heads[:whole], number[:whole] + base)
        self.out_of_range += int(((time_ns == NO_TIME) & ~simple[:whole]).sum())
        time_ns[simple[:whole]] = NO_TIME  # such a block has no time stamp
        self.parts.append(
            _Index(
                time_ns,
                (number[:whole] + base).astype(np.uint16),
                data_offset[:whole],
                captured[:whole].astype(np.uint32),
                original[:whole],
            )
        )
        if whole < len(blocks):
            why = "names an interface that is not declared" if unknown[whole] else "is too short"
            self._is_damaged(int(blocks[whole]), why)
        return whole == len(blocks)

    def _times(
        self, order: str, heads: Bytes, interface_no: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Time stamps of packet blocks, by each interface's clock."""
        ticks = column(heads, 12, order + "u4").astype(np.uint64) << np.uint64(32)
        ticks |= column(heads, 16, order + "u4")
        time_ns = np.empty(len(ticks), np.int64)
        if not len(ticks):
            return time_ns
        first = int(interface_no[0])
        clock = self.clocks[first]
        if (interface_no == first).all():
            time_ns = to_ns(ticks, clock.resolution, clock.offset_s)
        else:
            for number in np.unique(interface_no).tolist():
                some = interface_no == number
                clock = self.clocks[number]
                time_ns[some] = to_ns(ticks[some], clock.resolution, clock.offset_s)
        return time_ns

    # --- the result ---

    def _count_oddities(self) -> None:
        if self.out_of_range:
            detail = "time stamps past the year 2116"
            self._count("time-out-of-range", "capture", detail, self.out_of_range)
        if self.journal:
            detail = "systemd journal entries, which Wireshark numbers as frames, are passed over"
            self._count("journal-skipped", "analyzer", detail, self.journal)

    def _count(self, code: str, origin: Any, detail: str, count: int) -> None:
        self.anomalies.append(Anomaly(code, origin, detail, None, None, count))

    def _capture(self) -> Capture:
        def joined(name: str, dtype: type[np.generic]) -> NDArray[Any]:
            arrays = [getattr(part, name) for part in self.parts]
            return np.concatenate(arrays) if arrays else np.empty(0, dtype)

        time_ns = joined("time_ns", np.int64)
        timed = time_ns != NO_TIME
        count = len(time_ns)
        epoch_ns = int(time_ns[np.argmax(timed)]) if timed.any() else 0
        time_ns = np.where(timed, time_ns - epoch_ns, NO_TIME)
        original_bytes = joined("original_bytes", np.uint32)
        return Capture(
            files=[
                CaptureFile(
                    file_no=0,
                    name=self.source.path.name,
                    format=self.source.format("pcapng"),
                    packet_count=count,
                    byte_count=int(original_bytes.sum(dtype=np.int64)),
                    cut=self.cut,
                )
            ],
            interfaces=self.interfaces,
            buffers=[self.source.buffer],
            epoch_ns=epoch_ns,
            time_ns=time_ns,
            file_no=np.zeros(count, np.uint16),
            frame_no=np.arange(1, count + 1, dtype=np.int32),
            interface_no=joined("interface_no", np.uint16),
            data_offset=joined("data_offset", np.int64),
            captured_bytes=joined("captured_bytes", np.uint32),
            original_bytes=original_bytes,
            secrets=self.secrets,
            anomalies=self.anomalies,
        )


class _Blocks:
    """The blocks of a section (see `walk.Records`); the next section header is not valid."""

    def __init__(self, windows: Windows, order: str) -> None:
        self._windows = windows
        self._order = order
        self._size = len(windows)
        self._head = struct.Struct(order + "II").unpack_from
        self._little = order == "<"

    def following(self, at: int) -> int:
        if at + 12 > self._size:
            return -1
        kind, length = self._head(self._windows.buffer, at)
        following: int = at + length
        if (
            length < 12
            or length & 3
            or length > MAX_BLOCK_BYTES
            or following > self._size
            or kind == SECTION_HEADER
        ):
            return -1
        return following

    def all_following(self, at: Offsets) -> Offsets:
        heads = self._windows.at(at, 8)
        length = column(heads, 4, self._order + "u4")
        bad = (length < 12) | ((length & 3) != 0) | (length > MAX_BLOCK_BYTES)
        bad |= column(heads, 0, self._order + "u4") == SECTION_HEADER
        following: Offsets = at + length
        bad |= following > self._size
        if bad.any():
            following[bad] = -1
        return following

    def candidates(self, windows: Bytes, count: int) -> NDArray[np.bool_]:
        # An enhanced packet block: its type, and a length that is a multiple of 4.
        kind = ENHANCED_PACKET.to_bytes(4, "little" if self._little else "big")
        high, low = (7, 4) if self._little else (4, 7)
        result: NDArray[np.bool_] = windows[:, high : high + count] == 0
        for index, byte in enumerate(kind):
            result &= windows[:, index : index + count] == byte
        result &= (windows[:, low : low + count] & 3) == 0
        return result

    def plausible(self, at: Offsets) -> NDArray[np.bool_]:
        heads = self._windows.at(at, 8)
        length = column(heads, 4, self._order + "u4").astype(np.int64)
        result: NDArray[np.bool_] = (length >= 12) & (length <= MAX_BLOCK_BYTES)
        result &= at + length <= self._size
        trailers = self._windows.at(np.where(result, at + length - TRAILER_BYTES, 0), 4)
        result &= column(trailers, 0, self._order + "u4") == length
        return result
