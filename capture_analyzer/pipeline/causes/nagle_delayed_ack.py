"""nagle_delayed_ack: a small segment waited for an acknowledgement that the peer delayed.

The sender's Nagle algorithm held it, while the receiver's delayed acknowledgement waited for
it (RFC 9293, sections 3.7.4 and 3.8.6.3). Where the acknowledgement came at once, how long
the data had waited for it is not known, so nothing is booked.
"""

from __future__ import annotations

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts
from capture_analyzer.pipeline.causes.limited import limit_waits


def find(facts: Facts) -> Waits:
    """Segments held until a delayed acknowledgement came."""
    return limit_waits(facts, "nagle_delayed_ack", "nagle_delayed_ack")
