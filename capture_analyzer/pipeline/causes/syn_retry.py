"""syn_retry: a connection request was lost, and the client waited until it asked again.

From the first SYN to the last repeat (of SYN or SYN-ACK) before the connection was up. An
attempt that never got an answer counts until the client's next attempt on another
connection (RFC 8305, section 5).
"""

from __future__ import annotations

import itertools

from capture_analyzer.model.connections import Connection
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts, connection_waits


def find(facts: Facts) -> Waits:
    """Repeats of each connection's SYN or SYN-ACK, and attempts without an answer."""
    followers = _followers(facts)
    rows = []
    for connection in facts.connections:
        begin = connection.syn_ns
        if begin is None:
            continue
        number = connection.connection_no
        owner = int(facts.setup_of[number])
        first = connection.syn_packet_no or 0
        if unanswered(connection):
            follower = followers.get(number)
            if follower is not None and follower.syn_ns is not None:
                end, last = follower.syn_ns, follower.syn_packet_no or 0
            else:
                end, last = connection.end_ns, connection.last_packet_no
            repeat = connection.retry_packet_nos[-1] if connection.retry_packet_nos else 0
            rows.append((begin, end, number, owner, first, last, repeat))
        elif connection.syn_retransmissions:
            end, repeat = last_repeat(connection, facts)
            answer = connection.syn_ack_packet_no or 0
            rows.append((begin, end, number, owner, first, repeat, answer))
    return connection_waits("syn_retry", rows)


def unanswered(connection: Connection) -> bool:
    """Whether a SYN got no answer at all."""
    return (
        connection.syn_ack_ns is None
        and connection.established_ns is None
        and not connection.refused
        and not connection.client_bytes
        and not connection.server_bytes
    )


def last_repeat(connection: Connection, facts: Facts) -> tuple[int, int]:
    """When a connection request was last repeated before it succeeded, and by which packet.

    The first SYN, where it was not.
    """
    begin = connection.syn_ns
    assert begin is not None
    up = connection.established_ns
    if up is None:
        up = connection.syn_ack_ns if connection.syn_ack_ns is not None else connection.end_ns
    last, packet = begin, connection.syn_packet_no or 0
    for number in connection.retry_packet_nos:
        time = int(facts.packet_time[number - 1])
        if last < time <= up:
            last, packet = time, number
    return last, packet


def _followers(facts: Facts) -> dict[int, Connection]:
    """The attempt that each failed attempt of a set-up gave way to."""
    followers = {}
    for setup in facts.setups:
        chain = [*setup.attempt_nos, setup.connection_no]
        for attempt, follower in itertools.pairwise(chain):
            followers[attempt] = facts.connections[follower]
    return followers
