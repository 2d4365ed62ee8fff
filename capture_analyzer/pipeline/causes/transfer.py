"""transfer: the response was arriving.

From its first byte to its last, and before that the time that the first segment itself took
on the slowest link. Where the server stopped for longer than its window explains, nothing
was arriving: what it waited for is another cause, or unknown.
"""

from __future__ import annotations

import numpy as np

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import PAUSE_NS, Facts


def find(facts: Facts) -> Waits:
    """The arrival of each response, less the server's pauses."""
    seen = facts.response_seen
    exchange = np.flatnonzero(seen != NO_TIME)
    begins = np.maximum(seen - facts.first_segment, facts.request_start)[exchange]
    # Behind its last byte an exchange goes on to its end: a FIN, a reset, a late request byte.
    last, end = facts.response_end[exchange], facts.end[exchange]
    ends = np.where(end - last <= PAUSE_NS, end, np.maximum(last, begins))
    exchange, begins, ends = facts.without_pauses(False, exchange, begins, ends)
    return facts.waits(
        "transfer",
        exchange,
        begins,
        ends,
        1.0,
        facts.response_first_packet[exchange],
        facts.response_last_packet[exchange],
    )
