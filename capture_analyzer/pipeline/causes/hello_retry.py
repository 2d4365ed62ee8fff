"""hello_retry: the server refused the offered key share, which cost a round trip.

From the first ClientHello to the second (RFC 8446, section 4.1.4).
"""

from __future__ import annotations

from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import Facts, connection_waits


def find(facts: Facts) -> Waits:
    """The extra round trip of each connection with a HelloRetryRequest."""
    retried = {
        connection.connection_no
        for connection in facts.connections
        if connection.tls is not None and connection.tls.hello_retry
    }
    if not retried:
        return Waits()
    hellos: dict[int, list[tuple[int, int]]] = {}
    for message in facts.handshake_messages.rows(retried, "client_hello"):
        hello = (message.seen_ns, message.first_packet_no)
        hellos.setdefault(message.connection_no, []).append(hello)
    rows = []
    for number, pair in hellos.items():
        if len(pair) >= 2:
            (begin, first), (end, second) = pair[:2]
            rows.append((begin, end, number, int(facts.handshake_of[number]), first, second, 0))
    return connection_waits("hello_retry", rows)
