"""congestion_window: the sender had to wait for acknowledgements, though the window had room.

So it is in slow start and behind losses (RFC 5681): a flight goes out, and the next one only
as the first acknowledgements of it arrive.
"""

from __future__ import annotations

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts
from capture_analyzer.pipeline.causes.limited import limit_waits


def find(facts: Facts) -> Waits:
    """Gaps between flights, also where the sender had started over after an idle time."""
    return limit_waits(facts, "congestion_window", "congestion_window", "idle_restart")
