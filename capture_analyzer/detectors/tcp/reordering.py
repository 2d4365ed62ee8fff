"""Segments were overtaken on the way, and the receiver waited for them.

What it detects:
    Segments that arrived behind later ones of the same connection without having been sent
    again. The time from the first segment that was there too early to the one that was late
    is booked on ledger cause reordering.

    One connection is one finding; where more than 20 connections of a server had overtaken
    segments, they are one finding together.

Why it matters:
    The receiver can't use what comes behind a segment that is late. If it is late by more
    than three segments or a quarter of a round trip, the sender takes it for lost, repeats it
    and slows down (tcp/spurious-retransmission).

What to do:
    Packets of one connection took different ways: links bundled by packet instead of by
    flow, several receive queues, a wireless link that repeats frames, or a router that hands
    some packets to its slow path. Spread by connection instead.

When it is wrong:
    A segment that fills a hole may have been lost and sent again. Timestamps and the sender's
    packet count tell them apart; without both, only the time that passed does, and confidence
    is less.

    A capture that takes packets from several queues can write them out of order though they
    were not; then the delays are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.losses import by_server
from capture_analyzer.detectors.phrases import upper_first
from capture_analyzer.detectors.servers import label
from capture_analyzer.detectors.shares import Episodes, Share, deal_out, joined
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME, distinct
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.holes import HOLE_KINDS
from capture_analyzer.model.quick_dataclass import quick_dataclass

META = Meta(
    tables=("connections",),
    causes=("reordering",),
    references=(
        "RFC 4737 (packet reordering metrics)",
        "RFC 8985, section 6.2 (how much reordering RACK bears)",
    ),
)

LEAST_NS: Final = 100_000
"""Less is the order in which a capture took packets from its queues, not the network's."""


@quick_dataclass
class _Late:
    """Overtaken segments of one connection, or of several of one server; worst first."""

    connections: list[Connection]
    waits: list[tuple[int, int, int, int]]  # how long, opener, filler, when it began
    confidence: float
    share: Share


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each connection."""
    holes = tables.holes
    rows = np.flatnonzero(
        (holes.kind == HOLE_KINDS.index("reordering")) & (holes.filled_ns != NO_TIME)
    )
    rows = rows[holes.filled_ns[rows] - holes.opened_ns[rows] >= LEAST_NS]
    if not len(rows):
        return
    owner = holes.connection_no[rows]
    episodes = Episodes(
        owner, holes.opened_ns[rows], holes.filled_ns[rows], np.zeros(len(rows), np.int64)
    )
    shares = deal_out(tables, "reordering", episodes, 0)
    for group in by_server(tables, distinct(owner).tolist()):
        part = rows[np.isin(owner, group)]
        waited = holes.filled_ns[part] - holes.opened_ns[part]
        mine = part[np.argsort(-waited, kind="stable")]
        columns = (
            holes.filled_ns[mine] - holes.opened_ns[mine],
            holes.opened_packet_no[mine],
            holes.filled_packet_no[mine],
            holes.opened_ns[mine],
        )
        yield _finding(
            _Late(
                [tables.connections[number] for number in group],
                list(zip(*(column.tolist() for column in columns), strict=True)),
                float(holes.confidence[mine].mean()),
                joined([shares[number] for number in group if number in shares]),
            )
        )


def _finding(late: _Late) -> Finding:
    connection, share = late.connections[0], late.share
    count = len(late.waits)
    worst = late.waits[0][0]
    evidence = [number for _, opener, filler, _ in late.waits for number in (opener, filler)]
    if count == 1:
        what = "A segment"
        how = f"was overtaken by later ones and came {wording.duration(worst)} behind them"
    else:
        what = f"{upper_first(wording.count_word(count))} segments"
        how = f"were overtaken by later ones and came up to {wording.duration(worst)} behind them"
    return Finding(
        detector="tcp/reordering",
        severity=share.severity(),
        confidence=round(late.confidence, 2),
        summary=f"{what} on connections with {label(connection)} {how}."
        if len(late.connections) > 1
        else f"{what} on a connection with {label(connection)} {how}.",
        advice=(
            "Packets of one connection took different ways. Spread them over links and queues by "
            "connection, not by packet."
        ),
        action="Find where the packets of one connection take different ways",
        connection_no=connection.connection_no if len(late.connections) == 1 else None,
        connection_nos=[entry.connection_no for entry in late.connections],
        exchange_nos=share.exchange_nos,
        from_ns=min(begin for _, _, _, begin in late.waits),
        to_ns=max(begin + wait for wait, _, _, begin in late.waits),
        count=count,
        cost_ns=share.cost_ns if share.rows else None,
        measures={"connections": len(late.connections), "segments": count, "wait_max_ns": worst},
        examples=[
            Example([opener, filler], wait) for wait, opener, filler, _ in late.waits[:MAX_EXAMPLES]
        ],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(set(evidence)),
        ledger_rows=share.rows,
    )
