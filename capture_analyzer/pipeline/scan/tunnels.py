"""Keeps which packet was inside of which tunnel, and numbers the tunnels."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import Packets
from capture_analyzer.model.tunnels import Tunnel
from capture_analyzer.protocols.tunnels import KINDS, NO_IDENTIFIER, Inside

MAX_TUNNELS: Final = 50_000
"""Tunnels told apart; what comes in more of them is put to the last one. A mobile network's
core has a tunnel a subscriber; more in one capture come from somebody who makes them up."""

_Columns = tuple[NDArray[Any], ...]


class Tunnels:
    """Records each packet's way into a tunnel while the packets are scanned."""

    def __init__(self, packets: Packets) -> None:
        self._packets = packets
        self._of_packet = np.empty(0, np.int32)  # the innermost record of each; 0 = none
        self._records: list[_Columns] = []
        self._count = 0

    def enter(self, packets: NDArray[np.intp], inside: Inside) -> NDArray[np.int32]:
        """Record that these packets are tunnels; returns a number for each.

        The addresses in the packets table are still those of the outer packets.
        """
        if not len(self._of_packet):
            self._of_packet = np.zeros(len(self._packets), np.int32)
        self._records.append(
            (
                packets,
                inside.kind,
                inside.identifier,
                self._packets.source[packets],
                self._packets.destination[packets],
                self._of_packet[packets],
            )
        )
        first = self._count + 1
        self._count += len(packets)
        return np.arange(first, self._count + 1, dtype=np.int32)

    def mark(self, packets: NDArray[np.intp], records: NDArray[np.int32]) -> None:
        """Note that the packet inside was found: the table now describes that one."""
        self._of_packet[packets] = records

    def ends(self) -> _Columns:
        """Packets, source and destination of the records: provisional address numbers."""
        if not self._records:
            empty = np.empty(0, np.int32)
            return np.empty(0, np.intp), empty, empty
        joined = tuple(np.concatenate(parts) for parts in zip(*self._records, strict=True))
        self._records = [joined]
        return joined[0], joined[3], joined[4]

    def finish(self) -> None:
        """Write `tunnel_no` and `tunnels` of the packets table; addresses are final by now."""
        if not self._records:
            return
        packets, kind, identifier, source, destination, outer = self._records[0]
        group = np.zeros(self._count + 1, np.int64)  # by record; 0 = none
        count = 0
        level = np.flatnonzero(outer == 0)
        rows: list[_Columns] = []
        while len(level):
            keys = (
                kind[level],
                identifier[level],
                source[level],
                destination[level],
                group[outer[level]],
            )
            order = np.lexsort((packets[level], *keys))
            new = np.zeros(len(order), np.bool_)
            new[0] = True
            for key in keys:
                new[1:] |= key[order][1:] != key[order][:-1]
            group[level[order] + 1] = count + np.cumsum(new)
            firsts = level[order[new]]
            count += len(firsts)
            rows.append((firsts, group[outer[firsts]]))
            inner = np.zeros(self._count + 1, np.bool_)
            inner[level + 1] = True
            level = np.flatnonzero(inner[outer] & (outer > 0))
        self._write(group, np.concatenate([row[0] for row in rows]))

    def _write(self, group: NDArray[np.int64], firsts: NDArray[np.intp]) -> None:
        """Number the groups in order of their first packets; outer tunnels before inner."""
        packets, kind, identifier, source, destination, outer = self._records[0]
        of_packet = group[self._of_packet]
        counts = np.bincount(of_packet, minlength=len(firsts) + 1)
        # A tunnel that holds nothing but other tunnels stays: they refer to it.
        used = counts > 0
        used[0] = False
        parents = np.concatenate(([0], group[outer[firsts]]))
        for number in range(len(firsts), 0, -1):  # parents have lower numbers
            if used[number]:
                used[parents[number]] = True
        used[0] = False
        chosen = np.flatnonzero(used)
        first = firsts[chosen - 1]
        order = np.argsort(packets[first], kind="stable")
        final = np.zeros(len(firsts) + 1, np.int64)
        final[chosen[order]] = np.arange(1, len(chosen) + 1)
        final = np.minimum(final, MAX_TUNNELS)
        self._packets.tunnel_no = final[of_packet].astype(np.uint16)
        addresses = self._packets.addresses
        for place in order[:MAX_TUNNELS].tolist():
            record, number = int(first[place]), int(chosen[place])
            name = int(identifier[record])
            self._packets.tunnels.append(
                Tunnel(
                    tunnel_no=len(self._packets.tunnels) + 1,
                    kind=KINDS[int(kind[record])],
                    identifier=None if name == NO_IDENTIFIER else name,
                    source_ip=addresses[int(source[record])],
                    destination_ip=addresses[int(destination[record])],
                    outer_no=int(final[parents[number]]),
                    first_packet_no=int(packets[record]) + 1,
                    packet_count=int(counts[number]),
                )
            )
