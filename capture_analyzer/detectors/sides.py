"""Which side of each connection a capture holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.packets import ACK, RST, SYN


def packets_by_side(tables: Tables) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of packets of each connection from its server, and from its client."""
    packets = tables.packets
    rows = np.flatnonzero((packets.from_client >= 0) & (packets.connection_no >= 0))
    key = packets.connection_no[rows] * 2 + packets.from_client[rows]
    counts = np.bincount(key, minlength=2 * len(tables.connections))
    return counts[0::2], counts[1::2]


def whole(tables: Tables, connection_no: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether both sides of each of these connections were captured."""
    server, client = tables.once(packets_by_side)
    both = (server > 0) & (client > 0)
    return both[connection_no]


def one_sided(tables: Tables) -> list[Connection]:
    """Connections of which only one side was captured although the other must have spoken.

    What proves it is an acknowledgement: whoever acknowledges has received something. A
    connection request without an answer is none, and neither is one that was refused.
    """
    server, client = tables.once(packets_by_side)
    alone = np.flatnonzero((server == 0) != (client == 0))
    if not len(alone):
        return []
    candidate = np.zeros(len(tables.connections), np.bool_)
    candidate[alone] = True
    packets = tables.packets
    rows = np.flatnonzero((packets.flags & (ACK | SYN | RST)) == ACK)
    owner = packets.connection_no[rows]
    owner = owner[owner >= 0]
    answered = np.bincount(owner[candidate[owner]], minlength=len(candidate)) > 0
    return [tables.connections[number] for number in np.flatnonzero(answered).tolist()]
