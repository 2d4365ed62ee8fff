"""The results of all batches as one: connections get their final numbers."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.column import describe, is_constant
from capture_analyzer.model.exchanges import Exchanges
from capture_analyzer.model.frames import Frames
from capture_analyzer.model.holes import Holes
from capture_analyzer.model.limits import Limits, Queues
from capture_analyzer.model.room import Line, Room
from capture_analyzer.model.tls_records import HandshakeMessages, TlsRecords
from capture_analyzer.pipeline.batches import Analysed
from capture_analyzer.pipeline.certificates import Presented
from capture_analyzer.pipeline.dissect import Dissected
from capture_analyzer.pipeline.lists import starts_of
from capture_analyzer.pipeline.reassemble import Streams
from capture_analyzer.pipeline.redact import Redactor
from capture_analyzer.pipeline.tcp import TcpFacts
from capture_analyzer.pipeline.tcp.limits import Path
from capture_analyzer.pipeline.tcp.round_trips import Minima, RoundTrips

T = TypeVar("T")


class _Numbered(Protocol):
    connection_no: int


class _NumberedColumns(Protocol):
    connection_no: Any  # an array of integers


Row = TypeVar("Row", bound=_Numbered)
Table = TypeVar("Table", bound=_NumberedColumns)


_MORE: Final = 1.05  # so much more may the other batches bring than the first one did


class EndToEnd:
    """Puts the long columns of batches end to end as they come, so that merging copies none.

    Room is made for what all batches will bring if they are like the first one.

    Args:
        packets: packets of all batches.
    """

    def __init__(self, packets: int) -> None:
        self._packets = packets
        self._lines: dict[tuple[type, str], Line] = {}

    def place(self, part: Analysed, packets: int) -> None:
        """Put the columns of the next batch, of so many packets, behind those before."""
        if not 0 < packets < self._packets:
            return  # it is the only one
        dissected = part.dissected
        for table in (part.streams, dissected.tls_records, dissected.frames):
            for name in _columns_of(type(table)):
                column = getattr(table, name)
                if is_constant(column):
                    continue
                line = self._lines.get((type(table), name))
                if line is None:
                    expected = int(len(column) * self._packets / packets * _MORE)
                    line = self._lines[type(table), name] = Line(expected, column.dtype)
                setattr(table, name, line.add(column))


def merge(
    parts: Sequence[Analysed],
    buffers: Sequence[memoryview | bytes],
    redactor: Redactor,
    room: Room,
) -> Analysed:
    """Put the results of batches together; they are used up.

    Args:
        parts: of all batches, in order.
        buffers: of the capture, which the streams lie in.
        redactor: gets their counts.
        room: where columns lie.
    """
    firsts = starts_of(np.array([len(part.tcp.connections) for part in parts], np.int64)).tolist()

    def rows(get: Callable[[Analysed], Iterable[Row]]) -> list[Row]:
        """Rows of all batches, numbered."""
        merged: list[Row] = []
        for part, first in zip(parts, firsts, strict=True):
            mine = get(part)
            if first:
                for row in mine:
                    row.connection_no += first
            merged += mine
        return merged

    def anomalies(get: Callable[[Analysed], Iterable[Anomaly]]) -> list[Anomaly]:
        for part, first in zip(parts, firsts, strict=True):
            for row in get(part):
                if row.connection_no is not None:
                    row.connection_no += first
        return list(itertools.chain.from_iterable(map(get, parts)))

    def columns(table: type[Table], get: Callable[[Analysed], Table]) -> Table:
        """Columns of all batches, numbered."""
        tables = [get(part) for part in parts]
        for one, first in zip(tables, firsts, strict=True):
            if first:
                one.connection_no += one.connection_no.dtype.type(first)
        return _columns(table, tables, room)

    def minima(get: Callable[[Analysed], Minima]) -> Minima:
        numbers = [
            get(part).connection_no + first for part, first in zip(parts, firsts, strict=True)
        ]
        return Minima(
            _joined(numbers),
            _joined([get(part).time_ns for part in parts]),
            _joined([get(part).rtt_ns for part in parts]),
        )

    for part, first in zip(parts, firsts, strict=True):
        redactor.count(part.redaction)
        for message in part.dissected.messages:
            for interim in message.interim:
                interim.connection_no += first
        part.exchanges.columns.connection_no += np.int32(first)
        for _, row in part.exchanges.made():
            row.connection_no += first
    presented = Presented()
    for part, first in zip(parts, firsts, strict=True):
        presented.merge(part.dissected.presented, first)
    connections = rows(lambda part: part.tcp.connections)
    return Analysed(
        tcp=TcpFacts(
            connections=connections,
            holes=columns(Holes, lambda part: part.tcp.holes),
            round_trips=RoundTrips(
                client=minima(lambda part: part.tcp.round_trips.client),
                server=minima(lambda part: part.tcp.round_trips.server),
            ),
            anomalies=anomalies(lambda part: part.tcp.anomalies),
            limits=columns(Limits, lambda part: part.tcp.limits),
            queues=columns(Queues, lambda part: part.tcp.queues),
            path=Path.joined([part.tcp.path for part in parts]),
        ),
        streams=_streams([part.streams for part in parts], buffers, room),
        dissected=Dissected(
            messages=rows(lambda part: part.dissected.messages),
            frames=columns(Frames, lambda part: part.dissected.frames),
            tls_records=columns(TlsRecords, lambda part: part.dissected.tls_records),
            handshake_messages=columns(
                HandshakeMessages, lambda part: part.dissected.handshake_messages
            ),
            anomalies=anomalies(lambda part: part.dissected.anomalies),
            presented=presented,
        ),
        exchanges=Exchanges.joined([part.exchanges for part in parts], connections),
        redaction=redactor.counts,
    )


def _streams(
    parts: Sequence[Streams], buffers: Sequence[memoryview | bytes], room: Room
) -> Streams:
    """All streams, end to end."""
    counts = np.array([part.bounds[-1] for part in parts], np.int64)
    bounds = [part.bounds[1:] + begin for part, begin in zip(parts, starts_of(counts), strict=True)]
    columns: dict[str, Any] = {name: _taken(parts, name, room) for name in _columns_of(Streams)}
    return Streams(bounds=_joined([np.zeros(1, np.int64), *bounds]), buffers=buffers, **columns)


def _columns_of(table: type) -> list[str]:
    """Names of the columns of a table, or of those of `Streams` that can be put end to end."""
    if table is not Streams:
        return [column.name for column in describe(table) if column.doc]
    others = ("bounds", "buffers", "origins")
    return [field.name for field in dataclasses.fields(Streams) if field.name not in others]


def _columns(table: type[Table], parts: Sequence[Table], room: Room) -> Table:
    """Column tables end to end."""
    return table(**{name: _taken(parts, name, room) for name in _columns_of(table)})


def _taken(parts: Sequence[Any], name: str, room: Room) -> NDArray[Any]:
    """A column of all parts; they give it up, so that memory holds one column twice at most."""
    column = room.joined([getattr(part, name) for part in parts])
    for part in parts:
        setattr(part, name, np.empty(0, column.dtype))
    return column


def _joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
