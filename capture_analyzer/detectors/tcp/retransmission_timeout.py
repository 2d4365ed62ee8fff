"""Segments were lost, and only the retransmission timer repaired it.

What it detects:
    Data that was sent again when the sender's retransmission timer ran out, and what it sent
    again in the recovery that followed (it goes back to the first byte that is not
    acknowledged). That is the last resort of TCP: no report of the receiver and no tail loss
    probe had helped, or their repeats were lost too. The wait is booked on ledger cause
    loss_recovery. Timeouts that were needless are not counted here.

    One connection is one finding; where more than 20 connections of a server had timeouts,
    they are one finding together.

Why it matters:
    The timer runs for at least 200 ms (Linux) or 1 s (RFC 6298) above the round trip and
    doubles each time. Behind it the sender starts again with one segment, so that the transfer
    is slow for many round trips more.

What to do:
    Timeouts need several losses in one round trip, or the loss of a repeat: look for bursts
    of loss rather than single ones. A queue that overflows (a shallow buffer before a slow
    link), a policer, a link that is away for a moment, or a firewall that forgets its
    connections. Where it is always the full-size segments, see tcp/path-mtu-black-hole.

When it is wrong:
    Which timer sent a repeat is inferred from what was reported before it and from the time
    that passed; another sender's timers can differ from those of Linux.

    A capture that begins in the middle of a recovery can take a repeat for a timeout.
"""

from __future__ import annotations

from collections.abc import Iterable

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.losses import TIMEOUT, Loss, finding_of, losses
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.findings import Finding

META = Meta(
    tables=("connections",),
    causes=("loss_recovery",),
    references=(
        "RFC 6298, section 5 (managing the retransmission timer)",
        "RFC 5681, section 3.1 (slow start behind a timeout)",
    ),
)


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each connection."""
    return (_finding(loss) for loss in losses(tables, TIMEOUT))


def _finding(loss: Loss) -> Finding:
    timeouts = max(loss.mechanisms.count("rto"), 1)
    behind = loss.mechanisms.count("after_rto")
    often = "once" if timeouts == 1 else f"{wording.count_word(timeouts)} times"
    summary = f"The retransmission timer for data {loss.whose} ran out {often}"
    if loss.worst_ns:
        wait = "the data was missing for" if timeouts == 1 else "data was missing for up to"
        summary += f"; {wait} {wording.duration(loss.worst_ns)}"
    if behind:
        again = "segment was" if behind == 1 else "segments were"
        summary += f", and {wording.count_word(behind)} more {again} repeated behind it"
    return finding_of(
        "tcp/retransmission-timeout",
        loss,
        timeouts,
        summary + ".",
        advice=(
            f"Look for bursts of loss on the way {loss.whose}: an overflowing queue, a policer, a "
            "link that was away, a firewall that forgot the connection. A single loss does not "
            "end in a timeout."
        ),
        action=f"Find what drops several segments {loss.whose} at once",
        measures={"timeouts": timeouts, "segments_behind": behind},
    )
