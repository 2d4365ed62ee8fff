"""dns: the client waited for the answer to a name lookup before it could connect."""

from __future__ import annotations

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import STEP_NS, Facts, connection_waits


def find(facts: Facts) -> Waits:
    """The resolution of each set-up, from its first question to its last answer."""
    rows = []
    for setup in facts.setups:
        if setup.dns_ns is None or setup.dns_end_ns is None:
            continue
        at_once = setup.connect_ns - setup.dns_end_ns <= STEP_NS
        asked = setup.lookups[0].packet_nos
        answered = max((no for lookup in setup.lookups for no in lookup.packet_nos), default=0)
        rows.append(
            (
                setup.dns_ns,
                setup.connect_ns if at_once else setup.dns_end_ns,
                setup.connection_no,
                setup.exchange_no,
                asked[0] if asked else 0,
                answered,
                0,
            )
        )
    return connection_waits("dns", rows)
