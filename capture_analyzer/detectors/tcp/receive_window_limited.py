"""Transfers ran at the limit of the receiver's window.

What it detects:
    A sender that had sent all the offered window allowed, and waited for it to move on, again
    and again: in at least three round trips, and for at least half of the time that the
    transfer took. The waits are booked on ledger cause receiver_window. Windows of 0 are
    tcp/zero-window-stall.

    One direction of one connection is one finding.

Why it matters:
    Such a transfer gets one window for each round trip, however fast the network is: 64 KB
    over 100 ms are 5 Mbit/s.

What to do:
    Let the receiver offer more: don't set the socket's receive buffer (SO_RCVBUF), which
    switches its automatic growth off; raise its limit (net.ipv4.tcp_rmem on Linux); see that
    window scaling is on and that no middlebox strips the option (RFC 7323). Or shorten the
    round trip.

When it is wrong:
    A receiver whose program reads slowly offers little, too: then it is the program.

    Where no SYN was captured, the window's scale is unknown, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

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


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    least_waits: int = column("Fewest round trips in which the window was used up.", default=3)
    least_share: float = column("Smallest part of the transfer's time.", default=0.5)


META = Meta(
    tables=("connections",),
    options=Options,
    causes=("receiver_window",),
    references=(
        "RFC 7323, section 2 (window scale)",
        "RFC 9293, section 3.8.6 (managing the window)",
    ),
)


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each connection and direction."""
    costs = shares(tables, "receiver_window", "window_full", others=("zero_window",))
    closed = {
        (waits.connection.connection_no, waits.from_client): waits
        for waits in held(tables, ("zero_window",))
    }
    for waits in held(tables, ("window_full",)):
        if len(waits.rows) < options.least_waits:
            continue
        begin, end = waits.span(tables)
        share = costs.get(waits.connection.connection_no, Share())
        zero = closed.get((waits.connection.connection_no, waits.from_client))
        stalled = 0 if zero is None else _zero_ns(tables, zero, begin, end)
        if waits.total_ns < options.least_share * max(end - begin - stalled, 1):
            continue
        yield _finding(tables, waits, share)


def _zero_ns(tables: Tables, zero: Held, begin: int, end: int) -> int:
    """Time of the same transfer in which the window was 0: another finding's."""
    to_ns = np.minimum(tables.limits.to_ns[zero.rows], end)
    from_ns = np.maximum(tables.limits.from_ns[zero.rows], begin)
    return int(np.maximum(to_ns - from_ns, 0).sum())


def _finding(tables: Tables, waits: Held, share: Share) -> Finding:
    count = len(waits.rows)
    window = int(np.median(tables.limits.in_flight_bytes[waits.rows]))
    begin, end = waits.span(tables)
    evidence = waits.packet_nos(tables)
    server = label(waits.connection)
    way = "to" if waits.from_client else "from"
    rtt = waits.connection.rtt_ns
    over = f" over a round trip of {wording.duration(rtt)}" if rtt else ""
    return Finding(
        detector="tcp/receive-window-limited",
        severity=share.severity(),
        confidence=waits.confidence(tables),
        summary=(
            f"Data {way} {server} waited {amount(waits.total_ns)} in "
            f"{wording.count_word(count)} round trips for the window of {waits.receiver}, about "
            f"{wording.size(window)}{over}."
        ),
        advice=(
            f"Let {waits.receiver} offer a larger window: don't set SO_RCVBUF, raise the limit of "
            "its automatic growth (net.ipv4.tcp_rmem), and see that window scaling is on."
        ),
        action=f"Let {waits.receiver} offer a larger TCP window",
        connection_no=waits.connection.connection_no,
        exchange_nos=share.exchange_nos,
        from_ns=begin,
        to_ns=end,
        count=count,
        cost_ns=share.cost_ns if share.rows else None,
        measures={
            "round_trips": count,
            "waited_ns": waits.total_ns,
            "window_bytes": window,
            "rtt_ns": rtt,
            "rate_limit_bits_per_s": round(window * 8e9 / rtt) if rtt else None,
        },
        examples=waits.examples(tables),
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(set(evidence)),
        ledger_rows=share.rows,
    )
