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

from capture_analyzer.model.column import distinct
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
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    time: NDArray[np.int64],
    seq: NDArray[np.uint32],
    ack: NDArray[np.uint32],
    ip_id: NDArray[np.uint16],
) -> NDArray[np.intp]:
    """Elements that repeat one just before them in the same direction, ascending.

    Args:
        packets: the packets.
        index: packet index of each element.
        stream: stream of each element, ascending; capture order within a stream.
        starts: first element of each stream.
        counts: elements of each stream.
        time: capture time of each element.
        seq: raw sequence number of each element.
        ack: raw acknowledgement number of each element.
        ip_id: IP identification of each element.
    """
    # One number for all three: most duplicate ACKs differ in their identification.
    numbers = seq.astype(np.uint64) << np.uint64(32) | ack
    numbers ^= ip_id.astype(np.uint64) << np.uint64(16)
    found: list[NDArray[np.intp]] = []
    found_lag: list[int] = []
    for lag in range(1, min(_REACH, len(index) - 1) + 1):
        later = np.flatnonzero(numbers[lag:] == numbers[:-lag]) + lag
        if len(later):
            found.append(later)
            found_lag.append(lag)
    if not found:
        return np.empty(0, np.intp)
    later = np.concatenate(found)
    earlier = later - np.repeat(found_lag, [len(part) for part in found])
    same = stream[later] == stream[earlier]
    same &= time[later] - time[earlier] <= IDENTIFIED_COPY_NS
    for column in (seq, ack, ip_id):
        same &= column[later] == column[earlier]
    later, earlier = later[same], earlier[same]
    equal = _equal(packets, index[later], index[earlier])
    # An identification tells if it isn't the same in all packets (0 in IPv6, or with DF).
    # Without, two duplicate ACKs may be equal by right.
    own, owner = ip_id[later], stream[later]
    first = starts[owner]
    last = first + counts[owner] - 1
    tells = (own != 0) & ((ip_id[first] != own) | (ip_id[last] != own))
    # Data and SYNs are not sent again within a millisecond.
    these = index[later]
    takes = (packets.payload_bytes[these] > 0) | ((packets.flags[these] & SYN) != 0)
    equal &= tells | (takes & (time[later] - time[earlier] <= COPY_NS))
    copies: NDArray[np.intp] = distinct(later[equal])
    return copies


def _equal(packets: Packets, these: NDArray[np.intp], those: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether what else the headers of some packets say is equal too."""
    equal = np.ones(len(these), np.bool_)
    for name in ("flags", "window", "payload_bytes", "tsval", "tsecr", "sack_count"):
        column = getattr(packets, name)
        equal &= column[these] == column[those]
    some = np.flatnonzero(equal & (packets.sack_count[these] > 0))
    if len(some):
        a, b = packets.sack_first[these[some]], packets.sack_first[those[some]]
        blocks = packets.sack_left[a] == packets.sack_left[b]
        blocks &= packets.sack_right[a] == packets.sack_right[b]
        equal[some] = blocks
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
