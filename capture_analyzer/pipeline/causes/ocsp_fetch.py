"""ocsp_fetch: a client held its next step for the answer of an OCSP responder.

From the begin of the fetch (its lookup, its SYN) to the client's next step, if that came at
once; else to the answer or the time-out. What ran beside the handshake is not booked.
"""

from __future__ import annotations

from typing import Final

from capture_analyzer.model.column import concatenate
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts, connection_waits

AT_ONCE_NS: Final = 5_000_000
"""A client that checks an answer goes on within this time."""


def find(facts: Facts) -> Waits:
    """The fetches that something waited for."""
    parts = []
    for fetch in facts.ocsp_fetches:
        until, number = fetch.waited_until_ns, fetch.connection_no
        if until is None or number is None:
            continue
        end = until if fetch.to_ns is None else min(until, fetch.to_ns + AT_ONCE_NS)
        row = (
            fetch.from_ns,
            end,
            number,
            int(facts.handshake_of[number]),
            fetch.first_packet_no or 0,
            fetch.last_packet_no or fetch.next_packet_no or 0,
            fetch.next_packet_no or 0,
        )
        parts.append(connection_waits("ocsp_fetch", [row], fetch.confidence))
    waits: Waits = concatenate(Waits, parts)
    return waits
