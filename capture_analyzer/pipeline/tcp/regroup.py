"""Packets by connection once more, for what is worked out only when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.flows import Flows
from capture_analyzer.pipeline.lists import stable_order

BATCH_PACKETS: Final = 65_536  # a batch's arrays stay in the processor's cache


@quick_dataclass
class Groups:
    """TCP packets by connection; those that have packets are numbered anew, from 0.

    Attributes:
        flows: packet indices by connection, in capture order, and where each one's lie.
        numbers: `connection_no` of each.
        from_client: for each element of ``flows.order``.
    """

    flows: Flows
    numbers: NDArray[np.int32]
    from_client: NDArray[np.bool_]

    def batches(self) -> Iterator[tuple[int, int]]:
        """Ranges of whole connections with about BATCH_PACKETS packets, at least one."""
        first, count = 0, len(self.flows)
        while first < count:
            limit = int(self.flows.bounds[first]) + BATCH_PACKETS
            last = max(int(np.searchsorted(self.flows.bounds, limit, "right")) - 1, first + 1)
            yield first, last
            first = last


def regroup(packets: Packets, numbers: NDArray[np.int64] | None = None) -> Groups:
    """Group packets by their `connection_no`; those of some connections only, or of all."""
    tcp = np.flatnonzero((packets.connection_no >= 0) & (packets.tcp_header_bytes > 0))
    if numbers is not None:
        wanted = np.zeros(int(packets.connection_no.max(initial=-1)) + 1, np.bool_)
        wanted[numbers[numbers < len(wanted)]] = True
        tcp = tcp[wanted[packets.connection_no[tcp]]]
    order = tcp[stable_order(packets.connection_no[tcp])].astype(np.int32)
    number = packets.connection_no[order]
    heads = np.flatnonzero(np.diff(number, prepend=-1))
    bounds = np.append(heads, len(order)).astype(np.int64)
    from_client = packets.from_client[order] != 0
    return Groups(Flows(order, bounds, from_client), number[heads], from_client)
