"""Inference of roles in the cases that the ssl module can't make."""

from __future__ import annotations

import dataclasses

import pytest

from capture_analyzer.protocols.tls.roles import Columns, Head, infer_roles, inferred_alpn

MS = 1_000_000
FINISHED = 53  # with SHA-256


def head(*records: tuple[int, int, int]) -> Head:
    """A direction from (type, length, time in ms); packets are numbered by time."""
    times = [time * MS for _, _, time in records]
    packet_nos = [time for _, _, time in records]
    columns = Columns(
        bytes(kind for kind, _, _ in records),
        [length for _, length, _ in records],
        packet_nos,
        packet_nos,
        times,
        times,
        times,
    )
    return Head(columns, 0, len(records), len(records))


def infer(client, server, *, resumed=False, early_data=False, rtt_ns=30 * MS):
    roles = infer_roles(
        client,
        server,
        hash_bytes=32,
        resumed=resumed,
        early_data=early_data,
        hello_seen_ns=0,
        server_hello_seen_ns=30 * MS,
        server_hello_no=30,
        rtt_ns=rtt_ns,
    )
    for field in dataclasses.fields(roles):
        found = getattr(roles, field.name)
        if isinstance(found, (tuple, range)):
            setattr(roles, field.name, list(found))
    return roles


HELLO = (22, 500, 0)
SERVER = [(22, 120, 30), (20, 1, 30), (23, 38, 30), (23, 1700, 30), (23, 96, 30), (23, 53, 30)]


def test_accepted_early_data_ends_at_end_of_early_data():
    client = head(
        HELLO, (20, 1, 1), (23, 200, 1), (23, 53, 2), (23, 21, 31), (23, 53, 31), (23, 99, 32)
    )
    server = head((22, 120, 30), (23, 27, 30), (23, 53, 30), (23, 900, 45))
    roles = infer(client, server, resumed=True, early_data=True)
    assert roles.client_early == [2, 3]  # one of them as long as a Finished
    assert roles.client_handshake == [4, 5]
    assert roles.client_finished == 5
    assert roles.server_handshake == [1, 2]
    assert roles.server_tickets == []  # 900 bytes behind the Finished answer the early request


def test_rejected_early_data_is_sent_again_behind_the_finished():
    client = head(HELLO, (23, 200, 1), (23, 53, 31), (23, 200, 31))
    roles = infer(client, head(*SERVER), early_data=True)
    assert roles.client_early == [1]
    assert roles.client_handshake == [2]


def test_early_data_whose_end_was_not_captured():
    client = head(HELLO, (23, 200, 1), (23, 300, 40))
    roles = infer(client, head(*SERVER), early_data=True)
    assert roles.client_early == [1]
    assert roles.client_finished is None


def test_half_rtt_tickets_and_settings():
    client = head(HELLO, (23, 53, 31), (23, 300, 32))
    server = head(*SERVER, (23, 230, 30), (23, 230, 30), (23, 57, 30), (23, 500, 90))
    roles = infer(client, server)
    assert roles.server_tickets == [6, 7]
    assert roles.server_handshake == [2, 3, 4, 5]


def test_flight_in_one_record():
    client = head(HELLO, (23, 53, 31), (23, 300, 32))
    server = head((22, 120, 30), (23, 3900, 30), (23, 500, 90))
    roles = infer(client, server)
    assert roles.server_handshake == [1]
    assert roles.server_tickets == []


def test_finished_behind_other_messages_in_one_record():
    roles = infer(head(HELLO, (23, 63, 31), (23, 300, 32)), head(*SERVER))
    assert (roles.client_handshake, roles.exact) == ([1], False)
    roles = infer(
        head(HELLO, (23, 1500, 31), (23, 130, 31), (23, 53, 31), (23, 9, 32)), head(*SERVER)
    )
    assert (roles.client_handshake, roles.exact) == ([1, 2, 3], True)


def test_what_is_too_short_is_no_finished():
    roles = infer(head(HELLO, (23, 40, 31)), head(*SERVER))
    assert roles.client_finished is None


@pytest.mark.parametrize(
    ("length", "when", "behind", "expected"),
    [
        (266, 62, True, [6]),  # OpenSSL's form, a round trip behind the Finished, answer follows
        (274, 62, True, [6]),  # with early data allowed
        (266, 62, False, []),  # it is all that comes: the answer
        (266, 120, True, []),  # too late
        (267, 62, True, []),  # not the form of a ticket
        (60, 62, True, []),
    ],
)
def test_one_ticket_behind_a_request(length, when, behind, expected):
    client = head(HELLO, (23, 53, 31), (23, 300, 32))
    after = [(23, length, when)] + ([(23, 800, 200)] if behind else [])
    assert infer(client, head(*SERVER, *after)).server_tickets == expected


def test_second_ticket_held_by_nagle():
    client = head(HELLO, (23, 53, 31), (23, 300, 32))
    after = [(23, 266, 62), (23, 266, 133), (23, 190, 150), (23, 190, 151)]
    assert infer(client, head(*SERVER, *after)).server_tickets == [6, 7]
    after = [(23, 267, 62), (23, 267, 133), (23, 190, 150)]  # not the form of a ticket
    assert infer(client, head(*SERVER, *after)).server_tickets == []


def test_tickets_before_any_request_have_any_form():
    client = head(HELLO, (23, 53, 31), (23, 300, 100))
    assert infer(client, head(*SERVER, (23, 999, 62), (23, 800, 140))).server_tickets == [6]


def test_alpn_lengths():
    def alpn(length, offered):
        return inferred_alpn(offered, length)

    assert alpn(17 + 4 + 2 + 9, ["h2", "http/1.1"]) == "h2"
    assert alpn(17 + 4 + 2 + 9 + 4, ["h2", "http/1.1"]) == "h2"  # and SNI acknowledged
    assert alpn(17 + 4 + 2 + 15, ["h2", "http/1.1"]) == "http/1.1"
    assert alpn(17 + 4 + 2 + 15, ["http/1.0", "http/1.1"]) is None  # both fit
    assert alpn(17 + 4 + 2, ["h2"]) == ""  # no extension at all
    assert alpn(17 + 4 + 2 + 4, ["h2"]) == ""
    assert alpn(17 + 4 + 2 + 12, ["h2", "http/1.1"]) is None  # something else is in it
    assert alpn(900, ["h2", "http/1.1"]) is None  # the whole flight in one record
    assert alpn(17 + 4 + 2 + 9, []) is None
