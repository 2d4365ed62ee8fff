"""Pieces of data whose content can't be read: what flights are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.connections import Connection, record_overhead
from capture_analyzer.model.quick_dataclass import quick_dataclass

_NEVER_NS: Final = 1 << 60


@quick_dataclass
class Speech:
    """What each connection may speak: one element a connection in each array."""

    may_be_h2: NDArray[np.bool_]
    may_be_h1: NDArray[np.bool_]
    keeps_start: NDArray[np.bool_]
    overhead: NDArray[np.int32]  # bytes of a TLS record's fragment that are not content
    round_trip_ns: NDArray[np.int64]  # to the server; very long if not known
    # Connections whose early data the server skipped.
    early_rejected: list[int] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, connections: Sequence[Connection]) -> Speech:
        """Read it off ALPN (RFC 7301), the TLS version and the cipher suite."""
        h1 = [_may_be(connection, "http/1.1") for connection in connections]
        return cls(
            may_be_h2=may_be_h2(connections),
            may_be_h1=np.array(h1, np.bool_),
            keeps_start=np.array([c.roles_certain for c in connections], np.bool_),
            overhead=np.array([record_overhead(c.tls) for c in connections], np.int32),
            round_trip_ns=np.array(
                [c.server_side_rtt_ns or _NEVER_NS for c in connections], np.int64
            ),
            early_rejected=[
                c.connection_no
                for c in connections
                if c.tls is not None and c.tls.early_data_accepted is False
            ],
        )


def may_be_h2(connections: Sequence[Connection]) -> NDArray[np.bool_]:
    """For each connection: it may speak HTTP/2."""
    return np.array([_may_be(connection, "h2") for connection in connections], np.bool_)


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


@quick_dataclass
class Units:
    """Pieces of data in each array, one element a TLS record or a segment's payload.

    Ordered by connection, then packet, then offset.

    Attributes:
        connection_no: the connection.
        from_client: the direction.
        first_packet_no: packet with its first byte.
        last_packet_no: packet with its last byte.
        seen_ns: its first byte was captured.
        offset: stream offset of its first byte.
        usable_ns: an application can use it (record complete and in order); NO_TIME = cut.
        size: bytes on the stream.
        content: bytes of application data in it; -1 = can't be told.
        speech: what the connections may speak.
    """

    connection_no: NDArray[np.int32]
    from_client: NDArray[np.bool_]
    first_packet_no: NDArray[np.int32]
    last_packet_no: NDArray[np.int32]
    seen_ns: NDArray[np.int64]
    usable_ns: NDArray[np.int64]
    offset: NDArray[np.int64]
    size: NDArray[np.int32]
    content: NDArray[np.int32]
    speech: Speech

    def __len__(self) -> int:
        """Number of units."""
        return len(self.connection_no)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Units:
        """The chosen units, in the order of `index`."""
        if index.dtype == np.bool_:
            if index.all():
                return self
            index = np.flatnonzero(index)
        return dataclasses.replace(
            self,
            **{
                field.name: getattr(self, field.name)[index]
                for field in dataclasses.fields(Units)
                if field.name != "speech"
            },
        )

    def may_be_h2(self, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether HTTP/2 is possible on the connections of these units."""
        return self.speech.may_be_h2[self.connection_no[index]]

    def may_be_h1(self, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether HTTP/1.1 is."""
        return self.speech.may_be_h1[self.connection_no[index]]

    def keeps_start(self, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the capture holds the beginning of their connections."""
        return self.speech.keeps_start[self.connection_no[index]]

    def round_trip_ns(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """The round trip to their servers; very long where not known."""
        return self.speech.round_trip_ns[self.connection_no[index]]
