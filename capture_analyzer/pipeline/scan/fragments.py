"""IP fragments → whole datagrams (RFC 791, RFC 8200 section 4.5).

A datagram is there when its last missing part was captured, and it belongs to the packet that
brought it. Parts that overlap are refused, as receivers do (RFC 5722); exact copies are
passed over. Fragments are rare, so this is a loop over them.
"""

from __future__ import annotations

import dataclasses
import itertools
from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Origin
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.scan.area import Area
from capture_analyzer.pipeline.scan.tally import Tally
from capture_analyzer.protocols.ip import Datagrams
from capture_analyzer.readers.spool import Spool
from capture_analyzer.wire.windows import column

TIMEOUT_NS: Final = 60_000_000_000
"""Parts further apart belong to different datagrams (RFC 8200: 60 seconds)."""

MAX_DATAGRAM_BYTES: Final = 65_535
"""Longest payload of an IP datagram; a fragment that reaches beyond is an attack."""

MAX_ASSEMBLED_BYTES: Final = 2 << 30
"""Most bytes of whole datagrams; they lie in a temporary file. Fragments are an exception on
networks with path MTU discovery: so many are found where the capture is one of little else."""

_V6_HEADER_BYTES: Final = 8

_INCOMPLETE: Final = "IP fragments without the other parts of their datagrams"
_CONTRADICTING: Final = "IP fragments that overlap or contradict each other"


@quick_dataclass
class Assembled:
    """Whole datagrams, by packet.

    Attributes:
        buffer: their payloads, end to end.
        packets: index of the packet that completed each, ascending.
        version: IP version.
        protocol: what the datagram carries.
        offset: where its payload lies in `buffer`.
        length: its length on the wire.
        captured: how much of it is there (up to the first byte that was not captured).
    """

    buffer: memoryview | bytes
    packets: NDArray[np.intp]
    version: NDArray[np.uint8]
    protocol: NDArray[np.uint8]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    captured: NDArray[np.int64]


class Fragments:
    """Gathers fragments as they are scanned; `assemble` puts them together."""

    def __init__(self) -> None:
        self._buffers: list[memoryview | bytes] = []
        self._columns: list[tuple[NDArray[Any], ...]] = []

    def __bool__(self) -> bool:
        return bool(self._columns)

    def add(
        self,
        area: Area,
        version: int,
        datagrams: Datagrams,
        ends: tuple[NDArray[np.int32], NDArray[np.int32]],
    ) -> None:
        """Take fragments of one IP version.

        Args:
            area: what is behind their IP headers; in IPv6 it begins with the fragment header.
            version: 4 or 6.
            datagrams: the headers.
            ends: their source and destination addresses, as numbers.
        """
        if version == 4:
            assert datagrams.identification is not None
            assert datagrams.fragment is not None
            number = datagrams.identification.astype(np.int64)
            begin = (datagrams.fragment & np.uint16(0x1FFF)).astype(np.int32) * np.int32(8)
            more = (datagrams.fragment & np.uint16(0x2000)) != 0
            protocol = kind = datagrams.protocol
        else:
            heads = area.windows.at(area.at, _V6_HEADER_BYTES)
            number = column(heads, 4, ">u4").astype(np.int64)
            where = column(heads, 2, ">u2")
            begin, more = (where & 0xFFF8).astype(np.int32), (where & 1) != 0
            protocol = heads[:, 0].copy()
            kind = np.zeros(len(area), np.uint8)  # only the first part's counts
            area = area.behind(_V6_HEADER_BYTES)
        self._columns.append(
            (
                area.rows,
                np.full(len(area), version, np.uint8),
                ends[0],
                ends[1],
                kind,
                number,
                begin,
                np.clip(area.length, -1, 1 << 30).astype(np.int32),
                more,
                protocol,
                np.full(len(area), len(self._buffers), np.int32),
                area.at,
                np.clip(area.captured, 0, np.maximum(area.length, 0)).astype(np.int32),
            )
        )
        self._buffers.append(area.windows.buffer)

    def assemble(self, time_ns: NDArray[np.int64], tally: Tally) -> Assembled | None:
        """Put the fragments together; what can't be is counted in `tally`.

        Args:
            time_ns: time of every packet.
            tally: of packets that were not decoded.
        """
        columns = [np.concatenate(parts) for parts in zip(*self._columns, strict=True)]
        self._columns.clear()
        order = np.lexsort([columns[0], *columns[1:6]])
        for place, values in enumerate(columns):
            columns[place] = values[order]
        packets = columns[0]
        new = np.zeros(len(packets), np.bool_)
        for values in columns[1:6]:
            new[1:] |= values[1:] != values[:-1]
        bounds = np.concatenate(([0], np.flatnonzero(new), [len(packets)]))
        parts = _Parts(self._buffers, time_ns[packets], *columns[6:])
        for first, last in itertools.pairwise(bounds.data):
            parts.walk(first, last)
        _count(tally, "ip-fragment", "capture", _INCOMPLETE, packets[parts.incomplete])
        _count(tally, "ip-malformed", "peer", _CONTRADICTING, packets[parts.refused])
        whole = sorted(parts.whole, key=lambda pieces: int(packets[pieces.last]))
        parts.whole.clear()
        if not whole:
            return None
        offset: list[int] = []
        captured: list[int] = []
        buffer, over = Spool(MAX_ASSEMBLED_BYTES).take(parts.contents(whole, offset, captured))
        if over:
            fitting = sum(
                at + size <= len(buffer) for at, size in zip(offset, captured, strict=True)
            )
            detail = f"fragmented datagrams past {MAX_ASSEMBLED_BYTES:,} bytes in all"
            left = packets[[pieces.last for pieces in whole[fitting:]]]
            del whole[fitting:], offset[fitting:], captured[fitting:]
            _count(tally, "fragment-limit", "analyzer", detail, left)
        ends = np.array([pieces.last for pieces in whole], np.intp)
        begins = np.array([pieces.parts[0] for pieces in whole], np.intp)
        return Assembled(
            buffer=buffer,
            packets=packets[ends],
            version=columns[1][ends].astype(np.uint8),
            protocol=columns[9][begins].astype(np.uint8),
            offset=np.array(offset, np.int64),
            length=np.array([pieces.total for pieces in whole], np.int64),
            captured=np.array(captured, np.int64),
        )


class _Whole(NamedTuple):
    """A datagram that is complete: its parts in order, and the one that came last."""

    parts: array[int]
    last: int
    total: int


@quick_dataclass
class _Datagram:
    """One that is being put together: where its parts begin, ascending, and which they are."""

    first_ns: int
    begins: list[int] = dataclasses.field(default_factory=list)
    places: dict[int, int] = dataclasses.field(default_factory=dict)  # begin -> part
    total: int = -1
    have: int = 0
    bad: bool = False


class _Parts:
    """The parts, by datagram identity and then capture order."""

    def __init__(
        self,
        buffers: list[memoryview | bytes],
        time_ns: NDArray[np.int64],
        begin: NDArray[np.int32],
        length: NDArray[np.int32],
        more: NDArray[np.bool_],
        _protocol: NDArray[np.uint8],
        buffer: NDArray[np.int32],
        at: NDArray[np.int64],
        captured: NDArray[np.int32],
    ) -> None:
        self._buffers = buffers
        # Views give plain numbers, as lists do, and take no memory of their own.
        self._time = time_ns.data
        self._begin = begin.data
        self._length = length.data
        self._more = more.data
        self._buffer = buffer.data
        self._at = at.data
        self._captured = captured.data
        self.whole: list[_Whole] = []
        self.incomplete: list[int] = []
        self.refused: list[int] = []

    def walk(self, first: int, last: int) -> None:
        """Go through the parts first .. last - 1, which share an identification."""
        done: _Datagram | None = None
        current: _Datagram | None = None
        for part in range(first, last):
            now = self._time[part]
            if current is not None and now - current.first_ns > TIMEOUT_NS:
                self._give_up(current)
                current = None
            if current is None:
                if done is not None and self._is_copy(done, part):
                    continue
                current = _Datagram(now)
            if self._is_copy(current, part):
                continue
            self._add(current, part)
            if current.bad:
                self._give_up(current)
                current = None
            elif current.have == current.total:
                parts = array("q", [current.places[begin] for begin in current.begins])
                self.whole.append(_Whole(parts, part, current.total))
                done, current = current, None
        if current is not None:
            self._give_up(current)

    def _give_up(self, datagram: _Datagram) -> None:
        parts = self.refused if datagram.bad else self.incomplete
        parts.extend(datagram.places.values())

    def _is_copy(self, datagram: _Datagram, part: int) -> bool:
        """Whether the datagram has this part, byte by byte."""
        other = datagram.places.get(self._begin[part])
        if other is None or self._length[other] != self._length[part]:
            return False
        return self._bytes(other) == self._bytes(part)

    def _bytes(self, part: int) -> memoryview | bytes:
        at: int = self._at[part]
        buffer: memoryview | bytes = self._buffers[self._buffer[part]]
        return buffer[at : at + self._captured[part]]

    def _add(self, datagram: _Datagram, part: int) -> None:
        begin, length = self._begin[part], self._length[part]
        end = begin + length
        place = bisect_left(datagram.begins, begin)
        # Every part but the last is a multiple of 8 bytes.
        more = bool(self._more[part])
        bad = length <= 0 or end > MAX_DATAGRAM_BYTES or (more and length % 8 != 0)
        if place < len(datagram.begins):
            bad |= end > datagram.begins[place]
        if place:
            before = datagram.begins[place - 1]
            bad |= before + self._length[datagram.places[before]] > begin
        if not more:
            bad |= 0 <= datagram.total != end
            datagram.total = end
        if datagram.total >= 0:
            known = max(end, datagram.begins[-1] if datagram.begins else 0)
            bad |= known > datagram.total
        datagram.bad |= bad
        if begin in datagram.places:
            self.refused.append(part)
            return
        insort(datagram.begins, begin)
        datagram.places[begin] = part
        datagram.have += length

    def contents(
        self, whole: list[_Whole], offset: list[int], captured: list[int]
    ) -> Iterator[bytes]:
        """The bytes of datagrams; notes where each begins and how much of it there is."""
        at = 0
        for datagram in whole:
            pieces: list[memoryview | bytes] = []
            size = 0
            for part in datagram.parts:
                piece = self._bytes(part)
                pieces.append(piece)
                size += len(piece)
                if len(piece) < self._length[part]:
                    break
            offset.append(at)
            captured.append(size)
            at += size
            yield b"".join(pieces)


def _count(tally: Tally, code: str, origin: Origin, detail: str, packets: NDArray[np.intp]) -> None:
    tally.add(code, origin, detail, np.sort(packets))
