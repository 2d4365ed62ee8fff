"""How healthy the network was, in one sentence: round trips, loss, what is missing."""

from __future__ import annotations

from typing import Final

import numpy as np

from capture_analyzer import wording
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.causes import CAUSE_NAMES
from capture_analyzer.model.packets import LABELS
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.report import causes

SOUND_LOSS: Final = 0.01  # share of segments sent again below which nobody feels it
SOUND_TIME: Final = 0.05  # share of the time in requests, likewise

_DISTURBANCES: Final = [
    code
    for code, name in enumerate(CAUSE_NAMES)
    if causes.GROUPS[name] in ("path", "limit", "unknown")
]


@quick_dataclass(frozen=True)
class Health:
    """Figures over all connections."""

    rtt_least_ns: int | None
    rtt_most_ns: int | None
    data_segments: int
    sent_again: int
    requests_repeated: int  # SYNs and SYN-ACKs
    missing_bytes: int


def health(tables: Tables) -> Health:
    """Measure it."""
    trips = [c.rtt_ns for c in tables.connections if c.rtt_ns is not None]
    again = LABELS.index("retransmission")
    label = tables.packets.label
    has_data = tables.packets.payload_bytes > 0
    data = [LABELS.index(name) for name in ("retransmission", "reordered", "original")]
    return Health(
        rtt_least_ns=min(trips, default=None),
        rtt_most_ns=max(trips, default=None),
        data_segments=int(np.count_nonzero(np.isin(label, data) & has_data)),
        sent_again=int(np.count_nonzero((label == again) & has_data)),
        requests_repeated=sum(c.syn_retransmissions for c in tables.connections),
        missing_bytes=sum(c.missing_bytes for c in tables.connections),
    )


def sentences(tables: Tables) -> list[str]:
    """One sentence about the network; none where the capture holds no connection."""
    if not tables.connections:
        return []
    facts = health(tables)
    parts = []
    if facts.rtt_least_ns is not None and facts.rtt_most_ns is not None:
        parts.append(_round_trips(facts.rtt_least_ns, facts.rtt_most_ns))
    if facts.sent_again:
        parts.append(
            f"{facts.sent_again:,} of {wording.count(facts.data_segments, 'data segment')} "
            f"{'was' if facts.sent_again == 1 else 'were'} sent again"
        )
    elif facts.data_segments:
        parts.append("no data was sent again")
    if facts.requests_repeated:
        parts.append(f"{wording.count(facts.requests_repeated, 'SYN')} repeated")
    if facts.missing_bytes:
        parts.append(f"{wording.size(facts.missing_bytes)} missing from the capture")
    elif facts.data_segments:
        parts.append("nothing is missing from the capture")
    if not parts:
        return []
    sound = (
        facts.data_segments > 0
        and _undisturbed(tables)
        and facts.sent_again < SOUND_LOSS * facts.data_segments
        and not facts.requests_repeated
        and not facts.missing_bytes
    )
    lead = "The network was sound: " if sound else "The network: "
    return [f"{lead}{', '.join(parts)}."]


def _undisturbed(tables: Tables) -> bool:
    """Whether hardly any time in requests went on faults of the path, or has no known cause."""
    ledger = tables.ledger
    durations = ledger.to_ns - ledger.from_ns
    disturbed = np.isin(ledger.cause, _DISTURBANCES)
    return int(durations[disturbed].sum()) <= SOUND_TIME * int(durations.sum())


def _round_trips(least: int, most: int) -> str:
    first, last = wording.duration(least), wording.duration(most)
    if first == last:
        return f"round trips of {first}"
    number, _, unit = first.partition(wording.NBSP)
    if last.endswith(wording.NBSP + unit):
        first = number
    return f"round trips of {first} to {last}"
