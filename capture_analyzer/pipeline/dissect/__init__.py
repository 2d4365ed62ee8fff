"""Streams → TLS records, handshake messages, HTTP messages: the right parser for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from capture_analyzer.model.anomalies import Anomaly, Origin
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.messages import Message
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.model.tls_records import HandshakeMessage, TlsRecords
from capture_analyzer.pipeline.dissect.detect import first_bytes, recognise, speak_tls
from capture_analyzer.pipeline.dissect.guard import Guard
from capture_analyzer.pipeline.dissect.tls import dissect_tls
from capture_analyzer.pipeline.reassemble import Streams
from capture_analyzer.pipeline.redact import Redactor
from capture_analyzer.protocols.http1.connection import Problem, parse

_ORIGINS: dict[str, Origin] = {"http-gap": "capture"}


@dataclasses.dataclass(slots=True)
class Dissected:
    """What the connections carry.

    Attributes:
        messages: HTTP messages by connection, client before server, then offset.
        tls_records: records by connection, direction, offset.
        handshake_messages: by connection, client before server, then order.
        anomalies: by connection.
    """

    messages: list[Message]
    tls_records: TlsRecords
    handshake_messages: list[HandshakeMessage]
    anomalies: list[Anomaly]


def dissect(
    streams: Streams,
    connections: Sequence[Connection],
    redactor: Redactor,
    *,
    keys_given: bool = False,
    progress: Progress = silent,
) -> Dissected:
    """Find out what each connection speaks and read it.

    Sets `protocol`, `tls`, `alpn` and `server_name` of the connections. What a parser can't
    read becomes an anomaly, never an exception.

    Args:
        streams: the bytes of all connections.
        connections: all of them, by number.
        redactor: what captured text passes through.
        keys_given: a key log was given (it is not used yet, which the result says).
        progress: called between the steps.
    """
    guard = Guard()
    progress("contents", 0, 2)
    is_tls = speak_tls(first_bytes(streams))
    empty = streams.bounds[:-1] == streams.bounds[1:]
    silent_ones = empty[0::2] & empty[1::2]

    messages: list[Message] = []
    anomalies: list[Anomaly] = []
    for number in np.flatnonzero(~is_tls & ~silent_ones).tolist():
        connection = connections[number]
        connection.protocol = "opaque"
        with guard(number):
            client, server = streams.stream(number, True), streams.stream(number, False)
            protocol = recognise(client, server)
            if protocol == "tls":
                is_tls[number] = True
            elif protocol == "http/1.1":
                parsed = parse(client, server, redactor)
                messages += parsed.messages
                anomalies += _anomalies(number, parsed.problems)
                connection.server_name = parsed.server_name
            connection.protocol = protocol
    progress("contents", 1, 2)
    tls = dissect_tls(
        streams, connections, np.flatnonzero(is_tls), keys_given=keys_given, guard=guard
    )
    progress("contents", 2, 2)
    anomalies += tls.anomalies + guard.anomalies
    anomalies.sort(key=_connection_no)
    return Dissected(messages, tls.records, tls.handshake_messages, anomalies)


def _connection_no(anomaly: Anomaly) -> int:
    return -1 if anomaly.connection_no is None else anomaly.connection_no


def _anomalies(number: int, problems: list[Problem]) -> list[Anomaly]:
    """Equal problems of a connection become one anomaly with their count."""
    found: dict[tuple[str, str], Anomaly] = {}
    for problem in problems:
        known = found.get((problem.code, problem.clause))
        if known is not None:
            known.count += 1
            continue
        origin = _ORIGINS.get(problem.code, "peer")
        found[problem.code, problem.clause] = Anomaly(
            problem.code, origin, problem.clause, number, problem.packet_no
        )
    return list(found.values())
