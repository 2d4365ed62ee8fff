"""Wireshark's rules for whole arrays: for connections that nothing upsets (see `layout`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import (
    ACK,
    FIN,
    HAS_WINDOW_SCALE,
    OPTIONS_BROKEN,
    RST,
    SYN,
    Packets,
)
from capture_analyzer.pipeline.tcp.wireshark import flags as flag
from capture_analyzer.pipeline.tcp.wireshark.layout import Bools, Elements, Ints, Layout

_UNKNOWN = -1  # window scale


def label(packets: Packets, layout: Layout, wanted: Bools, count: int, mask: Ints) -> Bools:
    """Set the flags of undisturbed connections.

    Args:
        packets: all packets.
        layout: a batch of them.
        wanted: for each connection: label its packets.
        count: how many connections there are.
        mask: of each element, to be filled in.

    Returns:
        For each connection: it must be walked after all (its handshake took no time).
    """
    later, peer = layout.later, layout.peer
    use = wanted[layout.stream // 2]
    plain = use & ((layout.flags & (SYN | FIN | RST)) == 0)
    bare = layout.length == 0

    mask[plain & (layout.window == 0)] |= flag.ZERO_WINDOW
    below = np.flatnonzero(use & later & (layout.offset < layout.before))
    keep = below[plain[below] & (layout.length[below] <= 1)]
    keep = keep[layout.offset[keep] == layout.before[keep] - 1]
    mask[keep] |= flag.KEEP_ALIVE

    again = np.flatnonzero(plain & later & bare & (layout.window > 0))
    again = again[layout.ack[again] == layout.ack[again - 1]]
    again = again[layout.offset[again] == layout.before[again]]
    same = layout.window[again] == layout.window[again - 1]
    mask[again[~same]] |= flag.WINDOW_UPDATE
    again = again[same]
    answer = (peer[again] >= 0) & ((mask[peer[again]] & flag.KEEP_ALIVE) != 0)
    mask[again[answer]] |= flag.KEEP_ALIVE_ACK
    duplicates = again[~answer]
    mask[duplicates] |= flag.DUPLICATE_ACK

    full = np.flatnonzero(plain & ~bare & (peer >= 0))
    mask[full[_fills(packets, layout, full, count)]] |= flag.WINDOW_FULL

    sent = below[(layout.carried[below] > 0) & ((mask[below] & flag.KEEP_ALIVE) == 0)]
    if not len(sent):
        return np.zeros(count, np.bool_)
    return _sent_again(layout, sent, duplicates, count, mask)


def _fills(packets: Packets, layout: Layout, full: Elements, count: int) -> Bools:
    """Whether each segment ends at the edge of the peer's window, whose scale is known."""
    peer = layout.peer[full]
    edge = layout.seq[full] + layout.length[full].astype(np.uint32) - layout.ack[peer]
    # Cheap first: can it be, whatever the scale?
    window = layout.window[peer]
    possible = np.flatnonzero((edge >= window) & ((window > 0) | (edge == 0)))
    result = np.zeros(len(full), np.bool_)
    if not len(possible):
        return result
    at, edge, window = peer[possible], edge[possible], window[possible]
    scale = _scales(packets, layout, count)[layout.stream[at]]
    shift = np.where((layout.flags[at] & SYN) != 0, 0, np.maximum(scale, 0))
    result[possible] = (scale != _UNKNOWN) & (window << shift == edge)
    return result


def _scales(packets: Packets, layout: Layout, count: int) -> Ints:
    """Window scale of each stream's packets behind its SYN; -1 = not known."""
    scale = np.full(2 * count, _UNKNOWN)
    syn = np.flatnonzero((layout.flags & SYN) != 0)
    option = packets.options[layout.index[syn]]
    cut = packets.captured_bytes[layout.index[syn]] < packets.original_bytes[layout.index[syn]]
    cut &= (option & OPTIONS_BROKEN) != 0
    sent = (option & HAS_WINDOW_SCALE) != 0
    stream = layout.stream[syn]
    scale[stream[sent]] = packets.window_scale[layout.index[syn[sent]]]
    without = stream[~sent & ~cut]
    # Scaling needs both SYNs to ask for it (RFC 7323, section 2.2).
    scale[without] = 0
    scale[without ^ 1] = 0
    return scale


def _sent_again(
    layout: Layout, sent: Elements, duplicates: Elements, count: int, mask: Ints
) -> Bools:
    """Label what lies below the highest byte seen; which connections must be walked."""
    time, seq, ack, length = layout.time, layout.seq, layout.ack, layout.length
    peer = np.maximum(layout.peer[sent], 0)
    known = layout.peer[sent] >= 0
    number = seq[sent]
    stop = number + length[sent].astype(np.uint32)

    spurious = known & (length[sent] > 0) & (ack[peer] != 0)
    spurious &= (stop - ack[peer]).view(np.int32) <= 0
    mask[sent[spurious]] |= flag.RETRANSMISSION | flag.SPURIOUS_RETRANSMISSION
    probed = (length[sent] > 1) & (layout.offset[sent] == layout.before[sent] - 1)
    rest = ~spurious & ~probed
    sent, peer, known, number = sent[rest], peer[rest], known[rest], number[rest]
    if not len(sent):
        return np.zeros(count, np.bool_)

    # How often the peer had repeated its acknowledgement: since it last changed.
    changed = np.flatnonzero(~layout.later | _differs(ack))
    since = changed[np.searchsorted(changed, peer, "right") - 1]
    asked = np.searchsorted(duplicates, peer, "right") - np.searchsorted(duplicates, since)
    fast = known & (asked >= 2) & (ack[peer] == number)
    fast &= _unsigned(time[sent] - time[peer]) < flag.FAST_NS
    mask[sent[fast]] |= flag.RETRANSMISSION | flag.FAST_RETRANSMISSION
    sent = sent[~fast]

    higher = np.flatnonzero(~layout.later | (layout.reached > layout.before))
    reached = higher[np.searchsorted(higher, sent) - 1]
    round_trip, behind, strange = _handshakes(layout, sent, count)
    limit = np.where(behind, round_trip, flag.OUT_OF_ORDER_NS)
    early = _unsigned(time[sent] - time[reached]) < _unsigned(limit)
    early &= layout.offset[sent] + layout.carried[sent] != layout.before[sent]
    mask[sent] |= np.where(early, flag.OUT_OF_ORDER, flag.RETRANSMISSION)
    return strange


def _handshakes(layout: Layout, sent: Elements, count: int) -> tuple[Ints, Bools, Bools]:
    """The handshake's round trip as Wireshark takes it: from the SYN to the first ACK behind.

    Returns:
        For each of `sent`, its connection's round trip, and whether it lies behind that ACK;
        for each connection, whether the round trip isn't above 0.
    """
    flags, index = layout.flags, layout.index
    connection = layout.stream // 2
    needed = np.zeros(count, np.bool_)
    needed[connection[sent]] = True
    syns = np.flatnonzero(((flags & (SYN | ACK)) == SYN) & needed[connection])
    ends = np.flatnonzero(((flags & (SYN | ACK)) == ACK) & needed[connection])
    none = np.iinfo(np.int64).max
    syn_time = np.full(count, none)
    syn_time[connection[syns]] = layout.time[syns]
    first = np.full(count, none)
    np.minimum.at(first, connection[ends], index[ends])  # capture order is index order
    time = np.zeros(count, np.int64)
    at_first = ends[index[ends] == first[connection[ends]]]
    time[connection[at_first]] = layout.time[at_first]
    known = (syn_time != none) & (first != none)
    round_trip = np.where(known, time - syn_time, 0)
    mine = connection[sent]
    return round_trip[mine], known[mine] & (index[sent] > first[mine]), known & (round_trip <= 0)


def _differs(values: NDArray[np.uint32]) -> Bools:
    """Where each differs from the one before; the first one does."""
    result = np.ones(len(values), np.bool_)
    result[1:] = values[1:] != values[:-1]
    return result


def _unsigned(times: Ints) -> NDArray[np.uint64]:
    """Below 0 is taken for very late."""
    return times.view(np.uint64)
