"""Where each segment stands in its streams (table `tcp_segments`), when asked for."""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import concatenate
from capture_analyzer.model.packets import (
    ACK,
    HAS_WINDOW_SCALE,
    OPTIONS_BROKEN,
    RST,
    SYN,
    Packets,
)
from capture_analyzer.model.tcp_segments import TcpSegments
from capture_analyzer.pipeline.tcp.regroup import regroup
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments, arrange

_MAX_SHIFT: Final = 14  # RFC 7323, section 2.3
_UNKNOWN: Final = -1


def add_places(table: TcpSegments, numbers: NDArray[np.int64] | None, *, packets: Packets) -> None:
    """Fill the table.

    Args:
        table: an empty one.
        numbers: of these connections; None = of all.
        packets: with `connection_no` and `from_client`.
    """
    groups = regroup(packets, numbers)
    parts, left, right, blocks = [], [], [], 0
    for first, last in groups.batches():
        segments = arrange(packets, groups.flows, first, last, groups.from_client)
        part = _batch(packets, segments, groups.numbers[first:last])
        part.sack_first[part.sack_count > 0] += blocks
        blocks += len(part.sack_from)
        parts.append(part)
        left.append(part.sack_from)
        right.append(part.sack_to)
    made = concatenate(TcpSegments, parts)
    for field in dataclasses.fields(TcpSegments):
        if field.metadata:
            setattr(table, field.name, getattr(made, field.name))
    if parts:
        table.sack_from, table.sack_to = np.concatenate(left), np.concatenate(right)


def _batch(packets: Packets, segments: Segments, numbers: NDArray[np.int32]) -> TcpSegments:
    stream = segments.stream
    acks = (segments.flags & (ACK | RST)) == ACK
    sent = segments.top - stream * SPAN
    acked = segments.ack_top - stream * SPAN
    peer = np.maximum(segments.peer, 0)
    heard = segments.peer >= 0
    shift = window_shifts(packets, segments)[stream]
    shift[(segments.flags & SYN) != 0] = 0  # a SYN's own window is never scaled
    window = segments.window.astype(np.int64) << np.maximum(shift, 0)
    window[~acks | (shift == _UNKNOWN)] = _UNKNOWN
    order = np.lexsort((segments.index, stream // 2))
    index = segments.index[order]
    count = packets.sack_count[index].copy()
    count[~acks[order]] = 0
    first, block_from, block_to = _blocks(packets, index, count, segments.acked[order])
    return TcpSegments(
        connection_no=numbers[stream[order] // 2],
        from_client=(stream % 2 == 0)[order],
        packet_no=(index + 1).astype(np.int32),
        offset=segments.begin[order],
        sent=sent[order],
        acked=acked[order],
        peer_sent=np.where(heard, sent[peer], 0)[order],
        peer_acked=np.where(heard, acked[peer], 0)[order],
        window_bytes=window[order],
        sack_first=first,
        sack_count=count,
        sack_from=block_from,
        sack_to=block_to,
    )


def window_shifts(packets: Packets, segments: Segments) -> Ints:
    """By how much each stream's sender shifts the windows it offers; -1 = not known.

    Both SYNs must carry the option for it to hold (RFC 7323, section 2.2). Where only the
    sender's own was captured, the other's is taken to have it too.
    """
    shifts = np.full(len(segments.counts), _UNKNOWN, np.int64)
    syns = np.flatnonzero(segments.flags & SYN)
    stream, first = np.unique(segments.stream[syns], return_index=True)
    index = segments.index[syns[first]]
    options = packets.options[index]
    has: Bools = (options & HAS_WINDOW_SCALE) != 0
    whole: Bools = (options & OPTIONS_BROKEN) == 0
    shifts[stream[has]] = np.minimum(packets.window_scale[index[has]], _MAX_SHIFT)
    refused = stream[~has & whole]
    shifts[refused] = 0
    shifts[refused ^ 1] = 0
    return shifts


def _blocks(
    packets: Packets, index: NDArray[np.intp], count: NDArray[np.uint8], acked: Ints
) -> tuple[NDArray[np.int32], Ints, Ints]:
    """SACK blocks of some packets: first of each, left and right edges as offsets."""
    total = count.astype(np.int64)
    ends = np.cumsum(total)
    first = np.where(total > 0, ends - total, 0).astype(np.int32)
    row = np.repeat(np.arange(len(index)), total)
    at = packets.sack_first[index[row]] + np.arange(len(row)) - np.repeat(ends - total, total)
    # Offsets count from the acknowledgement, which has been unwrapped already.
    ack = packets.ack[index[row]]
    edges = [
        np.maximum(acked[row] + (raw[at] - ack).view(np.int32), 0)
        for raw in (packets.sack_left, packets.sack_right)
    ]
    return first, edges[0], edges[1]
