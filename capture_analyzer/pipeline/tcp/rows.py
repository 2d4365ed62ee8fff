"""Rows of the connections table."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
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
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.flows import Flows
from capture_analyzer.pipeline.tcp.handshake import Handshakes
from capture_analyzer.pipeline.tcp.labels import CODE
from capture_analyzer.pipeline.tcp.needless import VERDICT
from capture_analyzer.pipeline.tcp.resends import Resends
from capture_analyzer.pipeline.tcp.segments import Bools, Segments
from capture_analyzer.pipeline.tcp.vantage import SIDES

if TYPE_CHECKING:
    from capture_analyzer.pipeline.tcp.pieces import BatchPieces

_MAX_SHIFT = 14  # RFC 7323, section 2.3: a larger shift counts as 14


@quick_dataclass
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
    sides = np.where(packets.from_client[reset] == 1, "client", "server").tolist()
    repeats = [handshakes.repeats.get(no, []) for no in range(count)]
    columns: dict[str, Iterable[Any]] = {
        "connection_no": range(count),
        "transport": itertools.repeat("tcp", count),
        "tcp_stream": range(count),
        "client_ip": [addresses[at] for at in client.tolist()],
        "client_port": np.where(forward, source, destination).tolist(),
        "server_ip": [addresses[at] for at in server.tolist()],
        "server_port": np.where(forward, destination, source).tolist(),
        "roles_certain": certain.tolist(),
        "start_ns": time[first].tolist(),
        "end_ns": time[last].tolist(),
        "first_packet_no": (first + 1).tolist(),
        "last_packet_no": (last + 1).tolist(),
        "packet_count": np.diff(flows.bounds).tolist(),
        "client_bytes": sums.client_bytes.tolist(),
        "server_bytes": sums.server_bytes.tolist(),
        "vantage_side": [SIDES[code] for code in sums.vantage.tolist()],
        "vantage_confidence": np.round(sums.vantage_confidence, 2).tolist(),
        "syn_packet_no": number(handshakes.syn),
        "syn_ack_packet_no": number(handshakes.syn_ack),
        "established_packet_no": number(handshakes.established),
        "syn_ns": instant(handshakes.syn),
        "syn_last_ns": instant(handshakes.syn_last),
        "syn_ack_ns": instant(handshakes.syn_ack),
        "established_ns": instant(handshakes.established),
        "client_side_rtt_ns": _none(client_rtt, NO_TIME),
        "server_side_rtt_ns": _none(server_rtt, NO_TIME),
        "rtt_ns": _none(rtt, NO_TIME),
        "syn_retransmissions": map(len, repeats),
        "retry_packet_nos": [[index + 1 for index in again] for again in repeats],
        "refused": refused.tolist(),
        "reset_by": [
            side if at >= 0 else None for side, at in zip(sides, reset.tolist(), strict=True)
        ],
        "reset_ns": instant(reset),
        "fin_ns": instant(fin),
        "window_scale_client": scales[0],
        "window_scale_server": scales[1],
        "mss_client": sizes[0],
        "mss_server": sizes[1],
        "retransmissions": sums.retransmissions.tolist(),
        "retransmissions_spurious": sums.spurious.tolist(),
        "retransmissions_by_mechanism": [sums.mechanisms.get(no, {}) for no in range(count)],
        "missing_bytes": sums.missing_bytes.tolist(),
    }
    # The fields of a Connection in their order: a call by position takes half the time.
    names = [field.name for field in dataclasses.fields(Connection)][: len(columns)]
    rows = list(map(Connection, *(columns[name] for name in names)))
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
