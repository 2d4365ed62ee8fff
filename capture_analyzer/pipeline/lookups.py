"""DNS over UDP → lookups, and the connections that used their answers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.capture import Capture
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.lookups import Lookup
from capture_analyzer.model.packets import UDP, Packets
from capture_analyzer.protocols.dns import DnsMessage, MalformedDnsError, parse

DNS_PORT: Final = 53
REPEAT_NS: Final = 30_000_000_000
"""A question of the same transaction, name and type from the same port within this time is a
repeat. Resolvers of hosts give up after at most 30 s (resolv.conf's limits on time-out)."""
USE_NS: Final = 600_000_000_000
"""An answer is taken to be the one a connection used if it came at most this long before. It only
names the server then; whether the connection waited for it is judged elsewhere."""
MAX_PACKETS: Final = 64  # kept of a lookup as evidence

_Key = tuple[int, int, int, int, str, str]  # client, port, resolver, id, name, type


def find_lookups(capture: Capture, packets: Packets) -> tuple[list[Lookup], list[Anomaly]]:
    """The lookups in a capture, in order of their first question.

    A question repeated in the same transaction is counted, not a lookup of its own. Of several
    answers the first counts. An answer whose question was not captured makes no lookup.
    """
    to_resolver = packets.destination_port == DNS_PORT
    dns = (packets.protocol == UDP) & (to_resolver | (packets.source_port == DNS_PORT))
    indices = np.flatnonzero(dns & (packets.payload_captured > 0))
    lookups: list[Lookup] = []
    open_: dict[_Key, Lookup] = {}
    malformed = 0
    first_malformed: int | None = None
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
        strict=True,
    )
    for index, time_ns, buffer_no, at, length, source, destination, port, other_port in rows:
        try:
            message = parse(bytes(capture.buffers[buffer_no][at : at + length]))
        except MalformedDnsError:
            malformed += 1
            first_malformed = first_malformed or index + 1
            continue
        if message.response:
            key = (destination, other_port, source, message.id, message.name, message.type)
            lookup = open_.get(key)
            if lookup is not None:
                _answer(lookup, message, time_ns, index + 1)
            continue
        key = (source, port, destination, message.id, message.name, message.type)
        lookup = open_.get(key)
        if lookup is not None and lookup.end_ns is None and time_ns - lookup.start_ns < REPEAT_NS:
            lookup.question_count += 1
            _add_packet(lookup, index + 1)
            continue
        lookup = open_[key] = Lookup(
            lookup_no=len(lookups),
            client_ip=packets.addresses[source],
            server_ip=packets.addresses[destination],
            name=message.name,
            type=message.type,
            start_ns=time_ns,
            packet_nos=[index + 1],
        )
        lookups.append(lookup)
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
    return lookups, anomalies


def _answer(lookup: Lookup, message: DnsMessage, time_ns: int, packet_no: int) -> None:
    _add_packet(lookup, packet_no)
    if lookup.end_ns is None:
        lookup.end_ns = time_ns
        lookup.rcode = message.rcode
        lookup.addresses = list(message.addresses)


def _add_packet(lookup: Lookup, packet_no: int) -> None:
    if len(lookup.packet_nos) < MAX_PACKETS:
        lookup.packet_nos.append(packet_no)


def join_lookups(lookups: Sequence[Lookup], connections: Sequence[Connection]) -> None:
    """Join each connection to the lookup whose answer it used.

    That is the last one of the same client that had the server's address in an answer before
    the first SYN, within `USE_NS`. Writes `Connection.lookup_no`, `Lookup.connection_nos`, and
    the name of servers that nothing else names.
    """
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
