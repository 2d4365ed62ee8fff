"""Streams → TLS records, handshake messages, HTTP messages: the right parser for each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from capture_analyzer.model.anomalies import Anomaly, Origin
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.frames import Frames
from capture_analyzer.model.messages import Message
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.secrets import Secrets
from capture_analyzer.model.tls_records import HandshakeMessages, TlsRecords
from capture_analyzer.pipeline.certificates import Presented
from capture_analyzer.pipeline.dissect.answers import Answers
from capture_analyzer.pipeline.dissect.detect import first_bytes, recognise, speak_tls
from capture_analyzer.pipeline.dissect.frames import FrameRows
from capture_analyzer.pipeline.dissect.guard import Guard
from capture_analyzer.pipeline.dissect.tls import dissect_tls
from capture_analyzer.pipeline.http_tunnels import Tunnel, find_tunnel, inside
from capture_analyzer.pipeline.reassemble import Streams
from capture_analyzer.pipeline.redact import Redactor
from capture_analyzer.protocols.http1.source import Source

if TYPE_CHECKING:
    from capture_analyzer.pipeline.dissect.decrypt import OpenedConnection
    from capture_analyzer.pipeline.dissect.http2 import DissectedHttp2
    from capture_analyzer.protocols.http1.connection import Located, Parsed, Problem

_ORIGINS: dict[str, Origin] = {"http-gap": "capture"}


@quick_dataclass
class Dissected:
    """What the connections carry.

    Attributes:
        messages: HTTP messages by connection, client before server, then offset.
        tls_records: records by connection, direction, offset.
        handshake_messages: by connection, client before server, then order.
        frames: HTTP/2 frames by connection, direction, offset.
        anomalies: by connection.
        presented: certificates that servers showed.
    """

    messages: list[Message]
    frames: Frames
    tls_records: TlsRecords
    handshake_messages: HandshakeMessages
    anomalies: list[Anomaly]
    presented: Presented


def dissect(
    streams: Streams,
    connections: Sequence[Connection],
    redactor: Redactor,
    *,
    secrets: Secrets | None = None,
    progress: Progress = silent,
) -> Dissected:
    """Find out what each connection speaks and read it.

    Sets `protocol`, `tls`, `alpn` and `server_name` of the connections. What a parser can't
    read becomes an anomaly, never an exception.

    Args:
        streams: the bytes of all connections.
        connections: all of them, by number.
        redactor: what captured text passes through.
        secrets: of the key logs; None if none was given.
        progress: called between the steps.
    """
    guard = Guard()
    progress("contents", 0, 2)
    is_tls = speak_tls(first_bytes(streams))
    empty = streams.bounds[:-1] == streams.bounds[1:]
    silent_ones = empty[0::2] & empty[1::2]

    reader = _HttpReader(redactor)
    for number in np.flatnonzero(~is_tls & ~silent_ones).tolist():
        connection = connections[number]
        connection.protocol = "opaque"
        with guard(number):
            client = Source(streams.stream(number, True))
            server = Source(streams.stream(number, False))
            protocol = recognise(client, server)
            if protocol == "tls":
                is_tls[number] = True
            else:
                reader.read(connection, protocol, client, server)
            connection.protocol = protocol
    progress("contents", 1, 2)
    if reader.tunnels:
        within = inside(streams, reader.tunnels)
        encrypted = speak_tls(first_bytes(within)) & ~is_tls
        if encrypted.any():
            streams = within
            is_tls |= encrypted
            reader.tunnelled.update(np.flatnonzero(encrypted).tolist())
    tls = dissect_tls(
        streams,
        connections,
        np.flatnonzero(is_tls),
        secrets=secrets,
        guard=guard,
        read=reader.read_opened,
    )
    for number in reader.tunnelled:
        if (summary := connections[number].tls) is not None:
            summary.tunnelled = True
    reader.finish()
    progress("contents", 2, 2)
    anomalies = reader.anomalies + tls.anomalies + guard.anomalies
    anomalies.sort(key=_connection_no)
    reader.messages.sort(key=_connection_of)
    return Dissected(
        reader.messages,
        reader.frames(),
        tls.records,
        tls.handshake_messages,
        anomalies,
        tls.presented,
    )


class _HttpReader:
    """Reads the messages of clear or decrypted connections, and into their contents."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.messages: list[Message] = []
        self.anomalies: list[Anomaly] = []
        self.tunnels: list[Tunnel] = []  # that clear text opened
        self.tunnelled: set[int] = set()  # connections with TLS inside of theirs
        self._answers = Answers()
        self._frames = FrameRows()

    # The parsers are loaded when there is something to read: without keys there seldom is.

    @functools.cached_property
    def _read_http1(self) -> Callable[[Source, Source], Parsed]:
        from capture_analyzer.protocols.http1.connection import parse
        from capture_analyzer.protocols.http1.head import FieldLines

        return functools.partial(parse, lines=FieldLines(self._redactor))

    @functools.cached_property
    def _read_http2(self) -> Callable[[Source, Source], DissectedHttp2]:
        from capture_analyzer.pipeline.dissect.http2 import FieldRows, dissect_http2

        return functools.partial(dissect_http2, rows=FieldRows(self._redactor), frames=self._frames)

    @functools.cached_property
    def _read_contents(self) -> Callable[[Source, Source, Sequence[Located]], None]:
        from capture_analyzer.pipeline.dissect.contents import read_contents
        from capture_analyzer.protocols.llm import Known

        return functools.partial(read_contents, answers=self._answers, known=Known())

    def read_opened(self, connection: Connection, opened: OpenedConnection) -> None:
        """Read a decrypted connection, if it is HTTP; keeps the `server_name` it has."""
        client, server = Source(opened.client), Source(opened.server)
        protocol = recognise(client, server)
        if protocol in ("http/1.1", "h2"):
            tls, name = connection.tls, connection.server_name
            if tls is not None and name == tls.server_name_outer:
                name = None  # a cover: the requests know better
            outer = connection.server_name
            self.read(connection, protocol, client, server)
            connection.protocol = protocol
            connection.server_name = name or connection.server_name or outer

    def read(self, connection: Connection, protocol: str, client: Source, server: Source) -> None:
        """Read a connection; sets its `server_name`."""
        number = connection.connection_no
        found: Parsed | DissectedHttp2
        if protocol == "http/1.1":
            found = self._read_http1(client, server)
            self.anomalies += _anomalies(number, found.problems)
            if connection.tls is None:
                self._note_tunnel(number, found.messages)
        elif protocol == "h2":
            found = self._read_http2(client, server)
            self.anomalies += found.anomalies
        else:
            return
        for message in found.messages if number in self.tunnelled else ():
            message.tunnelled = True
        self.messages += found.messages
        connection.server_name = found.server_name
        if found.contents:
            self._read_contents(client, server, found.contents)

    def _note_tunnel(self, number: int, messages: Sequence[Message]) -> None:
        """Note the tunnel that one of these messages, in clear text, opened."""
        if not any(message.upgrade for message in messages):
            return
        halves = [[m for m in messages if m.from_client is side] for side in (True, False)]
        tunnel = find_tunnel(number, *halves)
        if tunnel is not None:
            self.tunnels.append(tunnel)

    def finish(self) -> None:
        """All connections have been read."""
        self._answers.place()

    def frames(self) -> Frames:
        """The frames of all HTTP/2 connections read so far."""
        return self._frames.table()


def _connection_of(message: Message) -> int:
    return message.connection_no


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
