"""tcp_handshake: from the SYN that was answered to the client's ACK, or to the refusal."""

from __future__ import annotations

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts, connection_waits
from capture_analyzer.pipeline.causes.syn_retry import last_repeat


def find(facts: Facts) -> Waits:
    """The handshake of each connection, without its repeats."""
    rows = []
    for connection in facts.connections:
        begin, packet = connection.syn_ns, connection.syn_packet_no or 0
        if begin is None:
            continue
        if connection.refused:
            end, last = connection.reset_ns, connection.last_packet_no
        else:
            end, last = connection.established_ns, connection.established_packet_no or 0
            if end is None:
                end, last = connection.syn_ack_ns, connection.syn_ack_packet_no or 0
        if end is None:
            continue
        if connection.syn_retransmissions and not connection.refused:
            begin, packet = last_repeat(connection, facts)
        number = connection.connection_no
        answer = connection.syn_ack_packet_no or 0
        rows.append((begin, end, number, int(facts.setup_of[number]), packet, last, answer))
    return connection_waits("tcp_handshake", rows)
