"""What the causes look at: columns of all exchanges, and of what happened to them.

Rows of objects become arrays once, here; each cause then works on whole arrays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.holes import HOLE_KINDS, Holes
from capture_analyzer.model.packets import Packets
from capture_analyzer.model.tls_records import HandshakeMessage, TlsRecords
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline import intervals
from capture_analyzer.pipeline.causes.arrivals import (
    Arrivals,
    Pauses,
    first_segment_times,
    pauses_of,
)
from capture_analyzer.pipeline.exchanges.units import Speech
from capture_analyzer.pipeline.intervals import Indices, Times
from capture_analyzer.pipeline.join import Setup
from capture_analyzer.pipeline.reassemble import Streams
from capture_analyzer.pipeline.tcp.facts import TcpFacts

STEP_NS: Final = 1_000_000
"""Between two steps of a set-up a client computes; less than this is part of the step."""

PAUSE_NS: Final = 50_000_000
"""A sender that is only held by its window goes on within a round trip and a delayed
acknowledgement (40 ms on Linux); a longer pause, with a margin of 10 ms, is its own."""

UNKNOWN_RTT_NS: Final = 200_000_000
"""Stands for the round trip in that rule where none was measured: longer than most."""


MEASURED: Final = 0.9
"""Confidence in a round trip that the handshake gave."""

SAMPLED: Final = 0.5
"""In one that only data gave: their acknowledgements may have been delayed."""


@dataclasses.dataclass(slots=True)
class Facts:
    """Columns of all exchanges by exchange_no, and what happened on their connections.

    Instants that do not exist are NO_TIME, packets 0.

    Attributes:
        connection_no: the connection.
        start, request_start, request_end: as in the exchange.
        response_seen, response_start: as in the exchange.
        response_end: the last byte of the response was captured.
        end: its end; the last packet where the capture cuts it.
        asked: its request is in the capture.
        inferred: it is opaque.
        shared: others were open on the connection meanwhile.
        request_first_packet, request_last_packet, response_first_packet,
            response_last_packet: packets.
        delivered: its whole request is known to have reached the server's side of the
            capture point (it may have had to be sent again).
        beyond: the round trip between the capture point and the server, the smallest sample
            so far.
        beyond_trust: confidence in it: less where only data gave samples, which hold the
            server's delayed acknowledgements.
        may_be_h2: its connection may speak HTTP/2.
        first_segment: how long its first response segment took on the slowest link.
        setups: set-ups that an exchange carries.
        setup_of: for each connection, the exchange that carries its set-up (also as a failed
            attempt); -1 = none.
        connections: by number.
        holes: of all connections.
        pauses: of all streams.
        tls_records, handshake_messages: of all connections.
        packet_time: the time of each packet, by packet_no - 1.
        by_connection: exchange numbers by connection, then request.
    """

    connection_no: NDArray[np.int32]
    start: Times
    request_start: Times
    request_end: Times
    response_seen: Times
    response_start: Times
    response_end: Times
    end: Times
    asked: NDArray[np.bool_]
    inferred: NDArray[np.bool_]
    shared: NDArray[np.bool_]
    request_first_packet: NDArray[np.int32]
    request_last_packet: NDArray[np.int32]
    response_first_packet: NDArray[np.int32]
    response_last_packet: NDArray[np.int32]
    delivered: Times
    beyond: Times
    beyond_trust: NDArray[np.float32]
    may_be_h2: NDArray[np.bool_]
    first_segment: Times
    setups: Sequence[Setup]
    setup_of: NDArray[np.int32]
    connections: Sequence[Connection]
    holes: Holes
    pauses: Pauses
    tls_records: TlsRecords
    handshake_messages: Sequence[HandshakeMessage]
    packet_time: Times
    by_connection: Indices

    @classmethod
    def of(
        cls,
        exchanges: Sequence[Exchange],
        setups: Sequence[Setup],
        packets: Packets,
        tcp: TcpFacts,
        streams: Streams,
        tls_records: TlsRecords,
        handshake_messages: Sequence[HandshakeMessage],
    ) -> Facts:
        """Collect the columns.

        Args:
            exchanges: ordered by exchange_no, which is the index.
            setups: as `join` found them.
            packets: all packets.
            tcp: connections, holes, round trips.
            streams: the bytes of all connections.
            tls_records: of all connections.
            handshake_messages: of all connections.
        """
        connection_no = np.array([x.connection_no for x in exchanges], np.int32)
        request_start = np.array([x.request_start_ns for x in exchanges], np.int64)
        last = np.array([x.last_ns for x in exchanges], np.int64)
        end = instants([x.end_ns for x in exchanges])
        first_packet = packet_column([x.request_first_packet_no for x in exchanges])
        response_first = packet_column([x.response_first_packet_no for x in exchanges])
        response_last = packet_column([x.response_last_packet_no for x in exchanges])
        response_seen = instants([x.response_seen_ns for x in exchanges])
        arrivals = Arrivals.of(streams)
        facts = cls(
            connection_no=connection_no,
            start=np.array([x.start_ns for x in exchanges], np.int64),
            request_start=request_start,
            request_end=np.array([x.request_end_ns for x in exchanges], np.int64),
            response_seen=response_seen,
            response_start=instants([x.response_start_ns for x in exchanges]),
            response_end=np.where(
                response_last > 0, packets.time_ns[response_last - 1], response_seen
            ),
            end=np.where(end == NO_TIME, last, end),
            asked=first_packet > 0,
            inferred=np.array([x.inferred for x in exchanges], np.bool_),
            shared=np.array([x.shared_connection for x in exchanges], np.bool_),
            request_first_packet=first_packet,
            request_last_packet=packet_column([x.request_last_packet_no for x in exchanges]),
            response_first_packet=response_first,
            response_last_packet=response_last,
            delivered=np.empty(0, np.int64),
            beyond=_beyond(
                tcp, connection_no, np.where(response_seen == NO_TIME, last, response_seen)
            ),
            beyond_trust=_beyond_trust(tcp.connections)[connection_no],
            may_be_h2=Speech.of(tcp.connections).may_be_h2[connection_no],
            first_segment=first_segment_times(
                arrivals, response_first, len(packets), tcp.connections
            ),
            setups=setups,
            setup_of=setup_owners(setups, len(tcp.connections)),
            connections=tcp.connections,
            holes=tcp.holes,
            pauses=pauses_of(arrivals, _longest_stops(tcp)),
            tls_records=tls_records,
            handshake_messages=handshake_messages,
            packet_time=packets.time_ns,
            by_connection=np.lexsort((request_start, connection_no)),
        )
        facts.delivered = _delivered(facts)
        return facts

    def __len__(self) -> int:
        """Number of exchanges."""
        return len(self.start)

    def exchanges_during(
        self, connection_no: NDArray[np.int32], begins: Times, ends: Times
    ) -> tuple[Indices, Indices]:
        """Pairs of the given spans on connections and exchanges open meanwhile.

        Returns:
            Indices into the spans, and exchange numbers.
        """
        order = self.by_connection
        spans, found = intervals.overlaps(
            self.connection_no[order],
            self.request_start[order],
            self.end[order],
            connection_no,
            begins,
            ends,
        )
        return spans, order[found]

    def hole_waits(self, kind: str, cause: str) -> Waits:
        """Waits for the holes of a kind that held up an exchange.

        A hole in the client's stream holds up the request: it is of no consequence once the
        answer has begun. A hole that was never filled lasts to the exchange's end.
        """
        holes = self.holes
        chosen = np.flatnonzero(holes.kind == HOLE_KINDS.index(kind))
        begins = holes.opened_ns[chosen]
        ends = np.where(
            holes.filled_ns[chosen] == NO_TIME, np.iinfo(np.int64).max, holes.filled_ns[chosen]
        )
        spans, exchange = self.exchanges_during(holes.connection_no[chosen], begins, ends)
        hole = chosen[spans]
        answered = holes.from_client[hole] & (self.response_seen[exchange] != NO_TIME)
        limit = np.where(answered, self.response_seen[exchange], self.end[exchange])
        return self.waits(
            cause,
            exchange,
            np.maximum(begins[spans], self.request_start[exchange]),
            np.minimum(ends[spans], limit),
            holes.confidence[hole],
            holes.opened_packet_no[hole],
            holes.filled_packet_no[hole],
        )

    def waits(
        self,
        cause: str,
        exchange: Indices,
        from_ns: Times,
        to_ns: Times,
        confidence: NDArray[np.float32] | float,
        packet_a: NDArray[np.int32] | None = None,
        packet_b: NDArray[np.int32] | None = None,
    ) -> Waits:
        """Waits of exchanges, in order of exchange, then time; empty ones left out."""
        kept = np.flatnonzero(to_ns > from_ns)
        kept = kept[np.lexsort((from_ns[kept], exchange[kept]))]
        count = len(kept)
        none = np.zeros(count, np.int32)
        return Waits(
            from_ns=from_ns[kept],
            to_ns=to_ns[kept],
            connection_no=self.connection_no[exchange[kept]],
            exchange_no=exchange[kept].astype(np.int32),
            cause=np.full(count, CAUSE_CODE[cause], np.uint8),
            confidence=np.broadcast_to(np.asarray(confidence, np.float32), to_ns.shape)[kept],
            packet_a=none if packet_a is None else packet_a[kept],
            packet_b=none if packet_b is None else packet_b[kept],
            packet_c=none,
        )

    def without_pauses(
        self, from_client: bool, exchange: Indices, begins: Times, ends: Times
    ) -> tuple[Indices, Times, Times]:
        """Spans of exchanges less the pauses of a sender inside them.

        Args:
            from_client: whose pauses.
            exchange: ascending; at most one span an exchange.
            begins: where they begin.
            ends: where they end.

        Returns:
            Exchanges, begins and ends of the rest.
        """
        mine = np.flatnonzero(self.pauses.from_client == from_client)
        spans, other = self.exchanges_during(
            self.pauses.connection_no[mine], self.pauses.from_ns[mine], self.pauses.to_ns[mine]
        )
        at = np.searchsorted(exchange, other)
        at[at == len(exchange)] = 0
        wanted = exchange[at] == other if len(exchange) else np.zeros(len(at), np.bool_)
        spans, other, at = mine[spans[wanted]], other[wanted], at[wanted]
        cut_begins = np.maximum(self.pauses.from_ns[spans], begins[at])
        cut_ends = np.minimum(self.pauses.to_ns[spans], ends[at])
        real = cut_ends > cut_begins
        rest, rest_begins, rest_ends = intervals.subtract(
            exchange.astype(np.int32),
            begins,
            ends,
            other[real].astype(np.int32),
            cut_begins[real],
            cut_ends[real],
        )
        return rest.astype(np.intp), rest_begins, rest_ends


def _beyond(tcp: TcpFacts, connection_no: NDArray[np.int32], until: Times) -> Times:
    """The smallest round trip to the server's side up to an instant; NO_TIME = none.

    At the server itself there is none to take out: what its own stack takes is its time.
    """
    measured = tcp.min_rtt_before(connection_no.astype(np.int64), until)
    handshake = instants([c.server_side_rtt_ns for c in tcp.connections])[connection_no]
    at_server = np.array([c.vantage_side == "server" for c in tcp.connections], np.bool_)
    both = (measured != NO_TIME) & (handshake != NO_TIME)
    # NO_TIME is the least of all numbers, so the greater of two is the one that is known.
    known = np.where(both, np.minimum(measured, handshake), np.maximum(measured, handshake))
    return np.where(at_server[connection_no], 0, known)


def _beyond_trust(connections: Sequence[Connection]) -> NDArray[np.float32]:
    """For each connection the confidence in its round trip to the server."""
    measured = [c.server_side_rtt_ns is not None or c.vantage_side == "server" for c in connections]
    return np.where(np.array(measured, np.bool_), MEASURED, SAMPLED).astype(np.float32)


def _longest_stops(tcp: TcpFacts) -> Times:
    """For each connection how long a sender can stop for its window alone."""
    number = np.arange(len(tcp.connections))
    never = np.full(len(number), np.iinfo(np.int64).max)
    # NO_TIME is negative: a side that was not measured counts nothing.
    client = np.maximum(tcp.min_rtt_before(number, never, "client"), 0)
    server = np.maximum(tcp.min_rtt_before(number, never, "server"), 0)
    handshake = instants([c.rtt_ns for c in tcp.connections])
    both = np.maximum(client + server, handshake)
    return PAUSE_NS + np.where(both > 0, both, UNKNOWN_RTT_NS)


def _delivered(facts: Facts) -> Times:
    """When the whole request of each exchange had passed to the server's side.

    Its last byte, or where bytes of it were lost the arrival of the last repeat; NO_TIME
    where that never came. What the capture lacks was delivered at some time, surely before
    the answer began.
    """
    delivered = facts.request_end.copy()
    holes = facts.holes
    chosen = np.flatnonzero(holes.from_client & (holes.kind != HOLE_KINDS.index("capture")))
    filled = holes.filled_ns[chosen]
    until = np.where(filled == NO_TIME, np.iinfo(np.int64).max, filled)
    spans, exchange = facts.exchanges_during(
        holes.connection_no[chosen], holes.opened_ns[chosen], until
    )
    # Bytes that are late once the answer has begun belong to something else.
    limit = np.where(facts.response_seen == NO_TIME, np.iinfo(np.int64).max, facts.response_seen)
    concerned = holes.opened_ns[chosen][spans] < limit[exchange]
    np.maximum.at(delivered, exchange[concerned], until[spans[concerned]])
    delivered[delivered == np.iinfo(np.int64).max] = NO_TIME
    return delivered


def connection_waits(
    cause: str,
    rows: Sequence[tuple[int, int, int, int, int, int, int]],
    confidence: float = 1.0,
) -> Waits:
    """Waits of connections' set-ups.

    Args:
        cause: their cause.
        rows: of each (from_ns, to_ns, connection_no, exchange_no or -1, three packets or 0).
        confidence: of all of them.
    """
    rows = [row for row in rows if row[1] > row[0]]
    columns = np.array(rows, np.int64).reshape(-1, 7)
    small = columns[:, 2:].astype(np.int32)
    return Waits(
        from_ns=columns[:, 0].copy(),
        to_ns=columns[:, 1].copy(),
        connection_no=small[:, 0].copy(),
        exchange_no=small[:, 1].copy(),
        cause=np.full(len(rows), CAUSE_CODE[cause], np.uint8),
        confidence=np.full(len(rows), confidence, np.float32),
        packet_a=small[:, 2].copy(),
        packet_b=small[:, 3].copy(),
        packet_c=small[:, 4].copy(),
    )


def instants(values: Sequence[int | None]) -> Times:
    """A column of instants, NO_TIME for None."""
    return np.array([NO_TIME if value is None else value for value in values], np.int64)


def packet_column(values: Sequence[int | None]) -> NDArray[np.int32]:
    """A column of packet numbers, 0 for None."""
    return np.array([value or 0 for value in values], np.int32)


def setup_owners(setups: Sequence[Setup], connection_count: int) -> NDArray[np.int32]:
    """For each connection the exchange that carries its set-up; -1 = none."""
    owners = np.full(connection_count, -1, np.int32)
    for setup in setups:
        owners[setup.connection_no] = setup.exchange_no
        for attempt in setup.attempt_nos:
            owners[attempt] = setup.exchange_no
    return owners
