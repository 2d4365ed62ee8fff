"""Segments were sent again although the receiver had them.

What it detects:
    Repeated segments whose data the receiver already had: it had acknowledged them before, or
    reported them as received twice (D-SACK), or its first acknowledgement came too early, or
    with too old a timestamp, to answer the repeat. The original was only late, or the
    acknowledgements were lost.

    One connection is one finding; where more than 20 connections of a server had needless
    repeats, they are one finding together. It owns no time of the ledger: a needless repeat
    does not make the receiver wait. What made the sender believe in a loss often did.

Why it matters:
    The sender slows down as if the path were congested: after a needless timeout to a single
    segment for each round trip. And whoever counts retransmissions takes the path for lossy,
    which it is not.

What to do:
    A needless fast repeat comes from reordering on the way: parallel links or queues that
    packets of one connection are spread over. A needless timeout comes from a delay that was
    suddenly longer than the round trips before (a wireless link, a virtual machine that did
    not run, a huge queue), or from lost acknowledgements: look at the way back.

When it is wrong:
    Without SACK a receiver does not report what it received twice; there it rests on times.

    At the sender, an acknowledgement that was under way when the segment was sent again is
    taken for the answer to the original, which is right unless the network reorders.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.losses import by_server
from capture_analyzer.detectors.phrases import listed, upper_first
from capture_analyzer.detectors.servers import label
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import distinct
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS

META = Meta(
    tables=("connections",),
    severity="warning: a needless timeout, after which the sender starts over; info: else",
    references=(
        "RFC 2883 (D-SACK)",
        "RFC 3522 (the Eifel detection algorithm)",
        "RFC 5682 (F-RTO)",
    ),
)

_NAMES: Final = {
    "fast": "on the receiver's reports",
    "tlp": "by a tail loss probe",
    "rto": "by the retransmission timer",
    "after_rto": "behind a timeout",
    "unknown": "for a reason that is not known",
}


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each connection."""
    packets = tables.packets
    rows = np.flatnonzero(packets.spurious == SPURIOUS.index("true"))
    rows = rows[packets.label[rows] == LABELS.index("retransmission")]
    if not len(rows):
        return
    owner = packets.connection_no[rows]
    for group in by_server(tables, distinct(owner).tolist()):
        yield _finding(tables, group, rows[np.isin(owner, group)])


def _finding(tables: Tables, group: list[int], repeats: NDArray[np.intp]) -> Finding:
    packets, connection = tables.packets, tables.connections[group[0]]
    codes, counts = np.unique(packets.mechanism[repeats], return_counts=True)
    ways = {
        MECHANISMS[code]: count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)
    }
    timeouts = ways.get("rto", 0)
    count = len(repeats)
    segments = "A segment" if count == 1 else f"{upper_first(wording.count_word(count))} segments"
    to_server = (packets.from_client[repeats] == 1).tolist()
    way = "to" if all(to_server) else "from and to" if any(to_server) else "from"
    how = listed([_NAMES[name] for name in ways if name in _NAMES])
    times, numbers = packets.time_ns[repeats], (repeats + 1).tolist()
    return Finding(
        detector="tcp/spurious-retransmission",
        severity="warning" if timeouts else "info",
        confidence=0.95,
        summary=(
            f"{segments} {way} {label(connection)} {'was' if count == 1 else 'were'} repeated "
            f"needlessly {how}".rstrip()
            + "; the receiver had the data."
        ),
        advice=(
            "Look for what delayed data or acknowledgements suddenly: a queue, a wireless link, a "
            "virtual machine that did not run; or for loss on the way back."
            if timeouts
            else "Look for parallel links or queues over which the packets of one connection are "
            "spread."
            if "fast" in ways
            else "Look for what delayed acknowledgements, or for loss on their way back."
        ),
        action=(
            "Find what delayed data or acknowledgements"
            if timeouts or "fast" not in ways
            else "Find where packets are reordered"
        ),
        connection_no=group[0] if len(group) == 1 else None,
        connection_nos=group,
        from_ns=int(times.min()),
        to_ns=int(times.max()),
        count=count,
        measures={
            "connections": len(group),
            "repeats": count,
            "timeouts": timeouts,
            "bytes": int(packets.payload_bytes[repeats].sum()),
        },
        examples=[Example([no]) for no in numbers[:MAX_EXAMPLES]],
        packet_nos=numbers[:MAX_PACKET_NOS],
        packet_total=count,
    )
