"""A receiver's window was closed, and data had to wait.

What it detects:
    A receiver that offered a window of 0 while the other side had data to send: probes asked
    whether it had opened, or data came the moment that it did. The time from the last segment
    that there was room for to the first behind the window update is booked on ledger cause
    receiver_window.

    One connection is one finding.

Why it matters:
    The program that receives did not read what had arrived: its buffer was full. Neither
    network nor sender can do anything about it, and a faster network makes it no better.

What to do:
    Look at the receiving program at these instants: what was it doing instead of reading? A
    thread that was busy or blocked (a slow disk, a lock, a garbage collection), a consumer that
    can't keep up, an event loop that was held up. Where the window is small because the
    socket's buffer was set (SO_RCVBUF), don't set it.

When it is wrong:
    A receiver may stop on purpose: back-pressure is what flow control is for. Then look at
    what it waited for.

    A window of 0 that nobody waited for costs nothing and is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.limits import Held, held, shares
from capture_analyzer.detectors.phrases import amount
from capture_analyzer.detectors.servers import label
from capture_analyzer.detectors.shares import Share
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import column
from capture_analyzer.model.findings import MAX_PACKET_NOS, Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass

MS: Final = 1_000_000


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    least_ms: int = column(
        "Shortest stall that counts, beyond one round trip.", unit="ms", default=10
    )


META = Meta(
    tables=("connections",),
    options=Options,
    causes=("receiver_window",),
    references=(
        "RFC 9293, section 3.8.6 (managing the window)",
        "RFC 9293, section 3.8.6.1 (zero-window probing)",
    ),
)


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each connection and direction."""
    costs = shares(tables, "receiver_window", "zero_window", others=("window_full",))
    for stalls in held(tables, ("zero_window",)):
        # A window that opens again costs a round trip at any rate.
        least = (stalls.connection.rtt_ns or 0) + options.least_ms * MS
        count = sum(length >= least for length in stalls.lengths_ns)
        if count:
            kept = dataclasses.replace(
                stalls, rows=stalls.rows[:count], lengths_ns=stalls.lengths_ns[:count]
            )
            yield _finding(tables, kept, costs.get(stalls.connection.connection_no, Share()))


def _finding(tables: Tables, stalls: Held, share: Share) -> Finding:
    count = len(stalls.rows)
    worst = stalls.lengths_ns[0]
    reader = stalls.receiver if stalls.from_client else "The client"
    where = "" if stalls.from_client else f" from {label(stalls.connection)}"
    if count == 1:
        summary = f"{reader} had no room for data{where} for {amount(worst)}: it did not read."
    else:
        summary = (
            f"{reader} had no room for data{where} {wording.count_word(count)} times, for "
            f"{amount(stalls.total_ns)} in all: it did not read."
        )
    begin, end = stalls.span(tables)
    evidence = stalls.packet_nos(tables)
    return Finding(
        detector="tcp/zero-window-stall",
        severity=share.severity(),
        confidence=stalls.confidence(tables),
        summary=summary,
        advice=(
            f"Look at what {stalls.receiver} did instead of reading: a thread that was "
            "busy or blocked, a consumer that can't keep up, a small SO_RCVBUF."
        ),
        action=f"Find why {stalls.receiver} stopped reading",
        connection_no=stalls.connection.connection_no,
        exchange_nos=share.exchange_nos,
        from_ns=begin,
        to_ns=end,
        count=count,
        cost_ns=share.cost_ns if share.rows else None,
        measures={
            "stalls": count,
            "stalled_ns": stalls.total_ns,
            "stall_max_ns": worst,
            "receiver": "server" if stalls.from_client else "client",
        },
        examples=stalls.examples(tables),
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(set(evidence)),
        ledger_rows=share.rows,
    )
