"""server_think: the server (and all behind it) worked on the answer.

The wait between the request's delivery and the answer's first segment, less the round trip
beyond the capture point and the time that this segment took on the slowest link. Booked only
on evidence: both ends of the wait are in the capture, and the round trip was measured. Where
other exchanges were open on the connection, this one's answer may have waited behind theirs:
there it is booked, in HTTP/2, up to the last instant at which the server had nothing to send.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts
from capture_analyzer.pipeline.intervals import Indices, Times

INFERRED: Final = 0.6
"""Confidence in the think time of an exchange that is inferred, beside that in the round trip:
the client's flight may be more, or less, than a request."""

INFERRED_H2: Final = 0.45
"""Where it may be HTTP/2, the answer may also be another request's."""


def find(facts: Facts) -> Waits:
    """The think time before each answer."""
    exchange, begins, ends = waiting(facts)
    ends = np.where(
        facts.shared[exchange], np.minimum(facts.response_released[exchange], ends), ends
    )
    known = facts.beyond[exchange] != NO_TIME
    exchange, begins, ends = exchange[known], begins[known], ends[known]
    guessed = np.where(facts.may_be_h2[exchange], INFERRED_H2, INFERRED)
    trust = np.where(facts.inferred[exchange], guessed, 1.0) * facts.beyond_trust[exchange]
    return facts.waits(
        "server_think",
        exchange,
        begins + facts.beyond[exchange],
        ends,
        trust.astype(np.float32),
        facts.request_last_packet[exchange],
        facts.response_first_packet[exchange],
    )


def waiting(facts: Facts) -> tuple[Indices, Times, Times]:
    """The wait of each exchange between a delivered request and an answer.

    Returns:
        Exchanges, begins and ends of their waits.
    """
    ends = facts.response_seen - facts.first_segment
    real = (
        facts.asked
        & (facts.response_seen != NO_TIME)
        & (facts.delivered != NO_TIME)
        & (facts.delivered < ends)
    )
    exchange = np.flatnonzero(real)
    return exchange, facts.delivered[exchange], ends[exchange]
