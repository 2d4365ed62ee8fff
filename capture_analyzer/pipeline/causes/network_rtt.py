"""network_rtt: the part of a round trip that request and answer spent beyond the vantage."""

from __future__ import annotations

import numpy as np

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts
from capture_analyzer.pipeline.causes.server_think import waiting


def find(facts: Facts) -> Waits:
    """The smallest round trip so far, from the delivery of each request on.

    Known even where the rest of the wait is not: no answer comes faster.
    """
    exchange, begins, ends = waiting(facts)
    known = facts.beyond[exchange] > 0
    exchange, begins, ends = exchange[known], begins[known], ends[known]
    return facts.waits(
        "network_rtt",
        exchange,
        begins,
        np.minimum(begins + facts.beyond[exchange], ends),
        0.9,
        facts.request_last_packet[exchange],
        facts.response_first_packet[exchange],
    )
