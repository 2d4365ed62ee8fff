"""What the blocks of one pcapng section say.

A section has its own byte order and its own interfaces, which its packets refer to by number.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.capture import Interface
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.readers.pcapng.blocks import (
    CUSTOM,
    ENHANCED_PACKET,
    INTERFACE,
    JOURNAL,
    NAMES,
    OBSOLETE_PACKET,
    SECRETS,
    SIMPLE_PACKET,
    STATISTICS,
    TRAILER_BYTES,
    block_length,
    options,
)
from capture_analyzer.readers.pcapng.clock import ticks_per_second, to_ns
from capture_analyzer.wire.text import printable
from capture_analyzer.wire.windows import Bytes, Offsets, Windows, column

TLS_KEY_LOG: Final = 0x544C534B
"""Secrets type "TLSK": the contents of a TLS key log file."""

PACKET_HEAD_BYTES: Final = 28
"""Of an enhanced (or obsolete) packet block, before the packet's bytes."""
SIMPLE_HEAD_BYTES: Final = 12

MAX_INTERFACES: Final = 65_535
"""What the packets table can number."""

MAX_SECRETS_BYTES: Final = 256 << 20
"""A key log takes some hundred bytes a connection."""

DEFAULT_RESOLUTION: Final = 6  # 10^-6 s

MAX_NAMES: Final = 100_000
"""Names that a file gives to addresses: more than anybody resolves."""

_MOST_PACKET_OPTIONS: Final = 16  # of a packet that are looked at for a drop count

_IF_NAME, _IF_TSRESOL, _IF_TSOFFSET = 2, 9, 14
_EPB_DROPCOUNT: Final = 4
_NAME_RECORDS: Final = {1: 4, 2: 16}  # kind of a name record -> bytes of the address in it
_UNKNOWN_DROPS: Final = 0xFFFF
_ISB_IFRECV, _ISB_IFDROP, _ISB_OSDROP = 4, 5, 7


@quick_dataclass
class Index:
    """Columns of some packets, in file order."""

    time_ns: NDArray[np.int64]  # since 1970, or NO_TIME
    interface_no: NDArray[np.uint16]
    data_offset: Offsets
    captured_bytes: NDArray[np.uint32]
    original_bytes: NDArray[np.uint32]


@quick_dataclass
class Found:
    """What all sections read so far hold together.

    Attributes:
        interfaces: numbered over all sections.
        clocks: resolution byte and offset in seconds of each of them.
        secrets: key logs.
        secrets_bytes: their size together.
        packets: packets, by section.
        out_of_range: packets whose time stamps are absurd.
        names: names of addresses.
        foreign: blocks that hold no packet and are numbered as frames by Wireshark all the same.
    """

    interfaces: list[Interface] = dataclasses.field(default_factory=list)
    clocks: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    secrets: list[bytes] = dataclasses.field(default_factory=list)
    packets: list[Index] = dataclasses.field(default_factory=list)
    secrets_bytes: int = 0
    names: dict[str, str] = dataclasses.field(default_factory=dict)
    out_of_range: int = 0
    foreign: int = 0


class Section:
    """Reads the blocks of one section into `found`."""

    def __init__(self, windows: Windows, order: str, found: Found) -> None:
        self._windows = windows
        self._buffer = windows.buffer
        self._order = order
        self._found = found
        self._base = len(found.interfaces)  # number of the section's first interface

    def read(self, blocks: Offsets) -> tuple[int, str]:
        """Read whole blocks that begin at these offsets.

        Returns:
            (-1, "") if all is well; else where the first damaged packet block begins and what
            is wrong with it. The packets before it have been read.
        """
        found = self._found
        types = column(self._windows.at(blocks, 4), 0, self._order + "u4")
        declared = blocks[types == INTERFACE]
        for at in declared.tolist():
            if len(found.interfaces) >= MAX_INTERFACES:
                break
            self._interface(at)
        for at in blocks[types == STATISTICS].tolist():
            self._statistics(at)
        for at in blocks[types == SECRETS].tolist():
            self._secrets(at)
        for at in blocks[types == NAMES].tolist():
            self._names(at)
        for kind in (JOURNAL, *CUSTOM):
            found.foreign += int((types == kind).sum())
        is_packet = (types == ENHANCED_PACKET) | (types == OBSOLETE_PACKET)
        is_packet |= types == SIMPLE_PACKET
        return self._packets(blocks[is_packet], types[is_packet], declared)

    def _interface(self, at: int) -> None:
        """Interface Description Block: link type, snap length, name, how it counts time."""
        link_type = snap_length = 0
        if block_length(self._buffer, self._order, at) >= 20:
            link_type, _, snap_length = struct.unpack_from(
                self._order + "HHI", self._buffer, at + 8
            )
        name, resolution, offset_s = None, DEFAULT_RESOLUTION, 0
        for code, value in options(self._buffer, self._order, at, at + 16):
            if code == _IF_NAME:
                name = value.rstrip(b"\0").decode("utf-8", "replace")
            elif code == _IF_TSRESOL and len(value) == 1:
                resolution = value[0]
            elif code == _IF_TSOFFSET and len(value) == 8:
                (offset_s,) = struct.unpack(self._order + "q", value)
        number = len(self._found.interfaces)
        self._found.interfaces.append(
            Interface(number, 0, link_type, snap_length, ticks_per_second(resolution), name)
        )
        self._found.clocks.append((resolution, offset_s))

    def _statistics(self, at: int) -> None:
        """Interface Statistics Block: counters since the start, so the last one holds."""
        if block_length(self._buffer, self._order, at) < 24:
            return
        (number,) = struct.unpack_from(self._order + "I", self._buffer, at + 8)
        if self._base + number >= len(self._found.interfaces):
            return
        interface = self._found.interfaces[self._base + number]
        dropped: list[int] = []
        for code, value in options(self._buffer, self._order, at, at + 20):
            if len(value) == 8 and code in (_ISB_IFRECV, _ISB_IFDROP, _ISB_OSDROP):
                (count,) = struct.unpack(self._order + "Q", value)
                if code == _ISB_IFRECV:
                    interface.received_count = count
                else:
                    dropped.append(count)  # by the interface, by the operating system
        if dropped:
            interface.dropped_count = sum(dropped)

    def _secrets(self, at: int) -> None:
        """Decryption Secrets Block: TLS key logs are kept."""
        length = block_length(self._buffer, self._order, at)
        if length < 20:
            return
        kind, size = struct.unpack_from(self._order + "II", self._buffer, at + 8)
        if kind != TLS_KEY_LOG or size > length - 20:
            return
        if self._found.secrets_bytes + size <= MAX_SECRETS_BYTES:
            self._found.secrets_bytes += size
            self._found.secrets.append(bytes(self._buffer[at + 16 : at + 16 + size]))

    def _names(self, at: int) -> None:
        """Name Resolution Block: addresses and their names; the first of each is kept."""
        end = at + block_length(self._buffer, self._order, at) - TRAILER_BYTES
        begin = at + 8
        names = self._found.names
        while begin + 4 <= end and len(names) < MAX_NAMES:
            kind, size = struct.unpack_from(self._order + "HH", self._buffer, begin)
            begin += 4
            if kind == 0 or begin + size > end:
                return
            address_bytes = _NAME_RECORDS.get(kind, size)
            value = bytes(self._buffer[begin : begin + size])
            name = value[address_bytes:].partition(b"\0")[0]
            if name:
                address = str(ipaddress.ip_address(value[:address_bytes]))
                names.setdefault(address, printable(name).lower().rstrip("."))
            begin += size + -size % 4

    def _packets(
        self, blocks: Offsets, types: NDArray[np.uint32], declared: Offsets
    ) -> tuple[int, str]:
        """Index packet blocks; `declared` is where interfaces are. Returns as `read` does."""
        if not len(blocks):
            return -1, ""
        heads = self._windows.at(blocks, PACKET_HEAD_BYTES)

        def field(offset: int, size: int = 4) -> NDArray[Any]:
            return column(heads, offset, f"{self._order}u{size}")

        number = field(8).astype(np.int64)
        captured, original = field(20).astype(np.int64), field(24).astype(np.uint32)
        room = field(4).astype(np.int64) - (PACKET_HEAD_BYTES + TRAILER_BYTES)
        data_offset = blocks + PACKET_HEAD_BYTES
        obsolete = types == OBSOLETE_PACKET
        if obsolete.any():
            number[obsolete] = field(8, 2)[obsolete]
        simple = types == SIMPLE_PACKET
        if simple.any():
            number[simple] = 0
            original[simple] = field(8)[simple]
            data_offset[simple] = blocks[simple] + SIMPLE_HEAD_BYTES
            room[simple] += PACKET_HEAD_BYTES - SIMPLE_HEAD_BYTES
            captured[simple] = self._simple_captured(original[simple], room[simple])
        unknown = self._unknown(number, blocks, declared)
        bad = unknown | (captured > room) | (room < 0)
        whole = int(np.argmax(bad)) if bad.any() else len(blocks)
        interface_no, simple = number[:whole] + self._base, simple[:whole]
        time_ns = self._times(heads[:whole], interface_no)
        self._found.out_of_range += int(((time_ns == NO_TIME) & ~simple).sum())
        time_ns[simple] = NO_TIME  # such a block has no time stamp
        self._found.packets.append(
            Index(
                time_ns,
                interface_no.astype(np.uint16),
                data_offset[:whole],
                captured[:whole].astype(np.uint32),
                original[:whole],
            )
        )
        drops = np.zeros(whole, np.int64)
        if obsolete.any():
            stated = field(10, 2)[:whole].astype(np.int64)
            drops = np.where(obsolete[:whole] & (stated != _UNKNOWN_DROPS), stated, 0)
        self._drops(drops, interface_no, data_offset[:whole], captured[:whole], room[:whole])
        if whole == len(blocks):
            return -1, ""
        if unknown[whole] and room[whole] >= 0:
            return int(blocks[whole]), "names an interface that is not declared"
        return int(blocks[whole]), "is too short"

    def _drops(
        self,
        drops: NDArray[np.int64],
        interface_no: NDArray[np.int64],
        data_offset: Offsets,
        captured: NDArray[np.int64],
        room: NDArray[np.int64],
    ) -> None:
        """Add up the packets lost before each packet; what statistics say comes before that.

        Args:
            drops: as obsolete blocks state them; those of options are added here.
            interface_no: of each packet.
            data_offset: where its bytes begin.
            captured: how many they are.
            room: how many bytes the block has for them and for options.
        """
        used = captured + -captured % 4
        rows = np.flatnonzero(room >= used + 4)
        at = data_offset[rows] + used[rows]
        end = data_offset[rows] + room[rows]
        for _ in range(_MOST_PACKET_OPTIONS):
            if not len(rows):
                break
            heads = self._windows.at(at, 12)
            code, size = (column(heads, i, self._order + "u2").astype(np.int64) for i in (0, 2))
            mine = (code == _EPB_DROPCOUNT) & (size == 8) & (at + 12 <= end)
            # A count past 2^31 is nonsense; the upper half of it counts for nothing.
            low = column(heads, 4 if self._order == "<" else 8, self._order + "u4")
            drops[rows[mine]] += low[mine]
            at = at + 4 + size + -size % 4
            going = (code != 0) & (at + 4 <= end)
            rows, at, end = rows[going], at[going], end[going]
        if not drops.any():
            return
        sums = np.bincount(interface_no, drops)
        for number in np.flatnonzero(sums).tolist():
            interface = self._found.interfaces[number]
            if interface.dropped_count is None:
                interface.dropped_count = int(sums[number])

    def _simple_captured(
        self, original: NDArray[np.uint32], room: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Captured lengths of Simple Packet Blocks: not stated, but limited by the snap length."""
        captured = np.minimum(original.astype(np.int64), room)
        if self._base < len(self._found.interfaces):
            snap_length = self._found.interfaces[self._base].snap_length
            if snap_length:
                captured = np.minimum(captured, snap_length)
        return captured

    def _unknown(
        self, number: NDArray[np.int64], blocks: Offsets, declared: Offsets
    ) -> NDArray[np.bool_]:
        """Which packets refer to an interface that was not declared before them."""
        known = len(self._found.interfaces) - self._base
        if known and len(declared) == known and int(declared[-1]) < int(blocks[0]):
            return number >= known
        return number >= np.minimum(np.searchsorted(declared, blocks), known)

    def _times(self, heads: Bytes, interface_no: NDArray[np.int64]) -> NDArray[np.int64]:
        """Time stamps of packet blocks, by each interface's clock."""
        ticks = column(heads, 12, self._order + "u4").astype(np.uint64) << np.uint64(32)
        ticks |= column(heads, 16, self._order + "u4")
        if not len(ticks):
            return np.empty(0, np.int64)
        first = int(interface_no[0])
        if (interface_no == first).all():
            return to_ns(ticks, *self._found.clocks[first])
        # By clock, not by interface: a file can have thousands of interfaces, with few clocks.
        clocks = sorted(set(self._found.clocks[self._base :]))
        kinds = {clock: kind for kind, clock in enumerate(clocks)}
        kind_of = np.array([kinds[clock] for clock in self._found.clocks[self._base :]])
        kind = kind_of[interface_no - self._base]
        time_ns = np.empty(len(ticks), np.int64)
        order = np.argsort(kind, kind="stable")
        begins = np.flatnonzero(np.diff(kind[order], prepend=-1)).tolist()
        for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
            some = order[begin:end]
            time_ns[some] = to_ns(ticks[some], *clocks[int(kind[some[0]])])
        return time_ns
