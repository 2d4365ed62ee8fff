"""Who is client and who is server of each connection."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import ACK, SYN, Packets
from capture_analyzer.pipeline.flows import Flows

_WELL_KNOWN_TEXT: Final = (
    "1433 1883 3000 3128 3306 5000 5432 5672 6379 8000 8008 8080 8081 8443 8883 8888 9000 "
    "9042 9090 9092 9200 9443 11434 27017 50051"
)
WELL_KNOWN: Final = np.array([int(port) for port in _WELL_KNOWN_TEXT.split()], np.uint16)
"""Ports above 1023 that servers listen on by custom (a choice, IANA's list is too long)."""

_EPHEMERAL: Final = 32768  # Linux takes client ports from here; RFC 6335 from 49152


def client_is_low(
    packets: Packets, flows: Flows, flags: NDArray[np.uint8]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each connection: is its lower endpoint the client, and is that certain.

    Certain with a SYN (its sender is the client) or a SYN-ACK (its sender is the server).
    Otherwise, in this order: exactly one port below 1024, or customary for servers, or
    outside the ephemeral range is the server's; the sender of the first payload is the
    client (in most protocols the client speaks first); the sender of the first packet.

    Args:
        packets: the packets.
        flows: their grouping.
        flags: TCP flags in the order of ``flows.order``.
    """
    count = len(flows)
    low = np.zeros(count, np.bool_)
    certain = np.zeros(count, np.bool_)
    syn = np.flatnonzero(flags & SYN)
    owner = np.searchsorted(flows.bounds, syn, "right") - 1
    is_answer = (flags[syn] & ACK) != 0
    for answers in (True, False):  # a SYN overrules a SYN-ACK
        positions, owners = syn[is_answer == answers], owner[is_answer == answers]
        # Backwards, so that the first one is written last.
        low[owners[::-1]] = flows.from_low[positions[::-1]] ^ answers
        certain[owners] = True
    unknown = np.flatnonzero(~certain)
    if len(unknown):
        low[unknown] = _guess(packets, flows, unknown)
    return low, certain


def _guess(packets: Packets, flows: Flows, numbers: NDArray[np.intp]) -> NDArray[np.bool_]:
    starts = flows.bounds[numbers]
    first = flows.order[starts]
    first_low = flows.from_low[starts]
    source, destination = packets.source_port[first], packets.destination_port[first]
    low_port = np.where(first_low, source, destination)
    high_port = np.where(first_low, destination, source)
    low_rank, high_rank = _rank(low_port), _rank(high_port)
    result = high_rank > low_rank  # the better server's port is at the high end
    for i in np.flatnonzero(low_rank == high_rank).tolist():
        number = int(numbers[i])
        span = slice(int(flows.bounds[number]), int(flows.bounds[number + 1]))
        payload = np.flatnonzero(packets.payload_bytes[flows.order[span]] > 1)
        at = span.start + (int(payload[0]) if len(payload) else 0)
        result[i] = bool(flows.from_low[at])
    return result


def _rank(port: NDArray[np.uint16]) -> NDArray[np.int8]:
    """How much a port looks like a server's: 3 below 1024, 2 customary, 1 not ephemeral."""
    rank = (port < _EPHEMERAL).astype(np.int8)
    rank[np.isin(port, WELL_KNOWN)] = 2
    rank[port < 1024] = 3
    return rank
