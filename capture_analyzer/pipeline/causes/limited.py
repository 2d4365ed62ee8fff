"""Waits of senders that were held back (table `limits`), for the exchanges that they held up.

What a limit holds up is the message that was under way: a request until its last byte was
sent, an answer from its first byte on. Where the first byte of an answer was the one held
back, the exchange waited from the delivery of its request. A limit says nothing of an exchange
whose answer was not ready.
"""

from __future__ import annotations

import numpy as np

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.limits import LIMIT_CODE
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts


def limit_waits(facts: Facts, cause: str, *kinds: str) -> Waits:
    """Waits with a cause for the limits of some kinds."""
    limits = facts.limits
    codes = np.array([LIMIT_CODE[kind] for kind in kinds], np.uint8)
    chosen = np.flatnonzero(np.isin(limits.kind, codes))
    spans, exchange = facts.exchanges_during(
        limits.connection_no[chosen], limits.from_ns[chosen], limits.to_ns[chosen]
    )
    limit = chosen[spans]
    begins, ends = limits.from_ns[limit].copy(), limits.to_ns[limit].copy()
    requests = limits.from_client[limit]
    # Held at the client: a request on its way.
    sent = facts.request_end[exchange]
    begins[requests] = np.maximum(begins, facts.request_start[exchange])[requests]
    ends[requests] = np.minimum(ends, sent)[requests]
    # Held at the server: an answer on its way, or its first byte.
    seen, last = facts.response_seen[exchange], facts.response_end[exchange]
    delivered = facts.delivered[exchange]
    first = (facts.response_first_packet[exchange] == limits.to_packet_no[limit]) & (
        delivered != NO_TIME
    )
    answered = ~requests & (seen != NO_TIME)
    start = np.where(first, delivered, seen)
    begins[answered] = np.maximum(begins, start)[answered]
    ends[answered] = np.minimum(ends, np.maximum(last, seen))[answered]
    ends[~requests & ~answered] = begins[~requests & ~answered]
    return facts.waits(
        cause,
        exchange,
        begins,
        ends,
        limits.confidence[limit],
        limits.from_packet_no[limit],
        limits.to_packet_no[limit],
        limits.freed_packet_no[limit],
    )
