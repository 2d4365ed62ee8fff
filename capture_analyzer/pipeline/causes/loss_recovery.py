"""loss_recovery: bytes were lost, and the receiver waited until they came again.

From the instant at which the hole showed (or, in the sender's own capture and for a lost
tail, at which the bytes were first sent) to their arrival.
"""

from __future__ import annotations

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts


def find(facts: Facts) -> Waits:
    """Holes made by loss, for the exchanges that were open meanwhile."""
    return facts.hole_waits("loss", "loss_recovery")
