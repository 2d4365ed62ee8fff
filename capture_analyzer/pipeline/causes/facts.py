"""What the causes look at: columns of all exchanges, and of what happened to them.

Rows of objects become arrays once, here; each cause then works on whole arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.certificates import OcspFetch
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.events import Events
from capture_analyzer.model.exchanges import Exchanges
from capture_analyzer.model.frames import Frames
from capture_analyzer.model.holes import HOLE_KINDS, Holes
from capture_analyzer.model.limits import Limits
from capture_analyzer.model.packets import Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import HandshakeMessages, TlsRecords
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline import intervals
from capture_analyzer.pipeline.causes.arrivals import (
    Arrivals,
    Pauses,
    first_segment_times,
    pauses_of,
)
from capture_analyzer.pipeline.causes.held import NOBODY, HeldUp, delivery, find_held_up
from capture_analyzer.pipeline.causes.links import (
    Links,
    round_trip_beyond,
    trust_in_round_trip,
)
from capture_analyzer.pipeline.causes.sending import end_pauses, of_servers
from capture_analyzer.pipeline.causes.streamed import NO_GAPS, Gaps, find_gaps
from capture_analyzer.pipeline.exchanges.units import may_be_h2
from capture_analyzer.pipeline.intervals import Indices, Times
from capture_analyzer.pipeline.join import Setup
from capture_analyzer.pipeline.reassemble import Streams
from capture_analyzer.pipeline.tcp.facts import TcpFacts

STEP_NS: Final = 1_000_000
"""Between two steps of a set-up a client computes; less than this is part of the step."""


@quick_dataclass
class Facts:
    """Columns of all exchanges by exchange_no, and what happened on their connections.

    Instants that do not exist are NO_TIME, packets 0.

    Attributes:
        connection_no: the connection.
        start, request_start, request_end: as in the exchange.
        response_seen, response_start, response_head: as in the exchange.
        response_offset: likewise; NO_TIME = it has none.
        response_released: of one that shares an HTTP/2 connection: when its server had
            nothing else to send, before the first byte of its answer; NO_TIME = not known.
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
        handshake_of: the same for its TLS handshake: another one where that is inside of a
            tunnel.
        connections: by number.
        holes: of all connections.
        held: which exchanges the holes held up.
        limits: of all connections.
        pauses: of all streams.
        gaps: of all streamed answers.
        events: of all exchanges.
        tls_records, handshake_messages: of all connections.
        packet_time: the time of each packet, by packet_no - 1.
        by_connection: exchange numbers by connection, then request.
        ocsp_fetches: of all clients.
    """

    connection_no: NDArray[np.int32]
    start: Times
    request_start: Times
    request_end: Times
    response_seen: Times
    response_start: Times
    response_head: Times
    response_offset: Times
    response_released: Times
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
    handshake_of: NDArray[np.int32]
    connections: Sequence[Connection]
    holes: Holes
    held: HeldUp
    limits: Limits
    pauses: Pauses
    gaps: Gaps
    events: Events
    tls_records: TlsRecords
    handshake_messages: HandshakeMessages
    packet_time: Times
    by_connection: Indices
    ocsp_fetches: Sequence[OcspFetch] = ()

    @classmethod
    def of(
        cls,
        exchanges: Exchanges,
        setups: Sequence[Setup],
        packets: Packets,
        tcp: TcpFacts,
        streams: Streams,
        tls_records: TlsRecords,
        handshake_messages: HandshakeMessages,
        events: Events | None = None,
        frames: Frames | None = None,
        ocsp_fetches: Sequence[OcspFetch] = (),
    ) -> Facts:
        """Collect the columns.

        Args:
            exchanges: with their set-ups.
            setups: as `join` found them.
            packets: all packets.
            tcp: connections, holes, round trips.
            streams: the bytes of all connections.
            tls_records: of all connections.
            handshake_messages: of all connections.
            events: of streamed answers; None = there are none.
            frames: of HTTP/2 connections; None = there are none.
            ocsp_fetches: of all clients.
        """
        of = exchanges.columns
        connection_no = of.connection_no
        first_packet = _packets(of.request_first_packet_no)
        response_first = _packets(of.response_first_packet_no)
        response_last = _packets(of.response_last_packet_no)
        response_seen = of.response_seen_ns
        stream_id = np.where(of.stream_id == NO_TIME, -1, of.stream_id)
        arrivals = Arrivals.of(streams)
        links = Links.of(tcp)
        facts = cls(
            connection_no=connection_no,
            start=of.start_ns,
            request_start=of.request_start_ns,
            request_end=of.request_end_ns,
            response_seen=response_seen,
            response_start=of.response_start_ns,
            response_head=of.response_head_ns,
            response_offset=of.response_offset,
            response_released=np.empty(0, np.int64),
            response_end=np.where(
                response_last > 0, packets.time_ns[response_last - 1], response_seen
            ),
            end=of.until_ns,
            asked=first_packet > 0,
            inferred=of.inferred,
            shared=of.shared_connection,
            request_first_packet=first_packet,
            request_last_packet=_packets(of.request_last_packet_no),
            response_first_packet=response_first,
            response_last_packet=response_last,
            delivered=np.empty(0, np.int64),
            beyond=round_trip_beyond(
                # The acknowledgement that the answer brings is as late as the answer.
                tcp,
                connection_no,
                np.where(response_seen == NO_TIME, of.last_ns, response_seen - 1),
            ),
            beyond_trust=trust_in_round_trip(tcp.connections)[connection_no],
            may_be_h2=may_be_h2(tcp.connections)[connection_no],
            first_segment=first_segment_times(
                arrivals, response_first, len(packets), tcp.connections
            ),
            setups=setups,
            setup_of=setup_owners(setups, len(tcp.connections)),
            handshake_of=handshake_owners(setups, tcp.connections),
            connections=tcp.connections,
            holes=tcp.holes,
            held=NOBODY,
            pauses=pauses_of(arrivals, links.longest_stop),
            gaps=NO_GAPS,
            events=Events() if events is None else events,
            limits=tcp.limits,
            tls_records=tls_records,
            handshake_messages=handshake_messages,
            packet_time=packets.time_ns,
            by_connection=np.lexsort((of.request_start_ns, connection_no)),
            ocsp_fetches=ocsp_fetches,
        )
        facts.held = find_held_up(
            tcp.holes,
            Frames() if frames is None else frames,
            tls_records,
            streams,
            stream_id,
            facts.exchanges_during,
        )
        facts.delivered = delivery(facts.request_end, facts.response_seen, tcp.holes, facts.held)
        cadence = np.full(len(exchanges), NO_TIME)
        for number, stream in exchanges.streams.items():
            if stream.cadence_ns is not None:
                cadence[number] = stream.cadence_ns
        facts._look_at_sending(stream_id >= 0, cadence, streams, packets, links)
        return facts

    def _look_at_sending(
        self,
        parallel: NDArray[np.bool_],
        cadence: Times,
        streams: Streams,
        packets: Packets,
        links: Links,
    ) -> None:
        """Where servers had nothing to send: behind streamed answers, and shared ones.

        Args:
            parallel: of each exchange: it has a stream of its own on its connection.
            cadence: of each streamed answer, its usual pace.
            streams: the bytes of all connections.
            packets: all packets.
            links: of all connections.
        """
        # In HTTP/1.1 an answer waits for the whole of the one before, however long that takes.
        busy = self.shared & parallel & (self.response_offset != NO_TIME)
        self.response_released = np.full(len(self), NO_TIME)
        wanted = np.zeros(len(self.connections), np.bool_)
        wanted[self.connection_no[busy]] = True
        wanted[self.connection_no[self.events.exchange_no]] = True
        if not wanted.any():
            return
        sending = of_servers(streams, packets, wanted, links, self.holes)
        end_pauses(self.pauses, sending)
        number = 2 * self.connection_no[busy].astype(np.int64) + 1
        released = sending.released(sending.holding(number, self.response_offset[busy]))
        self.response_released[busy] = np.where(released >= 0, sending.left[released], NO_TIME)
        head = np.where(self.response_head == NO_TIME, self.response_start, self.response_head)
        self.gaps = find_gaps(
            self.events,
            sending,
            self.connection_no,
            head,
            self.response_first_packet,
            self.response_last_packet,
            cadence,
        )

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

    def hole_waits(self, kind: str, cause: str, *, own: bool | None = None) -> Waits:
        """Waits for the holes of a kind that held up an exchange.

        A hole in the client's stream holds up the request: it is of no consequence once the
        answer has begun. A hole that was never filled lasts to the exchange's end.

        Args:
            kind: which holes.
            cause: what their waits are booked on.
            own: only those made of the exchange's own bytes, or only others; None = both.
        """
        holes, held = self.holes, self.held
        chosen = holes.kind[held.hole] == HOLE_KINDS.index(kind)
        if own is not None:
            chosen &= held.own == own
        hole, exchange = held.hole[chosen], held.exchange[chosen]
        answered = holes.from_client[hole] & (self.response_seen[exchange] != NO_TIME)
        limit = np.where(answered, self.response_seen[exchange], self.end[exchange])
        return self.waits(
            cause,
            exchange,
            np.maximum(held.from_ns[chosen], self.request_start[exchange]),
            np.minimum(held.to_ns[chosen], limit),
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
        packet_c: NDArray[np.int32] | None = None,
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
            packet_c=none if packet_c is None else packet_c[kept],
        )

    def without_pauses(
        self,
        from_client: bool,
        exchange: Indices,
        begins: Times,
        ends: Times,
        gaps: Gaps | None = None,
    ) -> tuple[Indices, Times, Times]:
        """Spans of exchanges less the pauses of a sender inside them.

        Args:
            from_client: whose pauses.
            exchange: ascending; at most one span an exchange.
            begins: where they begin.
            ends: where they end.
            gaps: less these as well; None = none.

        Returns:
            Exchanges, begins and ends of the rest.
        """
        if not len(exchange):
            return exchange, begins, ends
        mine = np.flatnonzero(self.pauses.from_client == from_client)
        spans, cut = self.exchanges_during(
            self.pauses.connection_no[mine], self.pauses.from_ns[mine], self.pauses.to_ns[mine]
        )
        spans = mine[spans]
        cut_begins, cut_ends = self.pauses.from_ns[spans], self.pauses.to_ns[spans]
        if gaps is not None and len(gaps.exchange):
            cut, cut_begins, cut_ends = intervals.union(
                np.concatenate((cut, gaps.exchange)),
                np.concatenate((cut_begins, gaps.from_ns)),
                np.concatenate((cut_ends, gaps.to_ns)),
            )
        at = np.searchsorted(exchange, cut)
        at[at == len(exchange)] = 0
        cut_begins = np.maximum(cut_begins, begins[at])
        cut_ends = np.minimum(cut_ends, ends[at])
        real = (exchange[at] == cut) & (cut_ends > cut_begins)
        rest, rest_begins, rest_ends = intervals.subtract(
            exchange,
            begins,
            ends,
            cut[real],
            cut_begins[real],
            cut_ends[real],
        )
        return rest, rest_begins, rest_ends


def _packets(numbers: NDArray[np.int64]) -> NDArray[np.int32]:
    """Packets, 0 where there is none."""
    return np.where(numbers == NO_TIME, 0, numbers).astype(np.int32)


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


def setup_owners(setups: Sequence[Setup], connection_count: int) -> NDArray[np.int32]:
    """For each connection the exchange that carries its set-up; -1 = none."""
    owners = np.full(connection_count, -1, np.int32)
    for setup in setups:
        if setup.tunnelled:
            continue
        owners[setup.connection_no] = setup.exchange_no
        for attempt in setup.attempt_nos:
            owners[attempt] = setup.exchange_no
    return owners


def handshake_owners(
    setups: Sequence[Setup], connections: Sequence[Connection]
) -> NDArray[np.int32]:
    """For each connection the exchange that carries its TLS handshake; -1 = none."""
    owners = setup_owners(setups, len(connections))
    tunnels = [c.connection_no for c in connections if c.tls is not None and c.tls.tunnelled]
    owners[tunnels] = -1
    for setup in setups:
        if setup.tunnelled:
            owners[setup.connection_no] = setup.exchange_no
    return owners
