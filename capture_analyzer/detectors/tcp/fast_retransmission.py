"""Segments were lost and repeated fast, on the receiver's reports.

What it detects:
    Data that was lost and sent again because the receiver reported later data: by three
    duplicate ACKs, or by SACK blocks. Repeats that were needless are not counted here. The
    time for which the receiver had to wait for the bytes is booked on ledger cause
    loss_recovery in the exchanges that were open meanwhile.

    One connection is one finding; where more than 20 connections of a server lost segments,
    they are one finding together.

Why it matters:
    Whatever arrives behind a lost segment waits for its repeat, which takes at least a round
    trip: a stream of tokens stops, and then comes in a burst. The sender also takes the loss
    as a sign of congestion and slows down, which a single loss makes hardly visible and many
    make the whole rate.

What to do:
    One loss now and then is how TCP finds out how fast the path is. If they recur, find
    where: error and discard counters of the interfaces on the way, a policer or shaper, a
    wireless link, a queue that overflows when several transfers meet. A capture at the other
    end at the same time tells on which side the segment vanished.

When it is wrong:
    In a capture that drops packets, a segment can be there and look lost; then the receiver
    acknowledges it without a repeat (capture/packets-missing).

    At the sender the loss itself is not seen: the wait is counted from the first sending of
    the bytes to their repeat, to which the way to the receiver must be added.
"""

from __future__ import annotations

from collections.abc import Iterable

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.losses import FAST, Loss, finding_of, losses
from capture_analyzer.detectors.phrases import upper_first
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.findings import Finding

META = Meta(
    tables=("connections",),
    causes=("loss_recovery",),
    references=(
        "RFC 5681, section 3.2 (fast retransmit)",
        "RFC 6675 (loss recovery with SACK)",
        "RFC 8985, section 6 (RACK)",
    ),
)


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each connection."""
    return (_finding(loss) for loss in losses(tables, FAST))


def _finding(loss: Loss) -> Finding:
    count = len(loss.repeats)
    verb = "was" if count == 1 else "were"
    summary = (
        f"{upper_first(wording.count_word(count) if count > 1 else 'a')} "
        f"segment{'s' if count > 1 else ''} {loss.whose} {verb} lost and repeated after the "
        "receiver's reports"
    )
    if loss.worst_ns:
        most = "the longest wait for one was" if count > 1 else "its data was waited for"
        summary += f"; {most} {wording.duration(loss.worst_ns)}"
    return finding_of(
        "tcp/fast-retransmission",
        loss,
        count,
        summary + ".",
        advice=(
            f"Find where segments {loss.whose} are dropped: error and discard counters of the "
            "interfaces on the way, a policer, a queue that overflows. A capture at the other end "
            "tells on which side it happens."
            + (" A single loss is no fault by itself." if count == 1 else "")
        ),
        action=f"Find where segments {loss.whose} are dropped",
        measures={},
    )
