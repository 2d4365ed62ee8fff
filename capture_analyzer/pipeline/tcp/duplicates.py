"""The same packet captured twice.

A copy has every header field of the first one, the IP identification too; a retransmission
has a new one (RFC 6864), or a new timestamp, or comes later. Where many packets of a connection are
doubled it is the capture that did it (all interfaces at once, a mirror port, a VLAN and
its parent); a single copy was made by the network.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import SYN, Packets

COPY_NS: Final = 1_000_000
"""Equal segments without an identification that tells are copies if within this."""

IDENTIFIED_COPY_NS: Final = 100_000_000
"""Likewise with one: before it comes round again (65,536 packets later)."""

_REACH: Final = 8  # packets of the same direction that may lie between two copies, plus 1

_MANY: Final = 0.2  # of a connection's packets doubled: it was the capture


def find_copies(
    packets: Packets,
    index: NDArray[np.intp],
    stream: NDArray[np.int64],
    time: NDArray[np.int64],
    seq: NDArray[np.uint32],
    ack: NDArray[np.uint32],
) -> NDArray[np.intp]:
    """Elements that repeat one just before them in the same direction, ascending.

    Args:
        packets: the packets.
        index: packet index of each element.
        stream: stream of each element, ascending; capture order within a stream.
        time: capture time of each element.
        seq: raw sequence number of each element.
        ack: raw acknowledgement number of each element.
    """
    numbers = seq.astype(np.uint64) << np.uint64(32) | ack
    copies = np.zeros(len(index), np.bool_)
    for lag in range(1, min(_REACH, len(index) - 1) + 1):
        later = np.flatnonzero(numbers[lag:] == numbers[:-lag]) + lag
        # Most of these are duplicate ACKs, which differ in their identification.
        later = later[packets.ip_id[index[later]] == packets.ip_id[index[later - lag]]]
        later = later[stream[later] == stream[later - lag]]
        later = later[time[later] - time[later - lag] <= IDENTIFIED_COPY_NS]
        if len(later):
            apart = time[later] - time[later - lag]
            equal = _equal(packets, index, stream, later, later - lag, apart)
            copies[later[equal]] = True
    return np.flatnonzero(copies)


def _equal(
    packets: Packets,
    index: NDArray[np.intp],
    stream: NDArray[np.int64],
    later: NDArray[np.intp],
    earlier: NDArray[np.intp],
    apart: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Whether what else the headers say is equal too, and enough to tell copies apart."""
    these, those = index[later], index[earlier]
    equal = np.ones(len(these), np.bool_)
    columns = ("flags", "window", "payload_bytes", "tsval", "tsecr", "sack_count")
    for name in columns:
        column = getattr(packets, name)
        equal &= column[these] == column[those]
    some = np.flatnonzero(equal & (packets.sack_count[these] > 0))
    if len(some):
        a, b = packets.sack_first[these[some]], packets.sack_first[those[some]]
        blocks = packets.sack_left[a] == packets.sack_left[b]
        blocks &= packets.sack_right[a] == packets.sack_right[b]
        equal[some] = blocks
    # An identification tells if it isn't the same in all packets (0 in IPv6, or with DF).
    # Without, two duplicate ACKs may be equal by right.
    ids = packets.ip_id[index]
    first = np.searchsorted(stream, stream[later], "left")
    last = np.searchsorted(stream, stream[later], "right") - 1
    tells = (ids[later] != 0) & ((ids[first] != ids[later]) | (ids[last] != ids[later]))
    # Data and SYNs are not sent again within a millisecond.
    takes = (packets.payload_bytes[these] > 0) | ((packets.flags[these] & SYN) != 0)
    equal &= tells | (takes & (apart <= COPY_NS))
    return equal


def made_by_capture(
    copies: NDArray[np.intp], stream: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """For each copy: the capture made it (else the network).

    Args:
        copies: elements that are copies.
        stream: stream of each element.
        counts: packets of each stream.
    """
    connection = stream[copies] // 2
    doubled = np.bincount(connection, minlength=len(counts) // 2)
    total = counts[0::2] + counts[1::2]
    many: NDArray[np.bool_] = (doubled >= 2) & (doubled >= _MANY * total)
    return many[connection]
