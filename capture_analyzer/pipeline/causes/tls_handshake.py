"""tls_handshake: from the transport's readiness to that of TLS."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import rows_equal
from capture_analyzer.model.tls_records import ROLE_CODE
from capture_analyzer.model.waits import Waits
from capture_analyzer.pipeline.causes.facts import STEP_NS, Facts, connection_waits


def find(facts: Facts) -> Waits:
    """The TLS handshake of each connection.

    It begins with the ClientHello, or where TCP was ready if that followed at once.
    """
    first, last = _handshake_packets(facts)
    ready = {setup.connection_no: setup.ready_ns for setup in facts.setups}
    rows = []
    for connection in facts.connections:
        tls = connection.tls
        if tls is None or tls.start_ns is None or tls.end_ns is None:
            continue
        number = connection.connection_no
        begin, up = tls.start_ns, connection.established_ns
        if up is not None and 0 < begin - up <= STEP_NS:
            begin = up
        owner = int(facts.setup_of[number])
        end = ready.get(number, tls.end_ns)
        if tls.renegotiations:
            last[number] = _last_packet(facts, number, tls.end_ns)
        rows.append((begin, end, number, owner, first[number], last[number], 0))
    return connection_waits("tls_handshake", rows)


def _handshake_packets(facts: Facts) -> tuple[list[int], list[int]]:
    """For each connection the packets of the first and the last handshake record; 0 = none."""
    records = facts.tls_records
    count = len(facts.connections)
    first: NDArray[np.int64] = np.full(count, np.iinfo(np.int64).max)
    last = np.zeros(count, np.int64)
    chosen = np.flatnonzero(records.role == ROLE_CODE["handshake"])
    owner = records.connection_no[chosen]
    np.minimum.at(first, owner, records.first_packet_no[chosen].astype(np.int64))
    np.maximum.at(last, owner, records.last_packet_no[chosen].astype(np.int64))
    first[first == np.iinfo(np.int64).max] = 0
    return first.tolist(), last.tolist()


def _last_packet(facts: Facts, number: int, end_ns: int) -> int:
    """The packet of the last record of a connection's first handshake."""
    records = facts.tls_records
    part = rows_equal(records.connection_no, number)
    mine = (records.role[part] == ROLE_CODE["handshake"]) & (records.seen_ns[part] <= end_ns)
    return int(records.last_packet_no[part][mine].max(initial=0))
