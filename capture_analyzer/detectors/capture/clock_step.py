"""The capturing host's clock was set during the capture.

What it detects:
    Time stamps that run backwards and stay behind, or that jump against the timestamps which
    a host near the capture point writes into its TCP segments. A few packets out of order, as
    captures of several queues have them, are not meant.

    All steps are one finding.

Why it matters:
    Every duration that spans a step is wrong by as much: waits, round trips, think times. A
    request can seem to end before it began.

What to do:
    Let the clock be slewed instead of set (chrony and ntpd do so for small offsets; a virtual
    machine that was suspended can't). Judge only what lies wholly before or behind a step, or
    capture again.

When it is wrong:
    A host that was suspended, or so busy that it sent late, looks the same for its segments.
    Confidence is full only where the time stamps themselves run backwards.

    A file that was put together from several in the wrong order runs backwards, too.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import upper_first
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding

META = Meta(
    tables=("packets",),
    severity="info: what spans a step is doubtful; it can't be put right",
    references=(
        "RFC 7323, section 5.4 (the timestamp clock)",
        "RFC 5905 (clocks are stepped or slewed)",
    ),
)


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield one finding."""
    steps = [row for row in tables.anomalies if row.code == "clock-step" and row.packet_no]
    if not steps:
        return
    numbers = [row.packet_no or 0 for row in steps]
    times = tables.packets.time_ns
    backwards = any(number > 1 and times[number - 1] < times[number - 2] for number in numbers)
    count = len(steps)
    first = steps[0].detail
    summary = f"{upper_first(first)} at {wording.instant(int(times[numbers[0] - 1]))}."
    if count > 1:
        summary = (
            f"The capture's clock was set {wording.count_word(count)} times; at first, {first}."
        )
    columns = tables.exchanges.columns  # NO_TIME is less than any packet
    asked = columns.request_first_packet_no
    answered = columns.response_last_packet_no != NO_TIME
    last = np.where(answered, columns.response_last_packet_no, columns.request_last_packet_no)
    across = np.zeros(len(asked), np.bool_)
    for number in numbers:
        across |= (asked < number) & (number <= last)
    hurt = np.flatnonzero(across).tolist()
    yield Finding(
        detector="capture/clock-step",
        severity="info",
        confidence=1.0 if backwards else 0.8,
        summary=summary,
        advice=(
            "Durations that span the step are wrong by as much. Judge what lies before and behind "
            "it, or capture again with a clock that is slewed."
        ),
        action="",
        exchange_nos=hurt,
        from_ns=int(times[numbers[0] - 1]),
        to_ns=int(times[numbers[-1] - 1]),
        count=count,
        measures={"steps": count, "exchanges_across": len(hurt)},
        examples=[Example([number - 1, number]) for number in numbers[:MAX_EXAMPLES]],
        packet_nos=[no for number in numbers for no in (number - 1, number)][:MAX_PACKET_NOS],
        packet_total=2 * count,
    )
