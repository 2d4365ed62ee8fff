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
from capture_analyzer.pipeline.tcp.wireshark.layout import Bools, Elements, Ints, arrange, upset
from capture_analyzer.pipeline.tcp.wireshark.undisturbed import label
from capture_analyzer.pipeline.tcp.wireshark.walk import NO_SCALE, SCALE_CUT, Row, Walk

_BATCH: Final = 65_536  # packets: a batch's arrays stay in the processor's cache
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
    tcp = np.flatnonzero(packets.connection_no >= 0)
    if not len(tcp):
        return masks
    order = tcp[_stable(packets.connection_no[tcp])]
    number = packets.connection_no[order].astype(np.int64)
    heads = np.concatenate(([0], np.flatnonzero(number[1:] != number[:-1]) + 1))
    bounds = np.append(heads, len(order))
    reused = _reused(packets, order[heads])
    rank = np.zeros(len(order), np.int64)
    rank[heads[1:]] = 1
    np.cumsum(rank, out=rank)
    for first, last in _batches(bounds):
        part = slice(int(bounds[first]), int(bounds[last]))
        count = last - first
        layout = arrange(packets, order[part], rank[part] - first, count)
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


def _stable(numbers: NDArray[np.int32]) -> NDArray[np.intp]:
    """Stable order; by radix sorts of 16-bit halves, several times faster than any other."""
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    if int(numbers.max()) > 0xFFFF:
        high = (numbers[order] >> 16).astype(np.uint16)
        order = order[np.argsort(high, kind="stable")]
    return order


def _batches(bounds: Ints) -> Iterator[tuple[int, int]]:
    """Ranges of connections with about _BATCH packets, at least one connection."""
    first, count = 0, len(bounds) - 1
    while first < count:
        limit = int(bounds[first]) + _BATCH
        last = max(int(np.searchsorted(bounds, limit, "right")) - 1, first + 1)
        yield first, last
        first = last


def _reused(packets: Packets, firsts: Elements) -> Bools:
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


def _rows(packets: Packets, index: Elements) -> Iterator[Row]:
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
