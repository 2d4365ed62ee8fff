"""head_of_line: data was there and waited for the missing bytes of another HTTP/2 stream.

TCP hands bytes on in order only, whatever stream they are of. The wait begins when the first
bytes behind the hole came, and ends when the hole is filled.
"""

from __future__ import annotations

from capture_analyzer.model.column import concatenate
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts


def find(facts: Facts) -> Waits:
    """Holes in other streams' bytes, for the exchanges that had bytes behind them."""
    waits: Waits = concatenate(
        Waits,
        [facts.hole_waits(kind, "head_of_line", own=False) for kind in ("loss", "reordering")],
    )
    return waits
