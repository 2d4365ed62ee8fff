"""Facts made by hand: arrivals of payload, and the exchanges in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from capture_analyzer.model.causes import CAUSE_NAMES
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.events import Events
from capture_analyzer.model.exchanges import Exchange, Exchanges
from capture_analyzer.model.frames import Frames
from capture_analyzer.model.holes import HOLE_KINDS, Holes
from capture_analyzer.model.lookups import Lookup
from capture_analyzer.model.tls_records import HandshakeMessage, HandshakeMessages, TlsRecords
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes import find_waits
from capture_analyzer.pipeline.causes.facts import Facts
from capture_analyzer.pipeline.join import join
from capture_analyzer.pipeline.reassemble import Streams
from capture_analyzer.pipeline.tcp.facts import TcpFacts
from capture_analyzer.pipeline.tcp.limits import Path
from capture_analyzer.pipeline.tcp.round_trips import Minima, RoundTrips
from capture_analyzer.pipeline.timeline import resolve

MS = 1_000_000

Hole = tuple[str, str, float, float | None]
"""kind, "c" or "s" (whose bytes), opened, filled (ms; None = never); of connection 0."""

Place = tuple[int, int]
"""Stream offset and length of a hole."""


@dataclasses.dataclass
class Story:
    """What happened, in ms. Arrivals: (connection, "c" or "s", time, bytes), in any order."""

    hand_made: ModuleType
    arrivals: list[tuple[int, str, float, int]]
    connections: list[Connection] = dataclasses.field(default_factory=list)
    holes: list[Hole] = dataclasses.field(default_factory=list)
    places: list[Place] = dataclasses.field(default_factory=list)
    """Where the holes lie, one each; empty = anywhere."""
    lookups: list[Lookup] = dataclasses.field(default_factory=list)
    samples: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    """New minima of connection 0's round trip: (time, round trip)."""
    records: TlsRecords = dataclasses.field(default_factory=TlsRecords)
    handshakes: list[HandshakeMessage] = dataclasses.field(default_factory=list)
    exchanges: list[Exchange] = dataclasses.field(default_factory=list)
    events: Events = dataclasses.field(default_factory=Events)
    frames: Frames = dataclasses.field(default_factory=Frames)
    in_stream_order: list[tuple[int, str, float]] = dataclasses.field(default_factory=list)
    """Arrivals in the order of their bytes, where that is not the order of their times."""

    def __post_init__(self) -> None:
        self.arrivals.sort(key=lambda arrival: arrival[2])
        if not self.connections:
            self.connections = [self.hand_made.connection(0)]

    def exchange(
        self,
        request: tuple[float, float],
        answer: tuple[float, float] | None,
        end: float | None = None,
        *,
        connection: int = 0,
        usable: float | None = None,
        **columns: Any,
    ) -> None:
        """An exchange by the times of its first and last request and answer bytes."""
        last = max(request[1], answer[1] if answer else request[1], end or 0)
        values: dict[str, Any] = {
            "exchange_no": len(self.exchanges),
            "connection_no": connection,
            "stream_id": None,
            "protocol": "http/1.1",
            "kind": "http",
            "inferred": False,
            "start_ns": int(request[0] * MS),
            "request_start_ns": int(request[0] * MS),
            "request_end_ns": int(request[1] * MS),
            "end_ns": int(last * MS),
            "last_ns": int(last * MS),
            "request_first_packet_no": self._packet(connection, "c", request[0]),
            "request_last_packet_no": self._packet(connection, "c", request[1]),
        }
        if answer:
            start = answer[0] if usable is None else usable
            values |= {
                "response_seen_ns": int(answer[0] * MS),
                "response_start_ns": int(start * MS),
                "response_first_packet_no": self._packet(connection, "s", answer[0]),
                "response_last_packet_no": self._packet(connection, "s", answer[1]),
            }
        self.exchanges.append(Exchange(**(values | columns)))

    def _packet(self, connection: int, side: str, time: float) -> int:
        for number, arrival in enumerate(self.arrivals, 1):
            if arrival[:3] == (connection, side, time):
                return number
        raise AssertionError(f"nothing arrived from {side} at {time} ms")

    def facts(self) -> Facts:
        table, setups = join(Exchanges.of(self.exchanges), self.connections, self.lookups)
        self.exchanges[:] = table
        packets = self.hand_made.packets(
            max(1, len(self.arrivals)),
            time_ns=[int(a[2] * MS) for a in self.arrivals] or 0,
        )
        none = np.empty(0, np.int64)
        when = np.array([int(time * MS) for time, _ in self.samples], np.int64)
        took = np.array([int(trip * MS) for _, trip in self.samples], np.int64)
        tcp = TcpFacts(
            connections=self.connections,
            holes=_holes(self.holes, self.places),
            round_trips=RoundTrips(
                Minima(none, none, none), Minima(np.zeros(len(when), np.int64), when, took)
            ),
            anomalies=[],
            path=Path.nothing(),
        )
        return Facts.of(
            table,
            setups,
            packets,
            tcp,
            self._streams(),
            self.records,
            HandshakeMessages.of(self.handshakes),
            self.events,
            self.frames,
        )

    def _streams(self) -> Streams:
        rows = [
            (2 * connection + (side == "s"), int(time * MS), size, number)
            for number, (connection, side, time, size) in enumerate(self.arrivals, 1)
        ]
        place = {
            (2 * connection + (side == "s"), int(time * MS)): index
            for index, (connection, side, time) in enumerate(self.in_stream_order)
        }
        rows.sort(key=lambda row: (row[0], place.get(row[:2], 0)))
        stream, seen, size, packet = np.array(rows, np.int64).reshape(-1, 4).T
        count = 2 * len(self.connections)
        bounds = np.searchsorted(stream, np.arange(count + 1))
        before = np.append(0, np.cumsum(size))
        return Streams(
            bounds=bounds,
            starts=before[:-1] - before[bounds[stream]],
            lengths=size,
            packet_nos=packet.astype(np.int32),
            seen_ns=seen,
            in_order_ns=seen,
            buffer_nos=np.zeros(len(rows), np.uint16),
            buffer_offsets=np.zeros(len(rows), np.int64),
            buffers=[b""],
            end=np.zeros(count, np.int64),
            mid_stream=np.zeros(count, np.bool_),
            fin_ns=np.full(count, NO_TIME),
            reset_ns=np.full(count // 2, NO_TIME),
        )

    def waits(self, cause: str | None = None) -> list[tuple[int, str, float, float]]:
        """(exchange, cause, from, to) of all waits, or of one cause."""
        table = find_waits(self.facts())
        rows = [
            (int(x), CAUSE_NAMES[c], a / MS, b / MS)
            for x, c, a, b in zip(
                table.exchange_no, table.cause, table.from_ns, table.to_ns, strict=True
            )
        ]
        return [row for row in rows if cause in (None, row[1])]

    def table(self) -> Waits:
        return find_waits(self.facts())

    def ledger(self, exchange: int = 0) -> list[tuple[str, float]]:
        """(cause, ms) of an exchange's entries."""
        waits = find_waits(self.facts())
        table = resolve(Exchanges.of(self.exchanges), waits)
        rows = table.rows_of(exchange)
        return [
            (CAUSE_NAMES[cause], (to - begin) / MS)
            for cause, begin, to in zip(
                table.cause[rows].tolist(),
                table.from_ns[rows].tolist(),
                table.to_ns[rows].tolist(),
                strict=True,
            )
        ]


def _holes(rows: list[Hole], places: list[Place]) -> Holes:
    count = len(rows)
    places = places or [(number, 1) for number in range(count)]
    return Holes(
        connection_no=np.zeros(count, np.int32),
        from_client=np.array([row[1] == "c" for row in rows], np.bool_),
        offset=np.array([offset for offset, _ in places], np.int64),
        length=np.array([length for _, length in places], np.int64),
        kind=np.array([HOLE_KINDS.index(row[0]) for row in rows], np.uint8),
        opened_ns=np.array([int(row[2] * MS) for row in rows], np.int64),
        filled_ns=np.array(
            [NO_TIME if row[3] is None else int(row[3] * MS) for row in rows], np.int64
        ),
        opened_packet_no=np.arange(1001, 1001 + count, dtype=np.int32),
        filled_packet_no=np.arange(2001, 2001 + count, dtype=np.int32),
        confidence=np.full(count, 0.9, np.float32),
    )


@pytest.fixture
def story(hand_made: ModuleType) -> Callable[..., Story]:
    """Makes a Story: story(arrivals, connections=..., holes=..., ...)."""

    def make(arrivals: list[tuple[int, str, float, int]], **parts: Any) -> Story:
        return Story(hand_made, arrivals, **parts)

    return make
