"""receiver_window: the receiver offered no room for what was to be sent.

From the last segment that it had room for to the first behind the window update; also where
the window was used up in every round trip, though it was never 0.
"""

from __future__ import annotations

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts
from capture_analyzer.pipeline.causes.limited import limit_waits


def find(facts: Facts) -> Waits:
    """Windows of 0, and windows that were used up."""
    return limit_waits(facts, "receiver_window", "zero_window", "window_full")
