"""Small segments were held by Nagle's algorithm until a delayed acknowledgement came.

What it detects:
    A sender that wrote a message in two small pieces: the first left at once, the second only
    when the acknowledgement of the first came, and that came late, because the receiver
    delays an acknowledgement in the hope of data to carry it (about 40 ms on Linux, up to
    200 ms elsewhere). The time from the first piece to the second is booked on ledger cause
    nagle_delayed_ack.

    Where the acknowledgement came at once, each piece waits for one round trip: that is a
    finding of its own wording, without cost, if it is the rule on a connection.

    One direction of one connection is one finding.

Why it matters:
    Each such message takes 40 to 200 ms longer, on a network that is fast and idle. Streams
    of small events arrive in bunches, one for each round trip.

What to do:
    In the sending program write each message in one piece (a buffer, writev), or switch
    Nagle's algorithm off (TCP_NODELAY). HTTP libraries that send head and content apart, and
    proxies that pass on small writes, are the usual places. Changing the receiver's delayed
    acknowledgements is the wrong end.

When it is wrong:
    A program that pauses for about 40 ms of its own between two writes can look like this
    once; a segment that was ever sent while another small one was in flight shows that the
    algorithm is off, and then nothing is said. A single occurrence has less confidence than
    several.

    How long the second piece really waited is not seen: it may have been written later than
    the first was sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.contract import DEFAULT_SEVERITY, Meta
from capture_analyzer.detectors.limits import Held, held, shares
from capture_analyzer.detectors.phrases import amount, time_range
from capture_analyzer.detectors.servers import label
from capture_analyzer.detectors.shares import Share
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.findings import MAX_PACKET_NOS, Finding
from capture_analyzer.model.limits import LIMIT_CODE

META = Meta(
    tables=("connections",),
    causes=("nagle_delayed_ack",),
    severity=(
        DEFAULT_SEVERITY + "; info where each piece waited for a round trip only, or it happened "
        "once, which may be chance"
    ),
    references=(
        "RFC 9293, section 3.7.4 (the Nagle algorithm)",
        "RFC 9293, section 3.8.6.3 (delayed acknowledgements)",
    ),
)

CHANCE: Final = 0.7  # below this confidence it may have been chance

LEAST_AT_ONCE: Final = 5  # fewer waits of one round trip are no rule


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each connection and direction."""
    costs = shares(tables, "nagle_delayed_ack", "nagle_delayed_ack")
    late = {
        (waits.connection.connection_no, waits.from_client): waits
        for waits in held(tables, ("nagle_delayed_ack",))
    }
    for waits in held(tables, ("nagle_delayed_ack", "nagle")):
        number = waits.connection.connection_no
        delayed = late.get((number, waits.from_client))
        at_once = len(waits.rows) - (len(delayed.rows) if delayed else 0)
        if delayed is not None and 2 * len(delayed.rows) >= at_once:
            yield _delayed(tables, delayed, at_once, costs.get(number, Share()))
        elif at_once >= LEAST_AT_ONCE:
            yield _at_once(tables, waits, at_once, costs.get(number, Share()))


def _delayed(tables: Tables, waits: Held, at_once: int, share: Share) -> Finding:
    count = len(waits.rows)
    span = time_range(waits.lengths_ns[-1], waits.lengths_ns[0])
    sender = waits.subject
    times = "" if count == 1 else f"{wording.count_word(count)} times "
    summary = (
        f"{sender} held a small segment back {times}for {span}, until the delayed acknowledgement "
        f"of the one before came."
    )
    return _finding(
        tables,
        waits,
        share,
        severity_of_share=waits.confidence(tables) >= CHANCE,
        summary=summary,
        measures={
            "held": count,
            "held_at_once": at_once,
            "held_ns": waits.total_ns,
            "held_max_ns": waits.lengths_ns[0],
            "sender": "client" if waits.from_client else "server",
        },
    )


def _at_once(tables: Tables, waits: Held, at_once: int, share: Share) -> Finding:
    count = len(waits.rows)
    delayed = tables.limits.kind[waits.rows] == LIMIT_CODE["nagle_delayed_ack"]
    lengths = np.array(waits.lengths_ns, np.int64)
    typical = int(np.median(lengths[~delayed]))
    summary = (
        f"{waits.subject} sent {wording.count_word(count)} small segments one at a "
        f"time, each on the acknowledgement of the one before, a round trip of "
        f"{amount(typical)} apart"
    )
    late = int(delayed.sum())
    if late:
        summary += f"; {wording.count_word(late)} of them on a delayed one"
    return _finding(
        tables,
        waits,
        share,
        severity_of_share=bool(share.rows),
        summary=summary + ".",
        measures={
            "held": late,
            "held_at_once": at_once,
            "held_ns": int(lengths[delayed].sum()),
            "round_trip_ns": typical,
            "sender": "client" if waits.from_client else "server",
        },
    )


def _finding(
    tables: Tables,
    waits: Held,
    share: Share,
    *,
    severity_of_share: bool,
    summary: str,
    measures: dict[str, int | float | str | bool | None],
) -> Finding:
    begin, end = waits.span(tables)
    evidence = waits.packet_nos(tables)
    side = "client" if waits.from_client else f"server {label(waits.connection)}"
    return Finding(
        detector="tcp/nagle-delayed-ack",
        severity=share.severity() if severity_of_share else "info",
        confidence=waits.confidence(tables),
        summary=summary,
        advice=(
            f"In the program of the {side}, write each message in one piece, or switch Nagle's "
            "algorithm off (TCP_NODELAY)."
        ),
        action=f"Set TCP_NODELAY in the {side}, or write messages in one piece",
        connection_no=waits.connection.connection_no,
        exchange_nos=share.exchange_nos,
        from_ns=begin,
        to_ns=end,
        count=len(waits.rows),
        cost_ns=share.cost_ns if share.rows else None,
        measures=measures,
        examples=waits.examples(tables),
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(set(evidence)),
        ledger_rows=share.rows,
    )
