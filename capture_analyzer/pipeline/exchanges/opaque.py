"""Opaque exchanges: rows for the flights of connections that can't be read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.tls_records import ROLE_CODE, TlsRecords
from capture_analyzer.pipeline.exchanges.flights import Flights, latest
from capture_analyzer.pipeline.exchanges.http1 import Tunnel
from capture_analyzer.pipeline.exchanges.units import Units
from capture_analyzer.pipeline.reassemble import Streams

_NEVER_NS: Final = 1 << 60
_MULTIPLEX_UNITS: Final = 3
"""Records of a client's flight from which on it is taken for several HTTP/2 requests: one
request often has two, for its fields and its content."""

_UPLOAD_BYTES: Final = 4096
"""Records of this size on the average are the content of one request."""

_HEADER_BYTES: Final = 5  # of a TLS record (RFC 8446, section 5.1)
_TLS13_OVERHEAD: Final = 17  # inner content type and a 16-byte tag (RFC 8446, section 5.2)
_GCM_OVERHEAD: Final = 24  # explicit nonce and tag (RFC 5288, section 3)
_CHACHA20_OVERHEAD: Final = 16  # the tag alone (RFC 7905, section 2)


@dataclasses.dataclass(slots=True)
class Speech:
    """What each connection may speak: one element a connection in each array."""

    may_be_h2: NDArray[np.bool_]
    may_be_h1: NDArray[np.bool_]
    keeps_start: NDArray[np.bool_]
    overhead: NDArray[np.int64]  # bytes of a TLS record's fragment that are not content
    round_trip_ns: NDArray[np.int64]  # to the server; very long if not known

    @classmethod
    def of(cls, connections: Sequence[Connection]) -> Speech:
        """Read it off ALPN (RFC 7301), the TLS version and the cipher suite."""
        h2 = [_may_be(connection, "h2") for connection in connections]
        h1 = [_may_be(connection, "http/1.1") for connection in connections]
        return cls(
            may_be_h2=np.array(h2, np.bool_),
            may_be_h1=np.array(h1, np.bool_),
            keeps_start=np.array([c.roles_certain for c in connections], np.bool_),
            overhead=np.array([_overhead(c.tls) for c in connections], np.int64),
            round_trip_ns=np.array(
                [c.server_side_rtt_ns or _NEVER_NS for c in connections], np.int64
            ),
        )


def _may_be(connection: Connection, protocol: str) -> bool:
    if connection.protocol == "h2":
        return protocol == "h2"
    if connection.tls is None:
        return False
    if connection.alpn is not None:
        return connection.alpn == protocol
    if connection.tls.alpn_offered:
        return protocol in connection.tls.alpn_offered
    # No ALPN: HTTP/2 over TLS requires it (RFC 9113, section 3.2). Without the ClientHello
    # nothing can be excluded.
    return protocol == "http/1.1" or connection.tls.start_ns is None


def _overhead(tls: TlsSummary | None) -> int:
    if tls is None or tls.version is None or tls.version == "TLS 1.3":
        return _TLS13_OVERHEAD
    if tls.cipher_suite and "CHACHA20" in tls.cipher_suite:
        return _CHACHA20_OVERHEAD
    return _GCM_OVERHEAD


def record_units(records: TlsRecords, packet_time_ns: NDArray[np.int64], speech: Speech) -> Units:
    """Application data records of all connections as units.

    Args:
        records: all records, by connection, direction, offset.
        packet_time_ns: the time of each packet, by packet_no - 1.
        speech: what the connections may speak.
    """
    is_data = (records.role == ROLE_CODE["application"]) | (records.role == ROLE_CODE["early_data"])
    data = np.flatnonzero(is_data & ~_is_goodbye(records, speech))
    data = data[_in_order(records.connection_no[data], records.first_packet_no[data])]
    connection = records.connection_no[data]
    length = records.length[data].astype(np.int64)
    last_packet = records.last_packet_no[data]
    return Units(
        connection_no=connection,
        from_client=records.from_client[data],
        first_packet_no=records.first_packet_no[data],
        last_packet_no=last_packet,
        seen_ns=records.seen_ns[data],
        last_seen_ns=np.maximum(packet_time_ns[last_packet - 1], records.seen_ns[data]),
        usable_ns=records.complete_ns[data],
        size=length + _HEADER_BYTES,
        content=np.maximum(length - speech.overhead[connection], 0),
        may_be_h2=speech.may_be_h2[connection],
        may_be_h1=speech.may_be_h1[connection],
        keeps_start=speech.keeps_start[connection],
        round_trip_ns=speech.round_trip_ns[connection],
    )


def _is_goodbye(records: TlsRecords, speech: Speech) -> NDArray[np.bool_]:
    """The last record of each direction, if it is as long as one with a close_notify alert."""
    connection = records.connection_no
    last = np.ones(len(connection), np.bool_)
    last[:-1] = (connection[1:] != connection[:-1]) | (
        records.from_client[1:] != records.from_client[:-1]
    )
    goodbye: NDArray[np.bool_] = last & (records.length - speech.overhead[connection] == 2)
    return goodbye


def _in_order(connection_no: NDArray[np.int32], packet_no: NDArray[np.int32]) -> NDArray[np.intp]:
    """A stable order by connection, then packet: both directions of one interleave."""
    most = int(packet_no.max()) + 1 if len(packet_no) else 1
    return np.argsort(connection_no.astype(np.int64) * most + packet_no, kind="stable")


def opaque_exchanges(
    flights: Flights,
    connections: Sequence[Connection],
    server_fin_ns: Callable[[int], int | None],
    *,
    records: bool,
) -> list[Exchange]:
    """One row an exchange, in the order of `flights`.

    Args:
        flights: as found.
        connections: by number.
        server_fin_ns: when the server of a connection (by number) sent its FIN.
        records: the units are TLS records, so that their number means something.
    """
    if not len(flights):
        return []
    units, first, turn, stop = flights.units, flights.first, flights.turn, flights.stop
    asked, answered = turn > first, stop > turn
    sizes = np.concatenate(([0], np.cumsum(units.size)))
    response_first = np.where(answered, turn, first)
    request_start = units.seen_ns[first]
    request_end = np.where(asked, latest(units.last_seen_ns, first, turn), request_start)
    response_end = latest(units.usable_ns, turn, stop)
    # A record that was never complete: the capture, or the connection, ends inside it.
    cut = np.concatenate(([0], np.cumsum(units.usable_ns == NO_TIME)))
    whole = answered & (cut[stop] == cut[turn])
    last = np.maximum(latest(units.last_seen_ns, first, stop), response_end)
    end = np.where(whole, np.maximum(request_end, response_end), NO_TIME)
    given_up = flights.given_up_ns != NO_TIME
    end = np.where(given_up, flights.given_up_ns, end)
    requests = turn - first
    request_bytes = sizes[turn] - sizes[first]
    multiplexed = (
        units.may_be_h2[first]
        & (requests >= _MULTIPLEX_UNITS)
        & (request_bytes < _UPLOAD_BYTES * requests)
    )
    ttfb = np.where(
        asked & answered & (units.usable_ns[response_first] != NO_TIME),
        units.usable_ns[response_first] - request_start,
        NO_TIME,
    )
    request_packets = latest(units.last_packet_no.astype(np.int64), first, turn)
    response_packets = latest(units.last_packet_no.astype(np.int64), turn, stop)

    def times(values: NDArray[np.int64]) -> list[int | None]:
        return [None if value == NO_TIME else value for value in values.tolist()]

    def where(present: NDArray[np.bool_], values: NDArray[np.signedinteger]) -> list[int | None]:
        return times(np.where(present, values.astype(np.int64), NO_TIME))

    connection_nos = units.connection_no[first].tolist()
    authority = {no: connections[no].server_name for no in set(connection_nos)}
    starts = request_start.tolist()
    rows = [
        Exchange(
            0,
            connection_no,
            None,
            "opaque",
            "opaque",
            True,
            start,
            start,
            request_end_ns,
            None,
            authority[connection_no],
            response_seen_ns=seen,
            response_start_ns=usable,
            end_ns=end_ns,
            last_ns=last_ns,
            ttfb_ns=ttfb_ns,
            request_bytes=sent,
            response_bytes=received,
            request_first_packet_no=packet_a,
            request_last_packet_no=packet_b,
            response_first_packet_no=packet_c,
            response_last_packet_no=packet_d,
            request_records=request_records,
            response_records=response_records,
            reset=reset,
            shared_connection=shared,
        )
        for (
            connection_no,
            start,
            request_end_ns,
            seen,
            usable,
            end_ns,
            last_ns,
            ttfb_ns,
            sent,
            received,
            packet_a,
            packet_b,
            packet_c,
            packet_d,
            request_records,
            response_records,
            reset,
            shared,
        ) in zip(
            connection_nos,
            starts,
            request_end.tolist(),
            where(answered, units.seen_ns[response_first]),
            where(answered, units.usable_ns[response_first]),
            times(end),
            np.where(end == NO_TIME, last, end).tolist(),
            times(ttfb),
            request_bytes.tolist(),
            (sizes[stop] - sizes[turn]).tolist(),
            where(asked, units.first_packet_no[first]),
            times(request_packets),
            where(answered, units.first_packet_no[response_first]),
            times(response_packets),
            requests.tolist() if records else repeat(None),
            (stop - turn).tolist() if records else repeat(None),
            given_up.tolist(),
            multiplexed.tolist(),
            strict=False,
        )
    ]
    _end_unanswered(rows, units.connection_no[first], end, connections, server_fin_ns)
    return rows


def _end_unanswered(
    rows: list[Exchange],
    connection_no: NDArray[np.int32],
    end: NDArray[np.int64],
    connections: Sequence[Connection],
    server_fin_ns: Callable[[int], int | None],
) -> None:
    """End the last exchange of a connection by its reset, or the server's FIN.

    Only one that has no answer or whose last record was never complete: whether an answer
    of whole records was finished can't be seen, so a later reset is not laid to it.
    """
    last_of_connection = np.append(connection_no[1:] != connection_no[:-1], True)
    for index in np.flatnonzero(last_of_connection & (end == NO_TIME)).tolist():
        row = rows[index]
        connection = connections[row.connection_no]
        closed = None
        if connection.reset_ns is not None and connection.reset_ns >= row.request_start_ns:
            closed, row.reset = connection.reset_ns, True
        elif row.response_seen_ns is None:
            closed = server_fin_ns(row.connection_no)
        if closed is not None and closed >= row.request_start_ns:
            row.end_ns = row.last_ns = max(closed, row.last_ns)


def segment_units(
    streams: Streams,
    connections: Sequence[Connection],
    tunnels: Sequence[Tunnel],
    encrypted: NDArray[np.bool_],
    speech: Speech,
) -> Units:
    """Payload of connections that speak nothing we read, and of tunnels, as units.

    Args:
        streams: all streams.
        connections: by number.
        tunnels: where HTTP ends on a connection.
        encrypted: for each connection: it has TLS records, which are better units.
        speech: what the connections may speak.
    """
    begin = np.full(len(streams), -1, np.int64)  # stream offset from which on; -1 = never
    for connection in connections:
        if connection.protocol in ("opaque", "h2"):
            begin[2 * connection.connection_no : 2 * connection.connection_no + 2] = 0
    for tunnel in tunnels:
        begin[2 * tunnel.connection_no] = tunnel.client_offset
        begin[2 * tunnel.connection_no + 1] = tunnel.server_offset
    begin[np.repeat(encrypted, 2)] = -1
    counts = np.diff(streams.bounds)
    wanted = np.repeat(begin >= 0, counts)
    chunk = np.flatnonzero(wanted)
    stream = np.repeat(np.arange(len(streams)), counts)[chunk]
    stop = streams.starts[chunk] + streams.lengths[chunk]
    behind = stop > begin[stream]
    chunk, stream, stop = chunk[behind], stream[behind], stop[behind]
    connection_no = (stream >> 1).astype(np.int32)
    order = _in_order(connection_no, streams.packet_nos[chunk])
    chunk, stream, stop = chunk[order], stream[order], stop[order]
    connection_no = connection_no[order]
    size = stop - np.maximum(streams.starts[chunk], begin[stream])
    h2 = speech.may_be_h2[connection_no]
    return Units(
        connection_no=connection_no,
        from_client=stream % 2 == 0,
        first_packet_no=streams.packet_nos[chunk],
        last_packet_no=streams.packet_nos[chunk],
        seen_ns=streams.seen_ns[chunk],
        last_seen_ns=streams.seen_ns[chunk],
        usable_ns=streams.in_order_ns[chunk],
        size=size,
        content=np.where(h2, size, -1),
        may_be_h2=h2,
        may_be_h1=np.zeros(len(chunk), np.bool_),
        keeps_start=speech.keeps_start[connection_no],
        round_trip_ns=speech.round_trip_ns[connection_no],
    )
