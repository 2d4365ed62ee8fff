"""The steps of TLS handshakes, as detectors compare them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME, rows_equal
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import ROLE_CODE


@quick_dataclass
class Handshake:
    """When the steps of a handshake were seen; None = not captured, or not told.

    Attributes:
        connection: its connection.
        hello_ns: the ClientHello that was answered.
        server_hello_ns: the ServerHello.
        certificate_ns: the first byte of the Certificate, where it could be read.
        flight_ns: all of the server's flight complete.
        client_ns: the client went on: ClientKeyExchange, or its Finished (TLS 1.3).
        client_done_ns: the last of the client's handshake records.
        answer_ns: the server's first record behind it: its Finished, a ticket ...
        answer_is_data: that record holds application data, which may have had to wait for the
            application.
        packets: packet of each of these steps, by their names.
        flight_bytes: of the server's stream up to the end of its flight.
        flight_first_ns: the first byte of that.
    """

    connection: Connection
    hello_ns: int | None = None
    server_hello_ns: int | None = None
    certificate_ns: int | None = None
    flight_ns: int | None = None
    client_ns: int | None = None
    client_done_ns: int | None = None
    answer_ns: int | None = None
    answer_is_data: bool = False
    packets: dict[str, int] = dataclasses.field(default_factory=dict)
    flight_bytes: int = 0
    flight_first_ns: int | None = None


def handshakes_of(
    tables: Tables, numbers: Iterable[int], *, hellos_only: bool = False
) -> list[Handshake]:
    """The handshakes of these connections, which have TLS, by number.

    Args:
        tables: the facts.
        numbers: of the connections.
        hellos_only: leave out what the records say: the flight's end and size, the answer.
    """
    found = {number: Handshake(tables.connections[number]) for number in sorted(set(numbers))}
    if not found:
        return []
    for message in tables.handshakes_of(found):
        shake = found[message.connection_no]
        kind, complete, packet = message.type, message.complete_ns, message.last_packet_no
        if kind == "client_hello" and shake.server_hello_ns is None:
            shake.hello_ns, shake.packets["hello"] = message.seen_ns, message.first_packet_no
        elif kind == "server_hello" and shake.server_hello_ns is None:
            shake.server_hello_ns, shake.packets["server_hello"] = message.seen_ns, packet
        elif message.from_client:
            continue
        elif kind == "certificate" and shake.certificate_ns is None:
            shake.certificate_ns = message.seen_ns
            shake.packets["certificate"] = message.first_packet_no
        elif kind == "server_hello_done" and shake.flight_ns is None:
            shake.flight_ns, shake.packets["flight"] = complete, packet
    # The client's messages come first in the table, so its first hello is kept until here.
    _last_hellos(tables, found)
    if not hellos_only:
        for shake in found.values():
            _add_records(tables, shake)
    return list(found.values())


def _last_hellos(tables: Tables, found: dict[int, Handshake]) -> None:
    """Behind a HelloRetryRequest it is the second ClientHello that the ServerHello answers."""
    for message in tables.handshakes_of(found):
        shake = found[message.connection_no]
        if (
            message.type == "client_hello"
            and shake.server_hello_ns is not None
            and message.seen_ns <= shake.server_hello_ns
        ):
            shake.hello_ns, shake.packets["hello"] = message.seen_ns, message.first_packet_no


def _add_records(tables: Tables, shake: Handshake) -> None:
    """What the records say: the flight's end where it is encrypted, its size, the answer."""
    records = tables.tls_records
    number = shake.connection.connection_no
    part = rows_equal(records.connection_no, number)
    shaking = records.role[part] == ROLE_CODE["handshake"]
    client = records.from_client[part]
    seen, complete = records.seen_ns[part], records.complete_ns[part]
    server = np.flatnonzero(shaking & ~client & (complete != NO_TIME))
    if not len(server):
        return
    end_ns = shake.connection.tls.end_ns if shake.connection.tls is not None else None
    mine = np.flatnonzero(shaking & client & (seen <= (seen.max() if end_ns is None else end_ns)))
    if len(mine):
        done = int(mine[seen[mine].argmax()])
        shake.client_done_ns = int(seen[done])
        shake.packets["client_done"] = int(records.last_packet_no[part][done])
        behind = np.flatnonzero(~client & (seen > shake.client_done_ns))
        if len(behind):
            shake.answer_ns = int(seen[behind[0]])
            shake.answer_is_data = int(records.role[part][behind[0]]) == ROLE_CODE["application"]
            shake.packets["answer"] = int(records.first_packet_no[part][behind[0]])
    shake.flight_first_ns = int(seen[server[0]])
    if shake.flight_ns is not None:
        server = server[complete[server] <= shake.flight_ns]
    elif shake.connection.tls is None or shake.connection.tls.version != "TLS 1.3":
        return
    if not len(server):
        return
    end = int(server[-1])
    if shake.flight_ns is None:
        shake.flight_ns = int(complete[end])
        shake.packets["flight"] = int(records.last_packet_no[part][end])
    shake.flight_bytes = int(records.offset[part][end] + records.length[part][end]) + 5
    answers = np.flatnonzero(shaking & client & (seen >= shake.flight_ns))
    if len(answers):
        answer = int(answers[seen[answers].argmin()])
        shake.client_ns = int(seen[answer])
        shake.packets["client"] = int(records.first_packet_no[part][answer])
