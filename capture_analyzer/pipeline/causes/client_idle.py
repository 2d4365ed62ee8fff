"""client_idle: everything was there for the client's next step, and it did not take it.

Between the steps that follow each other at the client: the transport's readiness and its
ClientHello, the set-up and the request. And, in a capture made at the client, behind the
answer of a resolver and a refusal, which elsewhere still had to reach it.
"""

from __future__ import annotations

import itertools

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts, connection_waits


def find(facts: Facts) -> Waits:
    """The pauses of each client inside its set-up and behind it."""
    rows = []
    first = facts.request_first_packet.tolist()
    request = facts.request_start.tolist()
    for setup in facts.setups:
        number, exchange_no = setup.connection_no, setup.exchange_no
        connection = facts.connections[number]
        packet = first[exchange_no]
        rows.append((setup.ready_ns, request[exchange_no], number, exchange_no, 0, packet, 0))
        tls = connection.tls
        if tls is not None and tls.start_ns is not None and tls.start_ns < setup.ready_ns:
            up = connection.established_packet_no or 0
            rows.append((setup.established_ns, tls.start_ns, number, exchange_no, up, 0, 0))
        if connection.vantage_side != "client":
            continue
        if setup.dns_end_ns is not None:
            syn = facts.connections[[*setup.attempt_nos, number][0]].syn_packet_no or 0
            rows.append((setup.dns_end_ns, setup.connect_ns, number, exchange_no, 0, syn, 0))
        chain = [*setup.attempt_nos, number]
        for attempt_no, next_no in itertools.pairwise(chain):
            attempt, following = facts.connections[attempt_no], facts.connections[next_no]
            if attempt.refused and attempt.reset_ns is not None and following.syn_ns is not None:
                syn = following.syn_packet_no or 0
                rows.append(
                    (
                        attempt.reset_ns,
                        following.syn_ns,
                        next_no,
                        exchange_no,
                        attempt.last_packet_no,
                        syn,
                        0,
                    )
                )
    return connection_waits("client_idle", rows)
