"""generation: the server paused between the parts of a streamed answer.

From the answer's head to its first event, and from each event to the next, as far as it is
shown that the server had not written the next one yet (`sending`): nothing was outstanding
that it waited for, or it sent in spite of what was. The way of the event is not in it: a gap
of the server reaches the client as long as it was.
"""

from __future__ import annotations

from typing import Final

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts

SHOWN: Final = 0.95
"""Confidence: that nothing held a segment back is inferred from the acknowledgements' times."""


def find(facts: Facts) -> Waits:
    """The gaps of each streamed answer."""
    gaps = facts.gaps
    return facts.waits(
        "generation",
        gaps.exchange,
        gaps.from_ns,
        gaps.to_ns,
        SHOWN,
        gaps.packet_a,
        gaps.packet_b,
    )
