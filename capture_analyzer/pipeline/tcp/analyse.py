"""All TCP facts, a batch of whole connections at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.column import NO_TIME, concatenate
from capture_analyzer.model.holes import Holes
from capture_analyzer.model.limits import Limits, Queues
from capture_analyzer.model.packets import FIN, RST, Packets
from capture_analyzer.pipeline.flows import Flows, Pieces
from capture_analyzer.pipeline.tcp.coverage import cover
from capture_analyzer.pipeline.tcp.facts import TcpFacts
from capture_analyzer.pipeline.tcp.handshake import (
    Handshakes,
    find_handshakes,
    settle_ambiguous,
)
from capture_analyzer.pipeline.tcp.holes import find_holes
from capture_analyzer.pipeline.tcp.labels import CODE, find_probes, label_bare, label_control
from capture_analyzer.pipeline.tcp.limits import (
    Path,
    find_limits,
    fresh_data,
    path_of,
    sorted_rows,
)
from capture_analyzer.pipeline.tcp.mechanisms import MECHANISM, name_mechanisms
from capture_analyzer.pipeline.tcp.nagle import find_held
from capture_analyzer.pipeline.tcp.needless import judge
from capture_analyzer.pipeline.tcp.pieces import find_pieces
from capture_analyzer.pipeline.tcp.queues import find_queues
from capture_analyzer.pipeline.tcp.resends import find_resends
from capture_analyzer.pipeline.tcp.roles import client_is_low
from capture_analyzer.pipeline.tcp.round_trips import RoundTrips, collect, sample
from capture_analyzer.pipeline.tcp.rows import Sums, make_rows
from capture_analyzer.pipeline.tcp.segments import Bools, Ints, Segments, arrange
from capture_analyzer.pipeline.tcp.selective import read_blocks
from capture_analyzer.pipeline.tcp.vantage import SIDES, find_vantage

BATCH_PACKETS: Final = 131_072
"""Packets of a batch: its temporaries stay in the processor's cache, and its streams (two for
each packet at most) have room in one row of numbers: see `SPAN`."""


def analyse(packets: Packets, flows: Flows) -> TcpFacts:
    """Work out everything TCP tells.

    Writes ``packets.from_client``, ``label``, ``mechanism`` and ``spurious``, and
    ``flows.pieces``.
    """
    count = len(flows)
    flags = packets.flags[flows.order]
    low, certain = client_is_low(packets, flows, flags)
    from_client = flows.from_low == np.repeat(low, np.diff(flows.bounds))
    packets.from_client[flows.order] = from_client
    handshakes = find_handshakes(packets, flows, flags, from_client)
    sums = Sums.blank(count)
    batches = [
        _Batch(packets, flows, handshakes, sums, first, last, from_client)
        for first, last in _batches(flows)
    ]
    again = [index for indices in handshakes.repeats.values() for index in indices]
    packets.mechanism[again] = MECHANISM["syn"]
    flows.pieces = _join_pieces(batches, packets, flows, flags, from_client)
    round_trips = _round_trips(batches, packets, handshakes)
    settle_ambiguous(handshakes, round_trips.server.smallest(count))
    rows = make_rows(packets, flows, flags, from_client, low, certain, handshakes, sums)
    return TcpFacts(
        connections=rows,
        holes=concatenate(Holes, [batch.holes for batch in batches]),
        limits=concatenate(Limits, [batch.limits for batch in batches]),
        queues=concatenate(Queues, [batch.queues for batch in batches]),
        round_trips=round_trips,
        path=Path.joined([batch.path for batch in batches]),
        anomalies=[anomaly for batch in batches for anomaly in batch.anomalies],
    )


def _batches(flows: Flows) -> Iterator[tuple[int, int]]:
    """Ranges of connections with about BATCH_PACKETS packets, at least one connection."""
    first, count = 0, len(flows)
    while first < count:
        limit = int(flows.bounds[first]) + BATCH_PACKETS
        last = max(int(np.searchsorted(flows.bounds, limit, "right")) - 1, first + 1)
        yield first, last
        first = last


class _Batch:
    """The analysis of one batch; keeps only what is handed on."""

    def __init__(
        self,
        packets: Packets,
        flows: Flows,
        handshakes: Handshakes,
        sums: Sums,
        first: int,
        last: int,
        from_client: Bools,
    ) -> None:
        segments = arrange(packets, flows, first, last, from_client)
        coverage = cover(segments)
        acks, rtts = sample(segments, coverage)
        self.rtt_connection = segments.stream[acks] // 2 + first
        self.rtt_client = segments.stream[acks] % 2 == 0
        self.rtt_time, self.rtt = segments.time[acks], rtts

        nearest = _nearest(segments, acks, rtts, handshakes, first, last)
        side, confidence = find_vantage(nearest[0::2], nearest[1::2], *_ttls(packets, segments))
        sums.vantage[first:last], sums.vantage_confidence[first:last] = side, confidence
        # A direction is captured at its receiver: stream 2c ends at the server.
        at_receiver = np.empty(2 * (last - first), np.bool_)
        at_receiver[0::2] = side == SIDES.index("server")
        at_receiver[1::2] = side == SIDES.index("client")

        other = np.arange(2 * (last - first)) ^ 1
        known = (nearest != NO_TIME) & (nearest[other] != NO_TIME)
        path = np.where(known, np.where(known, nearest, 0) + nearest[other], NO_TIME)
        keep_alive, probe = find_probes(segments)
        label = label_bare(segments, keep_alive, probe)
        resends = find_resends(
            packets, segments, coverage, np.concatenate((keep_alive, probe)), nearest
        )
        selective = read_blocks(packets, segments)
        if len(resends.element):
            with_sack = np.repeat(handshakes.sack[first:last], 2)
            judge(packets, segments, selective, resends, nearest[other], at_receiver, with_sack)
            name_mechanisms(packets, segments, coverage, selective, resends, label, path, with_sack)
        label[resends.element[resends.resent]] = CODE["retransmission"]
        label[resends.element[~resends.resent]] = CODE["reordered"]
        label_control(label, segments, keep_alive, probe)
        packets.label[segments.index] = label
        packets.mechanism[segments.index[resends.element]] = resends.mechanism
        packets.spurious[segments.index[resends.element]] = resends.spurious
        self.holes = find_holes(segments, coverage, selective, resends, first, at_receiver, path)
        self.path = known = path_of(packets, segments, handshakes, nearest, first, last)
        fresh = fresh_data(segments)
        held = find_held(segments, known, fresh, resends.element)
        limited = find_limits(segments, known, probe, fresh)
        self.queues = find_queues(packets, segments, known, fresh, resends.element)
        self.limits = sorted_rows(concatenate(Limits, [limited, held]))
        self.pieces = find_pieces(segments, coverage, resends, at_receiver)
        sums.add(segments, resends, label, self.pieces, first, last)
        self.anomalies = [
            Anomaly(
                "tcp-sequence-far",
                "peer",
                "segments far outside any window were set aside",
                connection_no=first + connection,
                packet_no=int(segments.index[at]) + 1,
                count=number,
            )
            for connection, at, number in _counted(segments)
        ]


def _counted(segments: Segments) -> Iterator[tuple[int, int, int]]:
    """Connections with segments set aside: (connection, first element, how many)."""
    owner = segments.stream[segments.far] // 2
    numbers, first, count = np.unique(owner, return_index=True, return_counts=True)
    for i, number in enumerate(numbers.tolist()):
        yield number, int(segments.far[first[i]]), int(count[i])


def _nearest(
    segments: Segments,
    acks: NDArray[np.intp],
    rtts: Ints,
    handshakes: Handshakes,
    first: int,
    last: int,
) -> Ints:
    """For each stream, smallest round trip between the capture point and its sender."""
    longest = np.iinfo(np.int64).max
    nearest = np.full(2 * (last - first), longest)
    np.minimum.at(nearest, segments.stream[acks], rtts)
    for way, column in enumerate((handshakes.client_side_rtt, handshakes.server_side_rtt)):
        shake = column[first:last]
        nearest[way::2] = np.minimum(nearest[way::2], np.where(shake < 0, longest, shake))
    nearest[nearest == longest] = NO_TIME
    return nearest


def _ttls(packets: Packets, segments: Segments) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """TTL of the first packet of either side of each connection; 0 without a packet."""
    ttl = np.zeros(len(segments.counts), np.uint8)
    some = np.flatnonzero(segments.counts)
    ttl[some] = packets.ttl[segments.index[segments.starts[some]]]
    return ttl[0::2], ttl[1::2]


def _join_pieces(
    batches: list[_Batch],
    packets: Packets,
    flows: Flows,
    flags: NDArray[np.uint8],
    from_client: Bools,
) -> Pieces:
    """Pieces of all batches, with the instants of FIN and RST."""
    streams = 2 * len(flows)
    counts = [
        np.bincount(batch.pieces.stream, minlength=len(batch.pieces.mid)) for batch in batches
    ]
    bounds = np.zeros(streams + 1, np.int64)
    if batches:
        np.cumsum(np.concatenate(counts), out=bounds[1:])
    ends = np.flatnonzero(flags & (FIN | RST))
    owner = np.searchsorted(flows.bounds, ends, "right") - 1
    time = packets.time_ns[flows.order[ends]]
    fin_ns, reset_ns = np.full(streams, NO_TIME), np.full(len(flows), NO_TIME)
    # Backwards: the first is written last.
    is_fin = ((flags[ends] & FIN) != 0)[::-1]
    is_reset = ((flags[ends] & RST) != 0)[::-1]
    stream = (owner * 2 + ~from_client[ends])[::-1]
    fin_ns[stream[is_fin]] = time[::-1][is_fin]
    reset_ns[owner[::-1][is_reset]] = time[::-1][is_reset]

    def joined(name: str, dtype: type[np.generic]) -> NDArray[np.generic]:
        parts = [getattr(batch.pieces, name) for batch in batches]
        return np.concatenate(parts).astype(dtype, copy=False) if parts else np.empty(0, dtype)

    return Pieces(
        packet=joined("packet", np.int32),  # type: ignore[arg-type]
        skip=joined("skip", np.int32),  # type: ignore[arg-type]
        begin=joined("begin", np.int64),  # type: ignore[arg-type]
        length=joined("length", np.int64),  # type: ignore[arg-type]
        arrival_ns=joined("arrival", np.int64),  # type: ignore[arg-type]
        bounds=bounds,
        end=joined("end", np.int64),  # type: ignore[arg-type]
        mid_stream=joined("mid", np.bool_),  # type: ignore[arg-type]
        fin_ns=fin_ns,
        reset_ns=reset_ns,
    )


def _round_trips(batches: list[_Batch], packets: Packets, handshakes: Handshakes) -> RoundTrips:
    sides = []
    for client, column, ends in (
        (True, handshakes.client_side_rtt, handshakes.established),
        (False, handshakes.server_side_rtt, handshakes.syn_ack),
    ):
        shaken = np.flatnonzero(column >= 0)
        connection, time, rtt = [shaken], [packets.time_ns[ends[shaken]]], [column[shaken]]
        for batch in batches:
            of_side = batch.rtt_client == client
            connection.append(batch.rtt_connection[of_side])
            time.append(batch.rtt_time[of_side])
            rtt.append(batch.rtt[of_side])
        sides.append(collect(np.concatenate(connection), np.concatenate(time), np.concatenate(rtt)))
    return RoundTrips(client=sides[0], server=sides[1])
