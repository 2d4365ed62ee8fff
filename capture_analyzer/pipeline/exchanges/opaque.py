"""Opaque exchanges: the flights of connections that can't be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME, rows_equal
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.exchanges import ExchangeColumns, Exchanges
from capture_analyzer.model.tls_records import ROLE_CODE, TlsRecords
from capture_analyzer.pipeline.exchanges.flights import Flights, latest
from capture_analyzer.pipeline.exchanges.units import Speech, Units
from capture_analyzer.pipeline.http_tunnels import Tunnel
from capture_analyzer.pipeline.reassemble import Streams

_MULTIPLEX_UNITS: Final = 3
"""Records of a client's flight from which on it is taken for several HTTP/2 requests: one
request often has two, for its fields and its content."""

_UPLOAD_BYTES: Final = 4096
"""Records of this size on the average are the content of one request."""

_HEADER_BYTES: Final = 5  # of a TLS record (RFC 8446, section 5.1)


def record_units(records: TlsRecords, speech: Speech, read: NDArray[np.bool_]) -> Units:
    """Application data records of all connections as units.

    Args:
        records: all records, by connection, direction, offset.
        speech: what the connections may speak.
        read: for each connection: its content was read, so it needs no units.
    """
    is_data = (records.role == ROLE_CODE["application"]) | (records.role == ROLE_CODE["early_data"])
    for number in speech.early_rejected:  # it comes again behind the handshake
        part = rows_equal(records.connection_no, number)
        is_data[part] &= records.role[part] != ROLE_CODE["early_data"]
    is_data[_goodbyes(records, speech)] = False
    if read.any():
        is_data &= ~read[records.connection_no]
    data = np.flatnonzero(is_data)
    data = data[_in_order(records.connection_no[data], records.first_packet_no[data])]
    connection = records.connection_no[data]
    length = records.length[data]
    return Units(
        connection_no=connection,
        from_client=records.from_client[data],
        first_packet_no=records.first_packet_no[data],
        last_packet_no=records.last_packet_no[data],
        seen_ns=records.seen_ns[data],
        usable_ns=records.complete_ns[data],
        offset=records.offset[data],
        size=length + np.int32(_HEADER_BYTES),
        content=np.maximum(length - speech.overhead[connection], 0),
        speech=speech,
    )


def _goodbyes(records: TlsRecords, speech: Speech) -> NDArray[np.int64]:
    """The last record of each direction, where it is as long as one with a close_notify alert."""
    connection = records.connection_no
    if not len(connection):
        return np.empty(0, np.int64)
    turns = (connection[1:] != connection[:-1]) | (
        records.from_client[1:] != records.from_client[:-1]
    )
    last = np.append(np.flatnonzero(turns), len(connection) - 1)
    goodbyes: NDArray[np.int64] = last[
        records.length[last] - speech.overhead[connection[last]] == 2
    ]
    return goodbyes


def _in_order(connection_no: NDArray[np.int32], packet_no: NDArray[np.int32]) -> NDArray[np.intp]:
    """A stable order by connection, then packet: both directions of one interleave."""
    most = int(packet_no.max()) + 1 if len(packet_no) else 1
    return np.argsort(connection_no.astype(np.int64) * most + packet_no, kind="stable")


def opaque_exchanges(
    flights: Flights,
    packet_time_ns: NDArray[np.int64],
    connections: Sequence[Connection],
    server_fin_ns: Callable[[int], int | None],
    *,
    records: bool,
) -> Exchanges:
    """One exchange for each of `flights`.

    Args:
        flights: as found.
        packet_time_ns: the time of each packet, by packet_no - 1.
        connections: by number.
        server_fin_ns: when the server of a connection (by number) sent its FIN.
        records: the units are TLS records, so that their number means something.
    """
    if not len(flights):
        return Exchanges.of([], connections)
    units, first, turn, stop = flights.units, flights.first, flights.turn, flights.stop
    asked, answered = turn > first, stop > turn
    sizes = np.concatenate(([0], np.cumsum(units.size)))
    response_first = np.where(answered, turn, first)
    request_packets = latest(units.last_packet_no, first, turn)
    response_packets = latest(units.last_packet_no, turn, stop)
    request_start = units.seen_ns[first]
    request_end = np.where(asked, _time(packet_time_ns, request_packets), request_start)
    request_end = np.maximum(request_end, request_start)  # the clock may have gone back
    response_end = latest(units.usable_ns, turn, stop)
    # A record that was never complete: the capture, or the connection, ends inside it.
    cut = np.concatenate(([0], np.cumsum(units.usable_ns == NO_TIME)))
    whole = answered & (cut[stop] == cut[turn])
    last = np.maximum(_time(packet_time_ns, response_packets), response_end)
    last = np.maximum(last, request_end)
    end = np.where(whole, np.maximum(request_end, response_end), NO_TIME)
    given_up = flights.given_up_ns != NO_TIME
    end = np.where(given_up, np.maximum(flights.given_up_ns, request_start), end)
    requests = turn - first
    request_bytes = sizes[turn] - sizes[first]
    multiplexed = (
        units.speech.may_be_h2[units.connection_no[first]]
        & (requests >= _MULTIPLEX_UNITS)
        & (request_bytes < _UPLOAD_BYTES * requests)
    )
    ttfb = np.where(
        # NO_TIME is below all; so is an answer from before its request, as the clock has it.
        asked & answered & (units.usable_ns[response_first] >= request_start),
        units.usable_ns[response_first] - request_start,
        NO_TIME,
    )

    rows = Exchanges(ExchangeColumns.unknown(len(flights)), connections)
    columns = rows.columns
    columns.connection_no = units.connection_no[first]
    columns.inferred[:] = True
    columns.start_ns = request_start.copy()
    columns.request_start_ns = request_start
    columns.request_end_ns = request_end
    columns.response_seen_ns = _where(answered, units.seen_ns[response_first])
    columns.response_start_ns = _where(answered, units.usable_ns[response_first])
    columns.end_ns = end
    columns.last_ns = np.where(end == NO_TIME, last, end)
    columns.ttfb_ns = ttfb
    columns.request_bytes = request_bytes
    columns.response_offset = _where(answered, units.offset[response_first])
    columns.response_bytes = sizes[stop] - sizes[turn]
    columns.request_first_packet_no = _where(asked, units.first_packet_no[first])
    columns.request_last_packet_no = request_packets
    columns.response_first_packet_no = _where(answered, units.first_packet_no[response_first])
    columns.response_last_packet_no = response_packets
    if records:
        columns.request_records = requests
        columns.response_records = stop - turn
    columns.reset = given_up
    columns.shared_connection = multiplexed
    _end_unanswered(columns, connections, server_fin_ns)
    return rows


def _where(present: NDArray[np.bool_], values: NDArray[np.signedinteger]) -> NDArray[np.int64]:
    """Some of the values; NO_TIME instead of the others."""
    return np.where(present, values.astype(np.int64), NO_TIME)


def _time(packet_time_ns: NDArray[np.int64], packet_no: NDArray[np.int64]) -> NDArray[np.int64]:
    """The times of packets; NO_TIME where there is none."""
    known = packet_no != NO_TIME
    return np.where(known, packet_time_ns[np.where(known, packet_no - 1, 0)], NO_TIME)


def _end_unanswered(
    columns: ExchangeColumns,
    connections: Sequence[Connection],
    server_fin_ns: Callable[[int], int | None],
) -> None:
    """End the last exchange of a connection by its reset, or the server's FIN.

    Only one that has no answer or whose last record was never complete: whether an answer
    of whole records was finished can't be seen, so a later reset is not laid to it.
    """
    connection_no = columns.connection_no
    last_of_connection = np.append(connection_no[1:] != connection_no[:-1], True)
    for index in np.flatnonzero(last_of_connection & (columns.end_ns == NO_TIME)).tolist():
        connection = connections[connection_no[index]]
        request_start_ns = int(columns.request_start_ns[index])
        closed = None
        if connection.reset_ns is not None and connection.reset_ns >= request_start_ns:
            closed = connection.reset_ns
            columns.reset[index] = True
        elif columns.response_seen_ns[index] == NO_TIME:
            closed = server_fin_ns(connection.connection_no)
        if closed is not None and closed >= request_start_ns:
            end_ns = max(closed, int(columns.last_ns[index]))
            columns.end_ns[index] = columns.last_ns[index] = end_ns


def segment_units(
    streams: Streams,
    connections: Sequence[Connection],
    tunnels: Sequence[Tunnel],
    encrypted: NDArray[np.bool_],
    speech: Speech,
    read: NDArray[np.bool_],
) -> Units:
    """Payload of connections that speak nothing we read, and of tunnels, as units.

    Args:
        streams: all streams.
        connections: by number.
        tunnels: where HTTP ends on a connection.
        encrypted: for each connection: it has TLS records, which are better units.
        speech: what the connections may speak.
        read: for each connection: its content was read, so it needs no units.
    """
    begin = np.full(len(streams), -1, np.int64)  # stream offset from which on; -1 = never
    for connection in connections:
        protocol, number = connection.protocol, connection.connection_no
        if protocol == "opaque" or (protocol == "h2" and not read[number]):
            begin[2 * number : 2 * number + 2] = 0
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
    return Units(
        connection_no=connection_no,
        from_client=stream % 2 == 0,
        first_packet_no=streams.packet_nos[chunk],
        last_packet_no=streams.packet_nos[chunk],
        seen_ns=streams.seen_ns[chunk],
        usable_ns=streams.in_order_ns[chunk],
        offset=stop - size,
        size=size,
        content=np.where(speech.may_be_h2[connection_no], size, -1),
        speech=speech,
    )
