"""TLS connections opened with the secrets of a key log."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.secrets import Secrets
from capture_analyzer.model.tls_records import ROLE_CODE, TlsRecords
from capture_analyzer.pipeline.certificates import decompress
from capture_analyzer.pipeline.dissect.guard import Guard
from capture_analyzer.pipeline.dissect.layout import lay_out
from capture_analyzer.pipeline.dissect.plaintext import Plain, open_records
from capture_analyzer.pipeline.dissect.records import AllRecords, Records, Side
from capture_analyzer.pipeline.dissect.session_keys import TLS12, find_decryptors, first_whole
from capture_analyzer.protocols.tls import handshake
from capture_analyzer.protocols.tls.connection import Understood
from capture_analyzer.protocols.tls.handshake import Noted, split_messages
from capture_analyzer.protocols.tls.hello import parse_encrypted_extensions
from capture_analyzer.protocols.tls.records import HEADER_BYTES
from capture_analyzer.protocols.tls.sessions import SessionFinder

_LATER_UNKNOWN: Final = "the key log has no secrets for a later handshake on the connection"

MOST_WAITING: Final = 256
MOST_WAITING_BYTES: Final = 8 << 20
"""Connections, and bytes in them, that are decrypted before they are read: enough to lay them out
at once, and so few that they stay in the processor's cache."""

_NO_ROLE: Final = 255
_ROLE_OF_INNER: Final = np.full(256, _NO_ROLE, np.uint8)
_ROLE_OF_INNER[handshake.CHANGE_CIPHER_SPEC] = ROLE_CODE["change_cipher_spec"]
_ROLE_OF_INNER[handshake.ALERT] = ROLE_CODE["alert"]
_ROLE_OF_INNER[handshake.HANDSHAKE] = ROLE_CODE["handshake"]
_ROLE_OF_INNER[handshake.APPLICATION_DATA] = ROLE_CODE["application"]


@quick_dataclass
class OpenedConnection:
    """What both directions hold, the handshake messages that were protected, and what is lost.

    The messages' records go by their index in the direction.

    Before they can be read, `lay_out` must have seen all of `plains`.
    """

    sides: tuple[Side, Side]
    plains: tuple[Plain | None, Plain | None]
    messages: list[Noted]
    anomalies: list[Anomaly]

    @property
    def client(self) -> ByteStream:
        """Plaintext of the client."""
        return self._stream(0)

    @property
    def server(self) -> ByteStream:
        """Plaintext of the server."""
        return self._stream(1)

    def _stream(self, index: int) -> ByteStream:
        plain = self.plains[index]
        if plain is None:
            return _nothing(self.sides[index].stream)
        assert plain.stream is not None
        return plain.stream


class Waiting:
    """Decrypted connections that are to be read, some at a time."""

    def __init__(self, read: Callable[[Connection, OpenedConnection], None], guard: Guard) -> None:
        self._read = read
        self._guard = guard
        self._connections: list[tuple[Connection, OpenedConnection]] = []
        self._bytes = 0

    def add(self, connection: Connection, opened: OpenedConnection) -> None:
        """Take one more."""
        self._connections.append((connection, opened))
        self._bytes += sum(plain.end for plain in opened.plains if plain is not None)
        if len(self._connections) >= MOST_WAITING or self._bytes >= MOST_WAITING_BYTES:
            self.finish()

    def finish(self) -> None:
        """Read those that wait."""
        plains = [plain for _, opened in self._connections for plain in opened.plains]
        lay_out([plain for plain in plains if plain is not None])
        for connection, opened in self._connections:
            with self._guard(connection.connection_no):
                self._read(connection, opened)
        self._connections = []
        self._bytes = 0


def open_connection(
    connection: Connection,
    understood: Understood,
    client: Side,
    server: Side,
    table: TlsRecords,
    secrets: Secrets,
    finder: SessionFinder,
) -> OpenedConnection | None:
    """Decrypt a connection; None if it can't be, and `TlsSummary.why_not` says why.

    Writes the connection's `tls` and `alpn`.
    """
    tls = connection.tls
    assert tls is not None
    sides = (client, server)
    records = client.records, server.records
    openers = find_decryptors(connection, understood, sides, records, secrets, finder)
    if isinstance(openers, str):
        tls.why_not = openers
        return None
    plains: list[Plain | None] = [None, None]
    messages: list[Noted] = []
    early_accepted = True
    # The server first: it says whether it took early data.
    for index, side, rows in ((1, server, records[1]), (0, client, records[0])):
        opener = openers[index]
        if opener is None:
            continue
        plain = plains[index] = open_records(
            side.stream, rows, opener, side.protected_from, early_accepted=early_accepted
        )
        protected = split_messages(plain.handshake)
        for message in protected:
            kind = message.type
            if kind == handshake.ENCRYPTED_EXTENSIONS and index == 1:
                connection.alpn, early_accepted = parse_encrypted_extensions(message.body)
                if tls.early_data:
                    tls.early_data_accepted = early_accepted
            elif kind == handshake.CERTIFICATE and index == 1:
                understood.certificate = message.body
            elif kind == handshake.COMPRESSED_CERTIFICATE and index == 1:
                understood.certificate = decompress(message.body)
            elif tls.version == TLS12:
                continue  # where the handshake ends was to be seen, and tickets are part of it
            elif kind == handshake.FINISHED and index == 0:
                _end(tls, int(table.seen_ns[rows.first + message.last_record]))
            elif kind == handshake.NEW_SESSION_TICKET:
                ticket = rows.first + message.last_record, ROLE_CODE["ticket"]
                rows.everything.roles.append(ticket)
        if plain.early_records:
            rows.everything.roles += [
                (rows.first + record, ROLE_CODE["early_data"]) for record in plain.early_records
            ]
        messages[:0] = [message.noted(index == 0) for message in protected]
    if not any(plain is not None and plain.opened for plain in plains):
        tls.why_not = _nothing_opened(sides, records)
        return None
    _summarise(tls, plains, sides, records)
    if understood.keys_changed and tls.decrypted == "partial":
        tls.why_not = _LATER_UNKNOWN
    lost = [
        _lost_records(connection.connection_no, side, plain, table)
        for side, plain in zip(sides, plains, strict=True)
        if plain is not None and plain.missing
    ]
    return OpenedConnection(sides, (plains[0], plains[1]), messages, lost)


def _lost_records(number: int, side: Side, plain: Plain, table: TlsRecords) -> Anomaly:
    """How many records of a direction the capture lacks, by sequence numbers, and where first."""
    begin, records = side.protected_from, side.records
    ends = records.offset + table.length[records.first : records.stop] + HEADER_BYTES
    # A record that is not whole, or the one behind a stretch without any header.
    damaged = ~records.complete
    damaged[1:] |= records.offset[1:] != ends[:-1]
    found = np.flatnonzero(damaged[begin:])
    packet_no = None
    if len(found):
        packet_no = int(table.first_packet_no[records.first + begin + found[0]])
    who = "client" if side.stream.from_client else "server"
    clause = f"records of the {who} can't be opened: the capture lacks them, or some of their bytes"
    return Anomaly("tls-records-lost", "capture", clause, number, packet_no, plain.missing)


def _end(tls: TlsSummary, end_ns: int) -> None:
    """The client's Finished: now certain."""
    tls.end_ns = end_ns
    tls.end_certain = True
    if tls.start_ns is not None:
        tls.duration_ns = end_ns - tls.start_ns


def set_roles(records: AllRecords, table: TlsRecords) -> None:
    """What each record carries, read off. Records that did not open keep their inference."""
    role = _ROLE_OF_INNER[records.inner_types]
    np.copyto(table.role, role, where=role != _NO_ROLE)
    for record, special in records.roles:
        table.role[record] = special
    table.role_inferred &= records.inner_types == 0


def _nothing_opened(sides: tuple[Side, Side], records: tuple[Records, Records]) -> str:
    """Why no record opened although there are secrets."""
    if all(first_whole(*pair) == len(pair[1]) for pair in zip(sides, records, strict=True)):
        return "no protected record was captured"
    return "the key log's secrets do not open its records"


def _summarise(
    tls: TlsSummary,
    plains: list[Plain | None],
    sides: tuple[Side, Side],
    records: tuple[Records, Records],
) -> None:
    """Whether all of it was decrypted, and what not."""
    whos = ("client", "server")
    lacking = [
        who
        for who, plain, side, rows in zip(whos, plains, sides, records, strict=True)
        if plain is None and side.protected_from < len(rows)
    ]
    failed = [who for who, plain in zip(whos, plains, strict=True) if plain and plain.failed]
    missing = any(plain is not None and plain.missing for plain in plains)
    tls.decrypted = "partial" if lacking or failed or missing else "yes"
    tls.why_not = None
    if lacking:
        tls.why_not = f"the key log lacks the {lacking[0]}'s secrets"
    elif failed:
        tls.why_not = f"some records of the {failed[0]} do not open with the key log's secrets"
    elif missing:
        tls.why_not = "the capture lacks bytes of some records"


def _nothing(stream: ByteStream) -> ByteStream:
    """The direction without any of its bytes."""
    none = np.empty(0, np.int64)
    return dataclasses.replace(
        stream,
        starts=none,
        lengths=none,
        packet_nos=np.empty(0, np.int32),
        seen_ns=none,
        in_order_ns=none,
        usable_ns=none,
        buffer_nos=np.empty(0, np.uint16),
        buffer_offsets=none,
        buffers=(),
        end=0,
    )
