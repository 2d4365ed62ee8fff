"""The capture holds packets twice.

What it detects:
    Packets that the capture recorded a second time: equal in all that a host writes into
    them (IP identification, sequence numbers, flags, timestamps, length), a moment later, or
    at a constant distance in time and in IP time to live (two capture points in one file).
    They were set aside before TCP was judged. A segment that was sent again is not meant (it
    has a new IP identification), nor a single copy that the network made.

    All connections are one finding.

Why it matters:
    Tools that take such copies for retransmissions and duplicate acknowledgements report a
    lossy network where nothing was lost. Byte and packet counts of the file are too high.

What to do:
    Capture on one interface instead of all (any-interface captures see a packet on the VLAN
    and on its parent, on the bridge and on its port), and let a mirror port copy each packet
    once: on ingress only, or one VLAN. Files of two capture points belong apart.

When it is wrong:
    A host that really sends a packet twice with the same IP identification is not known.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import upper_first
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import distinct
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.packets import LABELS

META = Meta(
    tables=("packets",),
    severity="info: they were set aside",
    references=("RFC 6864 (the IPv4 identification field)",),
)


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield one finding."""
    packets = tables.packets
    rows = np.flatnonzero(packets.label == LABELS.index("capture_duplicate"))
    if not len(rows):
        return
    connections = distinct(packets.connection_no[rows])
    count = len(rows)
    total = int(
        np.isin(packets.connection_no, connections).sum()
        if len(connections) < len(tables.connections)
        else (packets.connection_no >= 0).sum()
    )
    evidence = (rows[:MAX_PACKET_NOS] + 1).tolist()
    times = packets.time_ns[rows]
    where = "one connection" if len(connections) == 1 else f"{len(connections):,} connections"
    yield Finding(
        detector="capture/duplicate-packets",
        severity="info",
        confidence=0.98,
        summary=(
            f"{upper_first(wording.count_word(count))} of {total:,} packets of {where} "
            f"{'was a copy' if count == 1 else 'were copies'} of others that the capture holds "
            f"as well; {'it was' if count == 1 else 'they were'} set aside."
        ),
        advice=(
            "Nothing is wrong with the network for this reason. Capture on one interface, or let "
            "the mirror port copy each packet once."
        ),
        action="Capture each packet once",
        connection_no=int(connections[0]) if len(connections) == 1 else None,
        connection_nos=connections.tolist(),
        from_ns=int(times.min()),
        to_ns=int(times.max()),
        count=count,
        measures={"copies": count, "packets": total, "connections": len(connections)},
        examples=[Example([number]) for number in evidence[:MAX_EXAMPLES]],
        packet_nos=evidence,
        packet_total=count,
    )
