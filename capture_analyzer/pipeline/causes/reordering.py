"""reordering: bytes were overtaken on the way, and the receiver waited for them."""

from __future__ import annotations

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts


def find(facts: Facts) -> Waits:
    """Holes made by reordering, for the exchanges whose bytes were overtaken."""
    return facts.hole_waits("reordering", "reordering", own=True)
