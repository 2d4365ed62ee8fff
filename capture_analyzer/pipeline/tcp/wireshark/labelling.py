"""Wireshark's labels for all packets, a batch of whole connections at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import (
    ACK,
    HAS_WINDOW_SCALE,
    OPTIONS_BROKEN,
    SYN,
    Packets,
)
from capture_analyzer.model.wireshark_labels import joined
from capture_analyzer.pipeline.tcp.regroup import regroup
from capture_analyzer.pipeline.tcp.wireshark.layout import Bools, Ints, arrange, upset
from capture_analyzer.pipeline.tcp.wireshark.undisturbed import label
from capture_analyzer.pipeline.tcp.wireshark.walk import NO_SCALE, SCALE_CUT, Row, Walk

_CHUNK: Final = 16_384  # packets walked at a time: bounds the memory that their numbers take


def add_labels(packets: Packets, epoch_ns: int = 0) -> None:
    """Fill in ``wireshark_label`` and ``wireshark_labels``.

    Args:
        packets: with `connection_no` and `from_client`.
        epoch_ns: absolute time of the first packet.
    """
    masks = find_flags(packets, epoch_ns)
    distinct, codes = np.unique(masks, return_inverse=True)
    if not len(distinct) or distinct[0]:
        distinct = np.concatenate(([0], distinct))
        codes = codes + 1
    packets.wireshark_labels = [joined(int(mask)) for mask in distinct]
    packets.wireshark_label = codes.astype(np.uint16)


def find_flags(packets: Packets, epoch_ns: int = 0, *, walk_all: bool = False) -> Ints:
    """The mask of flags of every packet.

    Args:
        packets: with `connection_no` and `from_client`.
        epoch_ns: absolute time of the first packet.
        walk_all: go packet by packet through every connection; the result is the same.
    """
    masks = np.zeros(len(packets), np.int64)
    groups = regroup(packets)
    order, bounds = groups.flows.order, groups.flows.bounds
    reused = _reused(packets, order[bounds[:-1]])
    for first, last in groups.batches():
        count = last - first
        number = np.repeat(np.arange(count), np.diff(bounds[first : last + 1]))
        layout = arrange(packets, order[bounds[first] : bounds[last]], number, count)
        walked = upset(packets, layout, count) | reused[first:last] | walk_all
        flags = np.zeros(len(layout), np.int64)
        walked |= label(packets, layout, ~walked, count, flags)
        masks[layout.index] = flags
        for connection in np.flatnonzero(walked).tolist():
            index = order[bounds[first + connection] : bounds[first + connection + 1]]
            walk = Walk(epoch_ns, reused=bool(reused[first + connection]))
            for at in range(0, len(index), _CHUNK):
                some = index[at : at + _CHUNK]
                masks[some] = list(walk.flags(_rows(packets, some)))
    return masks


def _reused(packets: Packets, firsts: NDArray[np.int32]) -> Bools:
    """For each connection, by its first packet: it opens on ports that had one before."""
    ends = []
    for side, port in (("source", "source_port"), ("destination", "destination_port")):
        end = getattr(packets, side)[firsts].astype(np.int64) << 16
        ends.append(end | getattr(packets, port)[firsts])
    low, high = np.minimum(*ends), np.maximum(*ends)
    order = np.lexsort((high, low))
    again = np.zeros(len(firsts), np.bool_)
    same = (low[order[1:]] == low[order[:-1]]) & (high[order[1:]] == high[order[:-1]])
    again[order[1:]] = same  # lexsort is stable: of equal ones the earliest comes first
    again &= (packets.flags[firsts] & (SYN | ACK)) == SYN
    return again


def _rows(packets: Packets, index: NDArray[np.int32]) -> Iterator[Row]:
    """Packets as `Walk` takes them."""
    options = packets.options[index]
    scale = np.where(
        options & HAS_WINDOW_SCALE, packets.window_scale[index].astype(np.int64), NO_SCALE
    )
    cut = packets.captured_bytes[index] < packets.original_bytes[index]
    cut &= ((options & OPTIONS_BROKEN) != 0) & (scale < 0)
    scale[cut] = SCALE_CUT
    columns = (
        (packets.from_client[index] == 0).astype(np.int64),
        packets.time_ns[index],
        packets.seq[index],
        packets.ack[index],
        packets.payload_bytes[index],
        packets.window[index],
        packets.flags[index],
        scale,
    )
    return zip(*(column.tolist() for column in columns), strict=True)
