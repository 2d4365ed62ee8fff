"""Answers took more round trips because the sender had started over after an idle time.

What it detects:
    A sender that after an idle time longer than its retransmission timeout sent no more than
    ten segments at first, although it had had more in flight before, and that had to wait for
    acknowledgements before the rest of the message. The waits are booked on ledger cause
    congestion_window; what is given here is what they took, as an estimate of the saving.

    One direction of one connection is one finding.

Why it matters:
    A connection that is kept open for the next request has lost its speed when that request
    comes: a large answer takes several round trips, as on a new connection. Requests to
    language models are typical: a long prompt, a long wait, then the next long prompt.

What to do:
    On Linux the sender can be told to keep its window (net.ipv4.tcp_slow_start_after_idle=0).
    Make messages smaller (compression), or the round trip shorter (a server nearer to the
    client). It is the sender's setting: the server's for answers, the client's for requests.

When it is wrong:
    A sender that had nothing more to send at that moment looks alike if its next write came
    on an acknowledgement by chance.

    A loss shrinks the window, too, and starting over is what RFC 5681 asks for: this says
    what it costs, not that it is a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.limits import Held, held
from capture_analyzer.detectors.phrases import amount
from capture_analyzer.detectors.servers import label
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import column
from capture_analyzer.model.findings import MAX_PACKET_NOS, Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    least_ms: int = column(
        "Least time that starting over must have taken on a connection.", unit="ms", default=20
    )


META = Meta(
    tables=("connections",),
    options=Options,
    severity="info: it is what the standard asks for",
    references=(
        "RFC 5681, section 4.1 (restarting idle connections)",
        "RFC 6928 (initial window of ten segments)",
        "RFC 7661 (a window for senders that pause)",
    ),
)


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each connection and direction."""
    for waits in held(tables, ("idle_restart",)):
        if waits.total_ns >= options.least_ms * 1_000_000:
            yield _finding(tables, waits)


def _finding(tables: Tables, waits: Held) -> Finding:
    count = len(waits.rows)
    begin, end = waits.span(tables)
    evidence = waits.packet_nos(tables)
    rounds = "a round trip" if count == 1 else f"{wording.count_word(count)} round trips"
    side = "client" if waits.from_client else f"server {label(waits.connection)}"
    return Finding(
        detector="tcp/idle-restart",
        severity="info",
        confidence=waits.confidence(tables),
        summary=(
            f"{waits.subject} started over with a small window after idle times, which "
            f"took {rounds} more, {amount(waits.total_ns)} in all."
        ),
        advice=(
            f"If that matters, let the {side} keep its window when it is idle (on Linux "
            "net.ipv4.tcp_slow_start_after_idle=0), or make messages smaller."
        ),
        action="",
        connection_no=waits.connection.connection_no,
        from_ns=begin,
        to_ns=end,
        count=count,
        estimated_saving_ns=waits.total_ns,
        measures={
            "round_trips": count,
            "waited_ns": waits.total_ns,
            "sender": "client" if waits.from_client else "server",
        },
        examples=waits.examples(tables),
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(set(evidence)),
    )
