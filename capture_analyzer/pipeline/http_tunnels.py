"""HTTP tunnels: where a connection stops speaking HTTP, and what is behind it begins.

A 2xx response to CONNECT (RFC 9110, section 9.3.6) and a 101 response (section 15.2.2) are the
last that HTTP says on a connection of HTTP/1.x.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.messages import Message
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.reassemble import Streams


@quick_dataclass(frozen=True)
class Tunnel:
    """Where a connection stops speaking HTTP (Upgrade, CONNECT).

    Attributes:
        connection_no: the connection.
        client_offset, server_offset: stream offsets of the first bytes behind HTTP.
    """

    connection_no: int
    client_offset: int
    server_offset: int


def find_tunnel(
    connection_no: int, requests: Sequence[Message], responses: Iterable[Message]
) -> Tunnel | None:
    """The tunnel that a response opened, if one did.

    Args:
        connection_no: the connection.
        requests: its requests of HTTP/1.x, in stream order.
        responses: its responses, likewise.
    """
    opener = next((m for m in responses if m.upgrade), None)
    if opener is None:
        return None
    asked = [m for m in requests if m.seen_ns <= opener.seen_ns]
    client_offset = asked[-1].offset + asked[-1].length if asked else 0
    return Tunnel(connection_no, client_offset, opener.offset + opener.length)


def inside(streams: Streams, tunnels: Iterable[Tunnel]) -> Streams:
    """The streams as they are inside of tunnels: without the HTTP in front of them.

    Offsets stay those of the whole streams; `origins` says where each begins now. Streams
    without a tunnel are the same.
    """
    origins = np.zeros(len(streams), np.int64)
    for tunnel in tunnels:
        origins[2 * tunnel.connection_no] = tunnel.client_offset
        origins[2 * tunnel.connection_no + 1] = tunnel.server_offset
    counts = np.diff(streams.bounds)
    skip = np.maximum(np.repeat(origins, counts) - streams.starts, 0)
    kept = np.flatnonzero(skip < streams.lengths)
    skip = skip[kept]
    bounds: NDArray[np.int64] = np.searchsorted(kept, streams.bounds)
    return Streams(
        bounds=bounds,
        starts=streams.starts[kept] + skip,
        lengths=streams.lengths[kept] - skip,
        packet_nos=streams.packet_nos[kept],
        seen_ns=streams.seen_ns[kept],
        in_order_ns=streams.in_order_ns[kept],
        buffer_nos=streams.buffer_nos[kept],
        buffer_offsets=streams.buffer_offsets[kept] + skip,
        buffers=streams.buffers,
        end=streams.end,
        mid_stream=streams.mid_stream & (origins == 0),
        fin_ns=streams.fin_ns,
        reset_ns=streams.reset_ns,
        origins=origins,
    )
