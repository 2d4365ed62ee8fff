"""request_send: the request was on its way out of the client.

From its first byte to its last; an early answer cuts it. Where the client stopped for longer
than its window explains, it was busy with something that the capture does not show.
"""

from __future__ import annotations

import numpy as np

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts


def find(facts: Facts) -> Waits:
    """The sending of each request, less the client's pauses."""
    end = facts.request_end
    early = (facts.response_seen != NO_TIME) & (facts.response_seen < end)
    end = np.where(early, facts.response_seen, end)
    exchange = np.flatnonzero(facts.asked & (end > facts.request_start))
    exchange, begins, ends = facts.without_pauses(
        True, exchange, facts.request_start[exchange], end[exchange]
    )
    return facts.waits(
        "request_send",
        exchange,
        begins,
        ends,
        1.0,
        facts.request_first_packet[exchange],
        facts.request_last_packet[exchange],
    )
