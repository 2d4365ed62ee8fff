"""The capture lacks packets that were on the wire.

What it detects:
    Bytes of a stream that the receiver acknowledged but that the capture never saw; and
    packets that the capturing program says it dropped (interface statistics in pcapng). Bytes
    that were lost in the network are not meant: of these the receiver had no more than the
    capture. The time behind such a gap is booked on ledger cause capture_gap.

    All connections are one finding.

Why it matters:
    What a gap hides can't be read: requests, answers, events, retransmissions. Counts from
    this capture are too low, and times around a gap are uncertain.

What to do:
    Capture again with a larger buffer (tcpdump -B 65536) to a fast disk, with a filter that
    keeps only what is needed and a short snap length if contents aren't (-s 128), or on a
    machine that is less busy. A mirror port drops packets when both directions together
    exceed its rate.

When it is wrong:
    Where several paths lead to a host, packets may have taken one that was not captured. The
    effect is the same.

    A receiver that acknowledges what it did not receive (a forged acknowledgement) looks like
    this, too.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.severity import booked
from capture_analyzer.detectors.sides import one_sided
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME, distinct
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.holes import HOLE_KINDS

META = Meta(
    tables=("packets",),
    causes=("capture_gap",),
    severity="warning: bytes of a connection are missing; info: only a program's drop counter",
    references=(
        "pcapng, Interface Statistics Block (isb_ifdrop, isb_osdrop)",
        "RFC 9293, section 3.4 (acknowledgements)",
    ),
)


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield one finding."""
    holes = tables.holes
    half = np.array([connection.connection_no for connection in one_sided(tables)], np.int32)
    rows = np.flatnonzero(holes.kind == HOLE_KINDS.index("capture"))
    rows = rows[~np.isin(holes.connection_no[rows], half)]
    dropped = sum(interface.dropped_count or 0 for interface in tables.interfaces)
    if not len(rows) and not dropped:
        return
    connections = distinct(holes.connection_no[rows])
    missing = int(holes.length[rows].sum())
    lost = booked(tables, "capture_gap")
    order = rows[np.lexsort((holes.opened_ns[rows], -holes.length[rows]))]
    gaps = list(
        zip(
            holes.opened_packet_no[order].tolist(),
            holes.filled_packet_no[order].tolist(),
            strict=True,
        )
    )
    evidence = [number for gap in gaps[:MAX_PACKET_NOS] for number in gap]
    hurt = np.flatnonzero(tables.exchanges.columns.missing_bytes).tolist()
    opened = holes.opened_ns[rows]
    filled = holes.filled_ns[rows]
    yield Finding(
        detector="capture/packets-missing",
        severity="warning" if len(rows) else "info",
        confidence=round(float(holes.confidence[rows].mean()), 2) if len(rows) else 1.0,
        summary=_summary(len(rows), missing, len(connections), dropped),
        advice=(
            "Capture again with a larger buffer (tcpdump -B 65536), a narrower filter or a shorter "
            "snap length. What lies in the gaps can't be judged."
        ),
        action="Capture again without losing packets",
        connection_no=int(connections[0]) if len(connections) == 1 else None,
        connection_nos=connections.tolist(),
        exchange_nos=sorted({*hurt, *lost.exchange_nos.tolist()}),
        from_ns=int(opened.min()) if len(rows) else None,
        to_ns=int(np.maximum(filled, opened).max()) if len(rows) else None,
        count=max(len(rows), 1),
        cost_ns=int(lost.cost_ns.sum()) if len(lost) else None,
        measures={
            "gaps": len(rows),
            "missing_bytes": missing,
            "connections": len(connections),
            "dropped_packets": dropped,
            "capture_gap_known": bool((filled != NO_TIME).all()) if len(rows) else None,
        },
        examples=[Example(list(gap)) for gap in gaps[:MAX_EXAMPLES]],
        packet_nos=evidence,
        packet_total=len({number for gap in gaps for number in gap if number > 0}),
        ledger_rows=lost.rows.tolist(),
    )


def _summary(gaps: int, missing: int, connections: int, dropped: int) -> str:
    counter = f"the capturing program dropped {wording.count(dropped, 'packet')}"
    if not gaps:
        return f"{counter[0].upper()}{counter[1:]}; no connection shows a gap."
    where = "one connection" if connections == 1 else f"{connections:,} connections"
    gap = "gap" if gaps == 1 else "gaps"
    text = (
        f"The capture lacks {wording.size(missing)} that {where} carried, in "
        f"{wording.count_word(gaps)} {gap}: the receiver acknowledged them"
    )
    return f"{text}; {counter}." if dropped else f"{text}."
