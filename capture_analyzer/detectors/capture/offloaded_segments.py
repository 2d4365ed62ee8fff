"""Packets larger than the network carries were captured.

What it detects:
    TCP segments with more payload than the maximum segment size that their receiver
    announced: the network interface cuts them apart behind the capture (segmentation offload,
    TSO or GSO), or joined them before it (receive offload, GRO or LRO). A large maximum
    segment size that both sides agreed on (jumbo frames) is not meant.

    All connections are one finding.

Why it matters:
    What is seen as one packet were several: counts of packets, the loss of one of them, and
    times within them are blurred. Where one part was lost, the repeat covers only a part of
    what was captured.

What to do:
    Mostly nothing. For exact packets, switch offloading off while capturing (ethtool -K eth0
    tso off gso off gro off lro off), or capture on another machine or a mirror port.

When it is wrong:
    Where no SYN was captured, only segments larger than a jumbo frame are taken for offloaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import upper_first
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import distinct
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding

META = Meta(
    tables=("connections",),
    severity="info",
    references=("RFC 9293, section 3.7.1 (maximum segment size option)",),
)

JUMBO_BYTES: Final = 9_000  # no common link carries more in one frame
LEAST_BYTES: Final = 536  # the least that any host takes for the maximum (RFC 9293, 3.7.1)


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield one finding."""
    packets = tables.packets
    limits = np.full(2 * len(tables.connections), JUMBO_BYTES, np.int64)
    # What the client sends is limited by what the server announced, and the other way.
    for number, connection in enumerate(tables.connections):
        if connection.mss_server:
            limits[2 * number + 1] = connection.mss_server
        if connection.mss_client:
            limits[2 * number] = connection.mss_client
    rows = np.flatnonzero((packets.payload_bytes > LEAST_BYTES) & (packets.from_client >= 0))
    key = packets.connection_no[rows] * 2 + packets.from_client[rows]
    rows = rows[packets.payload_bytes[rows] > np.maximum(limits[key], LEAST_BYTES)]
    if not len(rows):
        return
    connections = distinct(packets.connection_no[rows])
    count = len(rows)
    largest = int(packets.payload_bytes[rows].max())
    evidence = (rows[:MAX_PACKET_NOS] + 1).tolist()
    times = packets.time_ns[rows]
    where = "one connection" if len(connections) == 1 else f"{len(connections):,} connections"
    yield Finding(
        detector="capture/offloaded-segments",
        severity="info",
        confidence=0.98,
        summary=(
            f"{upper_first(wording.count_word(count))} captured "
            f"segment{'' if count == 1 else 's'} of {where} {'was' if count == 1 else 'were'} "
            f"larger than the network carries, up to {wording.size(largest)}: the network "
            "interface cuts or joins them."
        ),
        advice=(
            "Counts of packets are too low and times within such segments are blurred. For exact "
            "packets switch offloading off while capturing (ethtool -K eth0 tso off gso off gro "
            "off)."
        ),
        action="",
        connection_no=int(connections[0]) if len(connections) == 1 else None,
        connection_nos=connections.tolist(),
        from_ns=int(times.min()),
        to_ns=int(times.max()),
        count=count,
        measures={
            "segments": count,
            "largest_bytes": largest,
            "connections": len(connections),
        },
        examples=[Example([number]) for number in evidence[:MAX_EXAMPLES]],
        packet_nos=evidence,
        packet_total=count,
    )
