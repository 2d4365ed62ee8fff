"""loss_recovery: bytes were lost, and the receiver waited until they came again.

From the instant at which the hole showed (or, in the sender's own capture and for a lost
tail, at which the bytes were first sent) to their arrival. Bytes of another HTTP/2 stream are
`head_of_line`.
"""

from __future__ import annotations

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts


def find(facts: Facts) -> Waits:
    """Holes made by loss, for the exchanges whose bytes were lost."""
    return facts.hole_waits("loss", "loss_recovery", own=True)
