"""When payload arrived: what its gaps and its pace say of the sender and of the link."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import distinct
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.causes.links import full_segments
from capture_analyzer.pipeline.intervals import Times
from capture_analyzer.pipeline.reassemble import Streams


@quick_dataclass
class Arrivals:
    """Payload of all streams, each byte once: one element a segment's part in each array.

    Ordered by connection, direction (client first), then stream offset.
    """

    connection_no: NDArray[np.int32]
    from_client: NDArray[np.bool_]
    seen_ns: Times
    length: NDArray[np.int64]
    packet_no: NDArray[np.int32]

    @classmethod
    def of(cls, streams: Streams) -> Arrivals:
        """Those of all streams."""
        counts = np.diff(streams.bounds)
        number = np.arange(len(streams), dtype=np.int32)
        return cls(
            connection_no=np.repeat(number >> 1, counts),
            from_client=np.repeat(number % 2 == 0, counts),
            seen_ns=streams.seen_ns,
            length=streams.lengths,
            packet_no=streams.packet_nos,
        )


@quick_dataclass
class Pauses:
    """Stretches in which a sender sent nothing for longer than its window explains."""

    connection_no: NDArray[np.int32]
    from_client: NDArray[np.bool_]
    from_ns: Times
    to_ns: Times


def pauses_of(arrivals: Arrivals, longest_ns: Times) -> Pauses:
    """Stretches without any payload that are longer than `longest_ns` of their connection.

    Between two bytes of a stream nothing arrived if all bytes up to the one were there before
    any byte behind it. So a hole makes no pause: bytes behind it arrived meanwhile.
    """
    seen = arrivals.seen_ns
    if not len(seen):
        return Pauses(arrivals.connection_no, arrivals.from_client, seen, seen)
    step = np.diff(seen)
    same = (arrivals.connection_no[1:] == arrivals.connection_no[:-1]) & (
        arrivals.from_client[1:] == arrivals.from_client[:-1]
    )
    latest = earliest = seen
    backwards = np.flatnonzero(same & (step < 0))
    if len(backwards):
        latest, earliest = seen.copy(), seen.copy()
        bounds = np.concatenate(([0], np.flatnonzero(~same) + 1, [len(seen)]))
        for number in distinct(np.searchsorted(bounds, backwards, "right")).tolist():
            mine = slice(bounds[number - 1], bounds[number])
            latest[mine] = np.maximum.accumulate(seen[mine])
            earliest[mine] = np.minimum.accumulate(seen[mine][::-1])[::-1]
        step = earliest[1:] - latest[:-1]
    long = np.flatnonzero(same & (step > longest_ns[arrivals.connection_no[1:]]))
    return Pauses(
        connection_no=arrivals.connection_no[long],
        from_client=arrivals.from_client[long],
        from_ns=latest[long],
        to_ns=earliest[long + 1],
    )


def first_segment_times(
    arrivals: Arrivals,
    first_packet: NDArray[np.int32],
    packet_count: int,
    connections: Sequence[Connection],
) -> Times:
    """How long the first segment of each response took on the slowest link.

    A sender with more to send emits full segments back to back; at the receiver they are as
    far apart as the slowest link is slow. So the least distance between the first three
    full segments is the time that one of them takes. Shorter responses, and smaller
    segments, which were sent one by one, tell nothing.

    Args:
        arrivals: payload of all streams.
        first_packet: first packet of each response; 0 = none.
        packet_count: number of packets in the capture.
        connections: by number.

    Returns:
        Durations; 0 where they can't be known.
    """
    element = np.full(packet_count + 1, -1, np.int32)
    server = np.flatnonzero(~arrivals.from_client)
    element[arrivals.packet_no[server[::-1]]] = server[::-1]  # of several, the first
    first = element[first_packet].astype(np.int64)
    first[first_packet == 0] = -1
    usable = np.flatnonzero((first >= 0) & (first + 2 < len(arrivals.seen_ns)))
    a, b, c = first[usable], first[usable] + 1, first[usable] + 2
    full = full_segments(connections)
    train = (
        (arrivals.connection_no[a] == arrivals.connection_no[c])
        & ~arrivals.from_client[c]
        & (arrivals.length[a] >= full[arrivals.connection_no[a]])
        & (arrivals.length[a] == arrivals.length[b])
        & (arrivals.length[b] == arrivals.length[c])
    )
    usable, a, b, c = usable[train], a[train], b[train], c[train]
    result = np.zeros(len(first_packet), np.int64)
    result[usable] = np.maximum(
        np.minimum(
            arrivals.seen_ns[b] - arrivals.seen_ns[a], arrivals.seen_ns[c] - arrivals.seen_ns[b]
        ),
        0,
    )
    return result
