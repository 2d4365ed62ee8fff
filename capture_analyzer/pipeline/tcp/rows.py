"""Rows of the connections table."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.packets import (
    ACK,
    FIN,
    HAS_MSS,
    HAS_WINDOW_SCALE,
    MECHANISMS,
    RST,
    Packets,
)
from capture_analyzer.pipeline.flows import Flows
from capture_analyzer.pipeline.tcp.handshake import Handshakes
from capture_analyzer.pipeline.tcp.labels import CODE
from capture_analyzer.pipeline.tcp.needless import VERDICT
from capture_analyzer.pipeline.tcp.resends import Resends
from capture_analyzer.pipeline.tcp.segments import Bools, Segments
from capture_analyzer.pipeline.tcp.vantage import SIDES

if TYPE_CHECKING:
    from capture_analyzer.pipeline.tcp.analyse import BatchPieces

_MAX_SHIFT = 14  # RFC 7323, section 2.3: a larger shift counts as 14


@dataclasses.dataclass(slots=True)
class Sums:
    """What batches count for each connection."""

    vantage: NDArray[np.uint8]
    vantage_confidence: NDArray[np.float64]
    client_bytes: NDArray[np.int64]
    server_bytes: NDArray[np.int64]
    missing_bytes: NDArray[np.int64]
    retransmissions: NDArray[np.int64]
    spurious: NDArray[np.int64]
    mechanisms: dict[int, dict[str, int]]  # connection → count by mechanism

    @classmethod
    def blank(cls, count: int) -> Sums:
        """Zeros for `count` connections."""
        return cls(
            vantage=np.zeros(count, np.uint8),
            vantage_confidence=np.zeros(count),
            client_bytes=np.zeros(count, np.int64),
            server_bytes=np.zeros(count, np.int64),
            missing_bytes=np.zeros(count, np.int64),
            retransmissions=np.zeros(count, np.int64),
            spurious=np.zeros(count, np.int64),
            mechanisms={},
        )

    def add(
        self,
        segments: Segments,
        resends: Resends,
        label: NDArray[np.uint8],
        pieces: BatchPieces,
        first: int,
        last: int,
    ) -> None:
        """Add a batch, connections first .. last - 1."""
        streams = 2 * (last - first)
        covered = np.bincount(pieces.stream, pieces.length, streams).astype(np.int64)
        self.client_bytes[first:last] = covered[0::2]
        self.server_bytes[first:last] = covered[1::2]
        missing = np.maximum(pieces.end - covered, 0)
        self.missing_bytes[first:last] = missing[0::2] + missing[1::2]
        rows = np.flatnonzero(label[resends.element] == CODE["retransmission"])
        owner = segments.stream[resends.element[rows]] // 2
        self.retransmissions[first:last] = np.bincount(owner, minlength=last - first)
        needless = resends.spurious[rows] == VERDICT["true"]
        self.spurious[first:last] = np.bincount(owner[needless], minlength=last - first)
        pairs, counts = np.unique(
            owner * len(MECHANISMS) + resends.mechanism[rows], return_counts=True
        )
        for pair, number in zip(pairs.tolist(), counts.tolist(), strict=True):
            connection, mechanism = divmod(pair, len(MECHANISMS))
            of_connection = self.mechanisms.setdefault(first + connection, {})
            of_connection[MECHANISMS[mechanism]] = number


def make_rows(
    packets: Packets,
    flows: Flows,
    flags: NDArray[np.uint8],
    from_client: Bools,
    low: Bools,
    certain: Bools,
    handshakes: Handshakes,
    sums: Sums,
) -> list[Connection]:
    """One Connection a connection, by number.

    Args:
        packets: the packets.
        flows: their grouping.
        flags: TCP flags in the order of ``flows.order``.
        from_client: sent by the client, in that order.
        low: per connection: the client is the lower endpoint.
        certain: per connection: roles are certain.
        handshakes: the handshakes.
        sums: what the batches counted.
    """
    count = len(flows)
    if not count:
        return []
    time, order = packets.time_ns, flows.order
    first, last = order[flows.bounds[:-1]], order[flows.bounds[1:] - 1]
    forward = from_client[flows.bounds[:-1]]  # the first packet goes to the server
    client = np.where(forward, packets.source[first], packets.destination[first])
    server = np.where(forward, packets.destination[first], packets.source[first])
    source, destination = packets.source_port[first], packets.destination_port[first]
    ends = np.flatnonzero(flags & (FIN | RST))
    owner = np.searchsorted(flows.bounds, ends, "right") - 1
    fin = _first_packet(ends, owner, (flags[ends] & FIN) != 0, flows, count)
    reset = _first_packet(ends, owner, (flags[ends] & RST) != 0, flows, count)
    refused = (handshakes.syn >= 0) & (handshakes.syn_ack < 0) & (reset > handshakes.syn)
    refused &= packets.from_client[np.maximum(reset, 0)] == 0
    refused &= (packets.flags[np.maximum(reset, 0)] & ACK) != 0

    def number(indices: NDArray[np.int64]) -> list[Any]:
        """Packet numbers; None for -1."""
        return _none(indices + 1, 0)

    def instant(indices: NDArray[np.int64]) -> list[Any]:
        return _none(np.where(indices >= 0, time[indices], NO_TIME), NO_TIME)

    client_rtt, server_rtt = handshakes.client_side_rtt, handshakes.server_side_rtt
    both = (client_rtt != NO_TIME) & (server_rtt != NO_TIME)
    rtt = np.where(both, np.where(both, client_rtt, 0) + server_rtt, NO_TIME)
    scales, sizes = _options(packets, handshakes)
    addresses = packets.addresses
    columns = (
        client.tolist(),
        np.where(forward, source, destination).tolist(),
        server.tolist(),
        np.where(forward, destination, source).tolist(),
        certain.tolist(),
        time[first].tolist(),
        time[last].tolist(),
        (first + 1).tolist(),
        (last + 1).tolist(),
        np.diff(flows.bounds).tolist(),
        sums.client_bytes.tolist(),
        sums.server_bytes.tolist(),
        sums.vantage.tolist(),
        np.round(sums.vantage_confidence, 2).tolist(),
        number(handshakes.syn),
        number(handshakes.syn_ack),
        number(handshakes.established),
        instant(handshakes.syn),
        instant(handshakes.syn_last),
        instant(handshakes.syn_ack),
        instant(handshakes.established),
        _none(client_rtt, NO_TIME),
        _none(server_rtt, NO_TIME),
        _none(rtt, NO_TIME),
        refused.tolist(),
        [None if r < 0 else r for r in reset.tolist()],
        instant(reset),
        instant(fin),
        *scales,
        *sizes,
        sums.retransmissions.tolist(),
        sums.spurious.tolist(),
        sums.missing_bytes.tolist(),
    )
    rows: list[Connection] = []
    repeats, mechanisms = handshakes.repeats, sums.mechanisms
    sides = packets.from_client
    for no, row in enumerate(zip(*columns, strict=True)):
        again = repeats.get(no)
        reset_at = row[25]
        rows.append(
            Connection(
                connection_no=no,
                transport="tcp",
                tcp_stream=no,
                client_ip=addresses[row[0]],
                client_port=row[1],
                server_ip=addresses[row[2]],
                server_port=row[3],
                roles_certain=row[4],
                start_ns=row[5],
                end_ns=row[6],
                first_packet_no=row[7],
                last_packet_no=row[8],
                packet_count=row[9],
                client_bytes=row[10],
                server_bytes=row[11],
                vantage_side=SIDES[row[12]],
                vantage_confidence=row[13],
                syn_packet_no=row[14],
                syn_ack_packet_no=row[15],
                established_packet_no=row[16],
                syn_ns=row[17],
                syn_last_ns=row[18],
                syn_ack_ns=row[19],
                established_ns=row[20],
                client_side_rtt_ns=row[21],
                server_side_rtt_ns=row[22],
                rtt_ns=row[23],
                syn_retransmissions=len(again) if again else 0,
                retry_packet_nos=[index + 1 for index in again] if again else [],
                refused=row[24],
                reset_by=None
                if reset_at is None
                else ("client" if sides[reset_at] == 1 else "server"),
                reset_ns=row[26],
                fin_ns=row[27],
                window_scale_client=row[28],
                window_scale_server=row[29],
                mss_client=row[30],
                mss_server=row[31],
                retransmissions=row[32],
                retransmissions_spurious=row[33],
                retransmissions_by_mechanism=mechanisms.get(no, {}),
                missing_bytes=row[34],
            )
        )
    if flows.stream_nos is not None:
        for connection, stream_no in zip(rows, flows.stream_nos.tolist(), strict=True):
            connection.tcp_stream = stream_no
    tunnel_no = packets.tunnel_no[first]
    for no in np.flatnonzero(tunnel_no).tolist():
        rows[no].tcp_stream, rows[no].tunnel_no = None, int(tunnel_no[no])
    return rows


def _first_packet(
    positions: NDArray[np.intp],
    owner: NDArray[np.intp],
    chosen: Bools,
    flows: Flows,
    count: int,
) -> NDArray[np.int64]:
    """Index of each connection's first chosen packet; -1 without."""
    result = np.full(count, -1)
    result[owner[chosen][::-1]] = flows.order[positions[chosen][::-1]]
    return result


def _options(packets: Packets, handshakes: Handshakes) -> tuple[list[list[Any]], list[list[Any]]]:
    """Window scales and MSS of client and server, None where unknown.

    Scaling holds only if both SYNs ask for it (RFC 7323, section 2.2): if one was seen
    without, both shifts are 0.
    """
    scales, sizes = [], []
    plain = np.zeros(len(handshakes.syn), np.bool_)
    ends = (handshakes.client_options, handshakes.server_options)
    for indices in ends:
        there = indices >= 0
        plain |= there & ((packets.options[indices] & HAS_WINDOW_SCALE) == 0)
    for indices in ends:
        there = indices >= 0
        shift = np.minimum(packets.window_scale[indices], _MAX_SHIFT).astype(np.int64)
        scales.append(_none(np.where(there, np.where(plain, 0, shift), -1), -1))
        told = there & ((packets.options[indices] & HAS_MSS) != 0)
        sizes.append(_none(np.where(told, packets.mss[indices].astype(np.int64), -1), -1))
    return scales, sizes


def _none(column: NDArray[np.int64], stands_for_none: int) -> list[Any]:
    """The column as a list, with None for one value."""
    values: list[Any] = column.tolist()
    for at in np.flatnonzero(column == stands_for_none).tolist():
        values[at] = None
    return values
