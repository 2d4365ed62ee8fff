"""Pieces of data whose content can't be read: what flights are made of."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray


@dataclasses.dataclass(slots=True)
class Units:
    """Pieces of data in each array, one element a TLS record or a segment's payload.

    Ordered by connection, then packet, then offset.

    Attributes:
        connection_no: the connection.
        from_client: the direction.
        first_packet_no, last_packet_no: packets with its first byte and its last.
        seen_ns: its first byte was captured.
        last_seen_ns: its last byte was captured.
        usable_ns: an application can use it (record complete and in order); NO_TIME = cut.
        size: bytes on the stream.
        content: bytes of application data in it; -1 = can't be told.
        may_be_h2, may_be_h1: what the connection may speak, by its ALPN.
        keeps_start: the capture holds the connection's beginning.
        round_trip_ns: between the capture point and the server; very long if not known.
    """

    connection_no: NDArray[np.int32]
    from_client: NDArray[np.bool_]
    first_packet_no: NDArray[np.int32]
    last_packet_no: NDArray[np.int32]
    seen_ns: NDArray[np.int64]
    last_seen_ns: NDArray[np.int64]
    usable_ns: NDArray[np.int64]
    size: NDArray[np.int64]
    content: NDArray[np.int64]
    may_be_h2: NDArray[np.bool_]
    may_be_h1: NDArray[np.bool_]
    keeps_start: NDArray[np.bool_]
    round_trip_ns: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.connection_no)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Units:
        """The chosen units, in the order of `index`."""
        return Units(*(getattr(self, field.name)[index] for field in dataclasses.fields(Units)))
