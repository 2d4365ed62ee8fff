"""DNS over UDP and TCP → lookups, and the connections that used their answers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.capture import Capture
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.lookups import Lookup
from capture_analyzer.model.packets import UDP, Packets
from capture_analyzer.pipeline.reassemble import Streams
from capture_analyzer.protocols.dns import DnsMessage, MalformedDnsError, parse

DNS_PORT: Final = 53
REPEAT_NS: Final = 30_000_000_000
"""A question of the same transaction, name and type from the same port within this time is a
repeat. Resolvers of hosts give up after at most 30 s (resolv.conf's limits on time-out)."""
COPY_NS: Final = 1_000_000
"""The same datagram within this was captured twice; nobody asks again so soon."""
IDENTIFIED_COPY_NS: Final = 1_000_000_000
"""Likewise with the same IP identification, which a question that is sent again has not."""
USE_NS: Final = 600_000_000_000
"""An answer is taken to be the one a connection used if it came at most this long before. It only
names the server then; whether the connection waited for it is judged elsewhere."""
MAX_PACKETS: Final = 64  # kept of a lookup as evidence

_LENGTH_BYTES: Final = 2  # before each message on TCP (RFC 1035, section 4.2.2)

_Key = tuple[str, int, str, int, str, str]  # client, port, resolver, id, name, type


def find_lookups(capture: Capture, packets: Packets) -> tuple[list[Lookup], list[Anomaly]]:
    """The lookups over UDP in a capture, in order of their first question.

    A question repeated in the same transaction is counted, not a lookup of its own; a copy that
    the capture made is not. Of several answers the first counts. An answer whose question was
    not captured makes no lookup.
    """
    to_resolver = packets.destination_port == DNS_PORT
    dns = (packets.protocol == UDP) & (to_resolver | (packets.source_port == DNS_PORT))
    indices = np.flatnonzero(dns & (packets.payload_captured > 0))
    gathered = _Gathered()
    malformed = 0
    first_malformed: int | None = None
    addresses = packets.addresses
    # The last datagram of each transaction: IP identification, payload, when.
    last: dict[tuple[int, int, int, int, bytes], tuple[int, bytes, int]] = {}
    rows = zip(
        indices.tolist(),
        packets.time_ns[indices].tolist(),
        packets.buffer_no[indices].tolist(),
        packets.payload_offset[indices].tolist(),
        packets.payload_captured[indices].tolist(),
        packets.source[indices].tolist(),
        packets.destination[indices].tolist(),
        packets.source_port[indices].tolist(),
        packets.destination_port[indices].tolist(),
        packets.ip_id[indices].tolist(),
        strict=True,
    )
    for index, time_ns, buffer_no, at, length, source, destination, port, other_port, ip_id in rows:
        payload = bytes(capture.buffers[buffer_no][at : at + length])
        transaction = (source, destination, port, other_port, payload[:2])
        before_id, before, when = last.get(transaction, (0, b"", 0))
        reach = IDENTIFIED_COPY_NS if ip_id else COPY_NS
        if (ip_id, payload) == (before_id, before) and time_ns - when <= reach:
            continue
        last[transaction] = (ip_id, payload, time_ns)
        try:
            message = parse(payload)
        except MalformedDnsError:
            malformed += 1
            first_malformed = first_malformed or index + 1
            continue
        if message.response:
            ends = addresses[destination], other_port, addresses[source]
        else:
            ends = addresses[source], port, addresses[destination]
        gathered.add(message, ends, time_ns, [index + 1])
    anomalies = []
    if malformed:
        anomalies.append(
            Anomaly(
                "dns-malformed",
                "peer",
                "datagrams on port 53 that are no readable DNS messages",
                packet_no=first_malformed,
                count=malformed,
            )
        )
    return gathered.lookups, anomalies


def add_tcp_lookups(
    lookups: list[Lookup], streams: Streams, connections: Sequence[Connection]
) -> None:
    """Add the lookups over TCP, and number all anew.

    Writes `protocol` of the connections that carry them.

    Args:
        lookups: those over UDP; changed.
        streams: the bytes of all connections.
        connections: those that nothing else could be read from are looked at.
    """
    found: list[Lookup] = []
    for connection in connections:
        if connection.server_port != DNS_PORT or connection.protocol != "opaque":
            continue
        number = connection.connection_no
        messages = [
            *_messages(streams.stream(number, True)),
            *_messages(streams.stream(number, False)),
        ]
        messages.sort(key=_time)
        gathered = _Gathered()
        ends = connection.client_ip, connection.client_port, connection.server_ip
        for time_ns, packet_nos, message in messages:
            gathered.add(message, ends, time_ns, packet_nos)
        if gathered.lookups:
            connection.protocol = "dns"
            found.extend(gathered.lookups)
    if found:
        lookups.extend(found)
        lookups.sort(key=lambda lookup: (lookup.start_ns, lookup.packet_nos[0]))
        for place, lookup in enumerate(lookups):
            lookup.lookup_no = place


_Message = tuple[int, list[int], DnsMessage]


def _time(message: _Message) -> int:
    return message[0]


def _messages(stream: ByteStream) -> Iterator[_Message]:
    """(time, first and last packet, message) of a stream, up to what is none or is missing.

    A question counts from its first byte, an answer from the moment its last one was there.
    """
    at = 0
    while at + _LENGTH_BYTES <= stream.end:
        length = int.from_bytes(stream.read(at, at + _LENGTH_BYTES), "big")
        body = stream.read(at + _LENGTH_BYTES, at + _LENGTH_BYTES + length)
        if not length or len(body) < length:
            return
        try:
            message = parse(body)
        except MalformedDnsError:
            return
        first = stream.chunk_at(at)
        last = stream.chunk_at(at + _LENGTH_BYTES + length - 1)
        time_ns = stream.in_order_ns[last] if message.response else stream.seen_ns[first]
        packet_nos = [int(stream.packet_nos[first]), int(stream.packet_nos[last])]
        yield int(time_ns), packet_nos[: 1 + (first != last)], message
        at += _LENGTH_BYTES + length


class _Gathered:
    """Puts questions and answers together, as they come in time.

    Attributes:
        lookups: in order of their first question.
    """

    def __init__(self) -> None:
        self.lookups: list[Lookup] = []
        self._open: dict[_Key, Lookup] = {}

    def add(
        self, message: DnsMessage, ends: tuple[str, int, str], time_ns: int, packet_nos: list[int]
    ) -> None:
        """Take a message between `ends`: client, its port, resolver."""
        key = (*ends, message.id, message.name, message.type)
        lookup = self._open.get(key)
        if message.response:
            if lookup is not None:
                _answer(lookup, message, time_ns, packet_nos)
            return
        if lookup is not None and lookup.end_ns is None and time_ns - lookup.start_ns < REPEAT_NS:
            lookup.question_count += 1
            _add_packets(lookup, packet_nos)
            return
        self._open[key] = lookup = Lookup(
            lookup_no=len(self.lookups),
            client_ip=ends[0],
            server_ip=ends[2],
            name=message.name,
            type=message.type,
            start_ns=time_ns,
            packet_nos=packet_nos,
        )
        self.lookups.append(lookup)


def _answer(lookup: Lookup, message: DnsMessage, time_ns: int, packet_nos: list[int]) -> None:
    _add_packets(lookup, packet_nos)
    if lookup.end_ns is None:
        lookup.end_ns = max(time_ns, lookup.start_ns)  # the clock may have gone back
        lookup.rcode = message.rcode
        lookup.addresses = list(message.addresses)


def _add_packets(lookup: Lookup, packet_nos: list[int]) -> None:
    if len(lookup.packet_nos) < MAX_PACKETS:
        lookup.packet_nos.extend(packet_nos)


def join_lookups(
    lookups: Sequence[Lookup],
    connections: Sequence[Connection],
    names: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Join each connection to the lookup whose answer it used.

    That is the last one of the same client that had the server's address in an answer before
    the first SYN, within `USE_NS`. Writes `Connection.lookup_no`, `Lookup.connection_nos`, and
    the name of servers that nothing else names; of those that DNS does not name either, the
    one in `names` (by address), which the capture file gives.
    """
    _join(lookups, connections)
    if names:
        for connection in connections:
            if connection.server_name is None:
                connection.server_name = names.get(connection.server_ip)


def _join(lookups: Sequence[Lookup], connections: Sequence[Connection]) -> None:
    answers: dict[tuple[str, str], list[Lookup]] = {}
    for lookup in lookups:
        if lookup.end_ns is not None:
            for address in dict.fromkeys(lookup.addresses):
                answers.setdefault((lookup.client_ip, address), []).append(lookup)
    if not answers:
        return
    for rows in answers.values():
        rows.sort(key=_answered)
    for connection in connections:
        known = answers.get((connection.client_ip, connection.server_ip))
        if known is None or connection.syn_ns is None:
            continue
        place = bisect_right(known, connection.syn_ns, key=_answered) - 1
        if place < 0 or connection.syn_ns - _answered(known[place]) > USE_NS:
            continue
        used = known[place]
        connection.lookup_no = used.lookup_no
        used.connection_nos.append(connection.connection_no)
        if connection.server_name is None:
            connection.server_name = used.name


def _answered(lookup: Lookup) -> int:
    assert lookup.end_ns is not None
    return lookup.end_ns
