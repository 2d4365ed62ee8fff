"""Connections that were captured at two points of their path, in one capture.

A file merged from a client's and a server's capture holds every packet that arrived twice: with
all that its sender wrote into it unchanged, but with the IP time to live that it had here and
there. Judged as one, such packets look like retransmissions and reordering. So of each such
connection only what one point saw is kept, the one nearer to the client; the rest is set
aside as `capture_duplicate`, also packets that only the other point saw.

The time between the two may be anything: the way between the points, or two clocks apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.connections import Connection
from capture_analyzer.model.packets import LABELS, Packets
from capture_analyzer.pipeline.flows import Flows
from capture_analyzer.pipeline.tcp.roles import client_is_low

_LEAST_SHARE: Final = 0.1
"""So much of a direction must have each of two times to live; a few packets have another for
many reasons (a reset that a firewall sent, a change of the route)."""

_MATCHED: Final = 0.7  # of the packets with the rarer one must have a twin with the other

_LEAST_PACKETS: Final = 3  # of either time to live in a direction: fewer are chance

_DUPLICATE: Final = LABELS.index("capture_duplicate")


def keep_one_point(packets: Packets, flows: Flows) -> tuple[Flows, NDArray[np.intp]]:
    """Leave one point's packets of each connection that was captured at two.

    Writes ``packets.label`` of the packets that are set aside.

    Returns:
        The flows without them, and their indices, ascending.
    """
    nothing = np.empty(0, np.intp)
    candidates = _with_two_ttls(packets, flows)
    if not len(candidates):
        return flows, nothing
    low, _ = client_is_low(packets, flows, packets.flags[flows.order])
    aside = np.zeros(len(flows.order), np.bool_)
    for number in candidates.tolist():
        mine = np.arange(flows.bounds[number], flows.bounds[number + 1])
        of_client = flows.from_low[mine] == low[number]
        ways = (_split(packets, flows, mine[of_client]), _split(packets, flows, mine[~of_client]))
        if ways[0] is None or ways[1] is None:
            continue
        # Near the client its own packets have the higher time to live, the server's the lower.
        aside[ways[0][1]] = True
        aside[ways[1][0]] = True
    dropped = flows.order[aside]
    if not len(dropped):
        return flows, nothing
    packets.label[dropped] = _DUPLICATE
    kept = np.concatenate(([0], np.cumsum(~aside)))
    return (
        Flows(
            order=flows.order[~aside],
            bounds=kept[flows.bounds].astype(np.int64),
            from_low=flows.from_low[~aside],
            stream_nos=flows.stream_nos,
        ),
        np.sort(dropped).astype(np.intp),
    )


def count_aside(
    packets: Packets,
    flows: Flows,
    connections: Sequence[Connection],
    aside: NDArray[np.intp],
) -> None:
    """Let what was set aside belong to its connections.

    Writes ``packets.from_client``, by the packets that were kept, and the connections' count
    of packets.
    """
    if not len(aside):
        return
    for number, count in zip(
        *(
            column.tolist()
            for column in np.unique(packets.connection_no[aside], return_counts=True)
        ),
        strict=True,
    ):
        connections[number].packet_count += count
    first = flows.order[flows.bounds[:-1]]
    like = first[packets.connection_no[aside]]
    same = packets.source[aside] == packets.source[like]
    same &= packets.source_port[aside] == packets.source_port[like]
    side = packets.from_client[like]
    packets.from_client[aside] = np.where(same, side, 1 - side)


def _with_two_ttls(packets: Packets, flows: Flows) -> NDArray[np.intp]:
    """Connections in both directions of which packets differ in their time to live."""
    if not len(flows):
        return np.empty(0, np.intp)
    ttl = packets.ttl[flows.order]
    starts = flows.bounds[:-1]
    differ = np.ones(len(flows), np.bool_)
    for side in (flows.from_low, ~flows.from_low):
        lowest = np.minimum.reduceat(np.where(side, ttl, 255), starts)
        highest = np.maximum.reduceat(np.where(side, ttl, 0), starts)
        differ &= lowest < highest
    return np.flatnonzero(differ)


def _split(
    packets: Packets, flows: Flows, mine: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Positions of one direction's packets with the higher, and with the lower time to live.

    None unless nearly all of the rarer ones are copies of the others.
    """
    index = flows.order[mine]
    values, counts = np.unique(packets.ttl[index], return_counts=True)
    if len(values) < 2:
        return None
    two = np.sort(values[np.argsort(-counts, kind="stable")[:2]])
    high, low = packets.ttl[index] == two[1], packets.ttl[index] == two[0]
    fewest = max(_LEAST_PACKETS, _LEAST_SHARE * len(mine))
    if high.sum() < fewest or low.sum() < fewest:
        return None
    names = ("ip_id", "seq", "ack", "flags", "payload_bytes", "tsval", "tsecr", "window")
    table = np.stack([getattr(packets, name)[index].astype(np.int64) for name in names], axis=1)
    _, identity = np.unique(table, axis=0, return_inverse=True)
    identity = identity.reshape(-1)
    rarer, other = (high, low) if high.sum() <= low.sum() else (low, high)
    twins = np.isin(identity[rarer], identity[other])
    if twins.mean() < _MATCHED:
        return None
    return mine[high], mine[~high]
