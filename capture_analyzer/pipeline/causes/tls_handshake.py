"""tls_handshake: from the transport's readiness to that of TLS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import rows_equal
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import ROLE_CODE, HandshakeMessage
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import STEP_NS, Facts, connection_waits

SLOW_NS: Final = 50_000_000
"""From so much beyond the round trip on, a step is a wait of its own."""


@quick_dataclass(frozen=True)
class _Span:
    """A part of a handshake, and the packets at its ends."""

    from_ns: int
    to_ns: int
    first: int
    last: int


def find(facts: Facts) -> Waits:
    """The TLS handshake of each connection.

    It begins with the ClientHello, or where TCP was ready if that followed at once. Where a side
    took long in one of its steps, that is apart.
    """
    first, last = _handshake_packets(facts)
    ready = {setup.connection_no: setup.ready_ns for setup in facts.setups}
    slow = _slow_spans(facts)
    rows = []
    for connection in facts.connections:
        tls = connection.tls
        if tls is None or tls.start_ns is None or tls.end_ns is None:
            continue
        number = connection.connection_no
        begin, up = tls.start_ns, connection.established_ns
        if up is not None and 0 < begin - up <= STEP_NS and not tls.tunnelled:
            begin = up
        owner = int(facts.handshake_of[number])
        end = ready.get(number, tls.end_ns)
        if tls.renegotiations:
            last[number] = _last_packet(facts, number, tls.end_ns)
        packet = first[number]
        # What a side took beyond the round trip is a wait of its own.
        for span in slow.get(number, ()):
            if begin < span.from_ns and span.to_ns < end:
                rows.append((begin, span.from_ns, number, owner, packet, span.first, 0))
                rows.append((span.from_ns, span.to_ns, number, owner, span.first, span.last, 0))
                begin, packet = span.to_ns, span.last
        rows.append((begin, end, number, owner, packet, last[number], 0))
    return connection_waits("tls_handshake", rows)


def _handshake_packets(facts: Facts) -> tuple[list[int], list[int]]:
    """For each connection the packets of the first and the last handshake record; 0 = none."""
    records = facts.tls_records
    count = len(facts.connections)
    first: NDArray[np.int64] = np.full(count, np.iinfo(np.int64).max)
    last = np.zeros(count, np.int64)
    chosen = np.flatnonzero(records.role == ROLE_CODE["handshake"])
    owner = records.connection_no[chosen]
    np.minimum.at(first, owner, records.first_packet_no[chosen].astype(np.int64))
    np.maximum.at(last, owner, records.last_packet_no[chosen].astype(np.int64))
    first[first == np.iinfo(np.int64).max] = 0
    return first.tolist(), last.tolist()


def _slow_spans(facts: Facts) -> dict[int, list[_Span]]:
    """For each connection the parts of its handshake beyond the round trip, if they are long."""
    slow = {
        connection.connection_no: connection
        for connection in facts.connections
        if connection.tls is not None
        and connection.rtt_ns is not None
        and connection.tls.duration_ns is not None
        and connection.tls.duration_ns > connection.rtt_ns + SLOW_NS
    }
    if not slow:
        return {}
    hellos: dict[int, list[HandshakeMessage]] = {}
    for message in facts.handshake_messages.rows(slow, "client_hello", "server_hello"):
        hellos.setdefault(message.connection_no, []).append(message)
    found = {}
    for number, connection in slow.items():
        server = next((m for m in hellos.get(number, ()) if m.type == "server_hello"), None)
        if server is not None:
            found[number] = list(_steps(facts, connection, hellos[number], server))
    return found


def _steps(
    facts: Facts, connection: Connection, hellos: list[HandshakeMessage], server: HandshakeMessage
) -> Iterator[_Span]:
    """To the ServerHello, to the end of the flight, to the answer, to the server's Finished."""
    rtt, near = connection.rtt_ns or 0, connection.client_side_rtt_ns or 0
    asked = [m for m in hellos if m.from_client and m.seen_ns <= server.seen_ns]
    if asked:
        yield from _beyond(
            asked[-1].seen_ns, server.seen_ns, rtt, asked[-1].last_packet_no, server.last_packet_no
        )
    records = facts.tls_records
    part = rows_equal(records.connection_no, connection.connection_no)
    shaking = records.role[part] == ROLE_CODE["handshake"]
    client, seen, complete = (
        records.from_client[part],
        records.seen_ns[part],
        records.complete_ns[part],
    )
    answers = np.flatnonzero(shaking & client & (seen > server.seen_ns))
    if not len(answers):
        return
    answer = int(answers[0])
    flight = np.flatnonzero(
        shaking & ~client & (complete >= server.seen_ns) & (complete <= seen[answer])
    )
    if not len(flight):
        return
    end = int(flight[-1])
    ends_no, answer_no = (
        int(records.last_packet_no[part][end]),
        int(records.first_packet_no[part][answer]),
    )
    yield from _beyond(server.seen_ns, int(complete[end]), rtt, server.last_packet_no, ends_no)
    yield from _beyond(int(complete[end]), int(seen[answer]), near, ends_no, answer_no)
    tls = connection.tls
    if tls is None or tls.version == "TLS 1.3":
        return  # the client's Finished is the last message
    before = answers[seen[answers] <= (tls.end_ns or 0)]
    done = int(before[-1]) if len(before) else answer
    behind = np.flatnonzero(~client & (seen > seen[done]))
    if len(behind):
        done_no, last_no = (
            int(records.last_packet_no[part][done]),
            int(records.first_packet_no[part][behind[0]]),
        )
        yield from _beyond(int(seen[done]), int(seen[behind[0]]), rtt, done_no, last_no)


def _beyond(begin: int, end: int, allowed: int, first: int, last: int) -> Iterator[_Span]:
    if end - begin - allowed > SLOW_NS:
        yield _Span(begin + allowed, end, first, last)


def _last_packet(facts: Facts, number: int, end_ns: int) -> int:
    """The packet of the last record of a connection's first handshake."""
    records = facts.tls_records
    part = rows_equal(records.connection_no, number)
    mine = (records.role[part] == ROLE_CODE["handshake"]) & (records.seen_ns[part] <= end_ns)
    return int(records.last_packet_no[part][mine].max(initial=0))
