"""network_rtt: the part of a round trip that lies beyond the vantage.

Between request and answer that is the way to the server and back. In a set-up, between an
answer and the client's next step, it is the way to the client and back.
"""

from __future__ import annotations

import numpy as np

from capture_analyzer.model.column import concatenate
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.client_idle import turns
from capture_analyzer.pipeline.causes.facts import Facts, connection_waits
from capture_analyzer.pipeline.causes.links import MEASURED, surely_on_the_way
from capture_analyzer.pipeline.causes.server_think import waiting


def find(facts: Facts) -> Waits:
    """The smallest round trip so far, from the delivery of each request on.

    Known even where the rest of the wait is not: no answer comes faster. Of one that only data
    gave, what may have been a delayed acknowledgement is left open.
    """
    exchange, begins, ends = waiting(facts)
    known = facts.beyond[exchange] > 0
    exchange, begins, ends = exchange[known], begins[known], ends[known]
    rows = []
    for begin, end, number, exchange_no, before, behind in turns(facts):
        way = facts.connections[number].client_side_rtt_ns
        if way is not None and facts.connections[number].vantage_side != "client":
            rows.append((begin, min(end, begin + way), number, exchange_no, before, behind, 0))
    answered = facts.waits(
        "network_rtt",
        exchange,
        begins,
        np.minimum(
            begins + surely_on_the_way(facts.beyond[exchange], facts.beyond_trust[exchange]), ends
        ),
        facts.beyond_trust[exchange],
        facts.request_last_packet[exchange],
        facts.response_first_packet[exchange],
    )
    waits: Waits = concatenate(Waits, [connection_waits("network_rtt", rows, MEASURED), answered])
    return waits
