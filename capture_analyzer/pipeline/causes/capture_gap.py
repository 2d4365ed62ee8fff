"""capture_gap: the receiver acknowledged bytes that the capture lacks."""

from __future__ import annotations

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts


def find(facts: Facts) -> Waits:
    """Holes that the capture made, for the exchanges that were open meanwhile."""
    return facts.hole_waits("capture", "capture_gap")
