"""Segments → Streams: the bytes of both directions of every connection, in order.

Where segments overlap, the copy that came first gives the bytes. What the capture lacks is
an explicit gap: bytes that no segment brought, and those that the snap length cut off.

In-order time: a byte is in order when it and all before it had arrived. In a sender's
capture the copy of a lost segment that counts is the last that was needed. Bytes that the
receiver acknowledged but the capture never saw can't hold anything back.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.capture import Capture
from capture_analyzer.model.column import NO_TIME, distinct, is_constant
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.packets import Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.flows import Flows


@quick_dataclass
class Streams:
    """The chunks of all streams, end to end: by connection, client before server, offset.

    Stream s is 2 · connection_no + (0 from the client, 1 from the server); its chunks are
    ``bounds[s]:bounds[s + 1]`` of every chunk column. The columns are those of ByteStream.
    """

    bounds: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    packet_nos: NDArray[np.int32]
    seen_ns: NDArray[np.int64]
    in_order_ns: NDArray[np.int64]
    buffer_nos: NDArray[np.uint16]
    buffer_offsets: NDArray[np.int64]
    buffers: Sequence[memoryview | bytes]
    end: NDArray[np.int64]  # per stream
    mid_stream: NDArray[np.bool_]  # per stream
    fin_ns: NDArray[np.int64]  # per stream; NO_TIME without
    reset_ns: NDArray[np.int64]  # per connection; NO_TIME without
    origins: NDArray[np.int64] | None = None  # per stream: where it begins, if not at 0

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled without the buffers: each process has mapped them itself."""
        columns = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "buffers"
        }
        return functools.partial(Streams, buffers=(), **columns), ()

    def __len__(self) -> int:
        """Number of streams: two a connection."""
        return len(self.bounds) - 1

    def stream(self, connection_no: int, from_client: bool) -> ByteStream:
        """One direction of a connection, as a view."""
        number = 2 * connection_no + (not from_client)
        chunks = slice(*self.bounds[number : number + 2].tolist())
        in_order = self.in_order_ns[chunks]
        fin, reset = int(self.fin_ns[number]), int(self.reset_ns[connection_no])
        return ByteStream(
            connection_no,
            from_client,
            self.starts[chunks],
            self.lengths[chunks],
            self.packet_nos[chunks],
            self.seen_ns[chunks],
            in_order,
            in_order,
            self.buffer_nos[chunks],
            self.buffer_offsets[chunks],
            self.buffers,
            int(self.end[number]),
            bool(self.mid_stream[number]),
            None if fin == NO_TIME else fin,
            None if reset == NO_TIME else reset,
        )


def reassemble(
    capture: Capture, packets: Packets, flows: Flows, connections: list[Connection]
) -> Streams:
    """Put the bytes of every stream in order.

    Args:
        capture: holds the bytes.
        packets: the packets.
        flows: their grouping, after ``tcp.analyse`` (which finds what each packet brought).
        connections: the connections, for their number.

    Raises:
        ValueError: `flows` has not been analysed.
    """
    pieces = flows.pieces
    if pieces is None or len(pieces.bounds) != 2 * len(connections) + 1:
        raise ValueError("reassemble needs flows that tcp.analyse has gone through")
    packet, skip = pieces.packet, pieces.skip
    captured = packets.payload_captured[packet].astype(np.int64) - skip
    lengths = np.minimum(pieces.length, captured)
    in_order = _in_order(pieces.arrival_ns, pieces.bounds)
    starts, bounds = pieces.begin, pieces.bounds
    lost = lengths <= 0  # cut off whole by the snap length
    if lost.any():
        kept = np.flatnonzero(~lost)
        bounds = np.searchsorted(kept, bounds)
        packet, skip, starts = packet[kept], skip[kept], starts[kept]
        lengths, in_order = lengths[kept], in_order[kept]
    buffer_no = packets.buffer_no
    one = is_constant(buffer_no)
    return Streams(
        bounds=bounds,
        starts=starts,
        lengths=lengths,
        packet_nos=packet + np.int32(1),
        seen_ns=packets.time_ns[packet],
        in_order_ns=in_order,
        buffer_nos=buffer_no[: len(packet)] if one else buffer_no[packet],
        buffer_offsets=packets.payload_offset[packet] + skip,
        buffers=capture.buffers,
        end=pieces.end,
        mid_stream=pieces.mid_stream,
        fin_ns=pieces.fin_ns,
        reset_ns=pieces.reset_ns,
    )


def _in_order(arrival: NDArray[np.int64], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The running maximum of `arrival` within each stream."""
    back = np.flatnonzero(arrival[1:] < arrival[:-1]) + 1
    stream = np.searchsorted(bounds, back, "right") - 1
    inside = back != bounds[stream]
    if not inside.any():
        return arrival
    result = arrival.copy()
    for number in distinct(stream[inside]).tolist():
        chunk = result[bounds[number] : bounds[number + 1]]
        np.maximum.accumulate(chunk, out=chunk)
    return result
