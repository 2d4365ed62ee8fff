"""Handshake messages as they are found, by their records; their table in the end."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.tls_records import HandshakeMessages, TlsRecords
from capture_analyzer.protocols.tls.handshake import CLIENT_HELLO, MESSAGE_HEADER_BYTES, Noted

_VALUES: Final = 6


class Handshakes:
    """Notes of the messages of many connections, in any order of these."""

    def __init__(self) -> None:
        self._notes = array("q")  # _VALUES numbers a message, one message after the other

    def add(self, connection_no: int, messages: Iterable[Noted], first: tuple[int, int]) -> None:
        """Note messages of a connection, in order of sending in each direction.

        Args:
            connection_no: the connection.
            messages: their records go by their index in the direction.
            first: the first record of the client and of the server, by its place in the table.
        """
        for from_client, kind, length, begin, end in messages:
            base = first[0 if from_client else 1]
            self._notes.extend((connection_no, from_client, kind, length, base + begin, base + end))

    def add_filling(
        self,
        connection_no: NDArray[np.int64],
        kind: int,
        record: NDArray[np.int64],
        records: TlsRecords,
    ) -> None:
        """Note hellos that fill a record each, all of one type.

        Args:
            connection_no: their connections.
            kind: their type.
            record: their records.
            records: the table of these.
        """
        notes = np.empty((len(record), _VALUES), np.int64)
        notes[:, 0] = connection_no
        notes[:, 1] = kind == CLIENT_HELLO
        notes[:, 2] = kind
        notes[:, 3] = records.length[record] - MESSAGE_HEADER_BYTES
        notes[:, 4] = notes[:, 5] = record
        self._notes.frombytes(notes.tobytes())

    def table(self, records: TlsRecords) -> HandshakeMessages:
        """All messages that were noted.

        Args:
            records: of all connections, with the times of the messages.
        """
        notes = np.frombuffer(self._notes, np.int64).reshape(-1, _VALUES)
        order = np.argsort(2 * notes[:, 0] + (notes[:, 1] == 0), kind="stable")
        number, from_client, kind, length, first, last = notes[order].T
        complete_ns = records.complete_ns[last]
        return HandshakeMessages(
            connection_no=number.astype(np.int32),
            from_client=from_client != 0,
            type=kind.astype(np.uint8),
            length=length.astype(np.int32),
            first_packet_no=records.first_packet_no[first],
            last_packet_no=records.last_packet_no[last],
            seen_ns=records.seen_ns[first],
            complete_ns=np.where(complete_ns == NO_TIME, records.seen_ns[last], complete_ns),
        )
