"""client_idle: everything was there for the client's next step, and it did not take it.

Between steps that follow each other at the client: the resolver's answer or a refusal and
the next SYN, the transport's readiness and the ClientHello, the set-up and the request. Seen
away from the client, what it waited for still had to reach it, and the next step to come
back: that part is network_rtt.
"""

from __future__ import annotations

import itertools

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts, connection_waits

Pause = tuple[int, int, int, int, int, int]
"""from_ns, to_ns, connection, exchange, packet before, packet behind; 0 = no packet."""


def find(facts: Facts) -> Waits:
    """The pauses of each client inside its set-up and behind it."""
    rows = []
    first = facts.request_first_packet.tolist()
    request = facts.request_start.tolist()
    for setup in facts.setups:
        number, exchange_no = setup.connection_no, setup.exchange_no
        connection = facts.connections[number]
        up = connection.established_packet_no or 0
        tls = connection.tls
        if tls is not None and tls.start_ns is not None and tls.start_ns < setup.ready_ns:
            rows.append((setup.established_ns, tls.start_ns, number, exchange_no, up, 0, 0))
        rows.append(
            (setup.ready_ns, request[exchange_no], number, exchange_no, 0, first[exchange_no], 0)
        )
    for begin, end, number, exchange_no, before, behind in turns(facts):
        at_client = facts.connections[number].vantage_side == "client"
        way = 0 if at_client else facts.connections[number].client_side_rtt_ns
        if way is not None:
            rows.append((begin + way, end, number, exchange_no, before, behind, 0))
    return connection_waits("client_idle", rows)


def turns(facts: Facts) -> list[Pause]:
    """Where a set-up passed to the client and came back: an answer or a refusal, then a SYN."""
    rows = []
    for setup in facts.setups:
        chain = [*setup.attempt_nos, setup.connection_no]
        if setup.dns_end_ns is not None:
            syn = facts.connections[chain[0]].syn_packet_no or 0
            rows.append((setup.dns_end_ns, setup.connect_ns, chain[0], setup.exchange_no, 0, syn))
        for attempt_no, next_no in itertools.pairwise(chain):
            attempt, following = facts.connections[attempt_no], facts.connections[next_no]
            if attempt.refused and attempt.reset_ns is not None and following.syn_ns is not None:
                syn = following.syn_packet_no or 0
                answer = attempt.last_packet_no
                rows.append(
                    (attempt.reset_ns, following.syn_ns, next_no, setup.exchange_no, answer, syn)
                )
    return rows
