"""The last segments of a flight were lost, and a tail loss probe repaired it.

What it detects:
    Data at the end of a flight that was lost and sent again by a tail loss probe: the timer
    that a sender with SACK starts about two round trips after the last segment, and up to
    200 ms later when a single segment was in flight. Nothing follows a tail, so that no report
    of the receiver can ask for it. The wait is booked on ledger cause loss_recovery.

    One connection is one finding; where more than 20 connections of a server had such
    losses, they are one finding together.

Why it matters:
    Requests and the ends of answers are tails, and so is every token that is sent alone: a
    loss there costs 200 ms and more, where one in the middle of a transfer costs a round trip.

What to do:
    Find where segments are dropped, as for any loss. A sender without SACK or without tail
    loss probes (RFC 8985; on Linux net.ipv4.tcp_early_retrans, net.ipv4.tcp_sack) waits even
    longer, until its retransmission timer runs out.

When it is wrong:
    In the receiver's capture the lost copy is not seen. That there was one is inferred from
    a packet that is missing by the sender's count (IP identification) and from the pause. A
    sender that paused and whose packet count jumped for another reason looks the same;
    confidence says so, and a capture at the sender settles it.

    The first timer of a sender can also be an early retransmission timer; what it costs is
    the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.losses import TAIL, Loss, finding_of, losses
from capture_analyzer.detectors.phrases import upper_first
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.findings import Finding

META = Meta(
    tables=("connections",),
    causes=("loss_recovery",),
    references=("RFC 8985, section 7 (tail loss probe)",),
)


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each connection."""
    return (_finding(loss) for loss in losses(tables, TAIL))


def _finding(loss: Loss) -> Finding:
    count = len(loss.repeats)
    if count == 1:
        summary = f"The last segment of a flight {loss.whose} was lost and repeated by a probe"
        wait = "after"
    else:
        number = upper_first(wording.count_word(count))
        summary = (
            f"{number} times the last segment of a flight {loss.whose} was lost and repeated by a "
            "probe"
        )
        wait = "after up to"
    if loss.worst_ns:
        summary += f" {wait} {wording.duration(loss.worst_ns)}"
    return finding_of(
        "tcp/tail-loss",
        loss,
        count,
        summary + ".",
        advice=(
            f"Find where segments {loss.whose} are dropped. Nothing follows the last segment of "
            "a flight that could report its loss, so only a timer repairs it."
            + ("" if loss.confidence > 0.8 else " A capture at the sender would make it certain.")
        ),
        action=f"Find where segments {loss.whose} are dropped",
        measures={},
    )
