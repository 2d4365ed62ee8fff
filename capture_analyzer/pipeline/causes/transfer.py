"""transfer: the response was arriving.

From its first byte to its last, and before that the time that the first segment itself took
on the slowest link. Where the server stopped for longer than its window explains, nothing
was arriving: what it waited for is another cause, or unknown. Between the events of a streamed
answer that is also so where it stopped for less (`generation`).
"""

from __future__ import annotations

import numpy as np

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts
from capture_analyzer.pipeline.causes.links import PAUSE_NS


def find(facts: Facts) -> Waits:
    """The arrival of each response, less the server's pauses."""
    exchange = np.flatnonzero(facts.response_seen != NO_TIME)
    seen = facts.response_seen[exchange]
    first = np.maximum(seen - facts.first_segment[exchange], facts.request_start[exchange])
    # Behind its last byte an exchange goes on to its end: a FIN, a reset, a late request byte.
    last, end = facts.response_end[exchange], facts.end[exchange]
    ends = np.where(end - last <= PAUSE_NS, end, np.maximum(last, seen))
    rest, rest_begins, rest_ends = facts.without_pauses(False, exchange, seen, ends, facts.gaps)
    exchange = np.concatenate((exchange, rest))
    return facts.waits(
        "transfer",
        exchange,
        np.concatenate((first, rest_begins)),
        np.concatenate((seen, rest_ends)),
        1.0,
        facts.response_first_packet[exchange],
        facts.response_last_packet[exchange],
    )
