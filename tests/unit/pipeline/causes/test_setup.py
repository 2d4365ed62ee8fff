"""Causes of a set-up: lookup, TCP and TLS handshakes with their repeats, the client itself."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.model.connections import TlsSummary
from capture_analyzer.model.lookups import Lookup
from capture_analyzer.model.tls_records import HandshakeMessage

Make = Callable[..., Any]

MS = 1_000_000


@pytest.fixture
def host(hand_made: ModuleType) -> Callable[..., Any]:
    """A connection at the client: SYN at 100 ms, up at 130 ms, seen in packets 11 to 13."""

    def make(number: int = 0, **columns: Any) -> Any:
        base: dict[str, Any] = {
            "syn_ns": 100 * MS,
            "syn_last_ns": 100 * MS,
            "syn_ack_ns": 130 * MS,
            "established_ns": 130 * MS,
            "syn_packet_no": 11,
            "syn_ack_packet_no": 12,
            "established_packet_no": 13,
            "server_side_rtt_ns": 30 * MS,
            "rtt_ns": 30 * MS,
            "vantage_side": "client",
            "end_ns": 9000 * MS,
            "tls": None,
        }
        return hand_made.connection(number, **(base | columns))

    return make


@pytest.fixture
def prompt(story: Make) -> Callable[..., Any]:
    """A story with one exchange: request at `at` ms, answer 80 ms later."""

    def make(at: float, connections: list[Any], number: int = 0, **parts: Any) -> Any:
        arrivals = [(number, "c", at, 100), (number, "s", at + 80, 500)]
        made = story(arrivals, connections=connections, **parts)
        made.exchange((at, at), (at + 80, at + 80), connection=number)
        return made

    return make


def set_up(ledger: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The part of a ledger in front of the 80 ms of round trip and think time."""
    assert ledger[-2:] == [("network_rtt", 30), ("server_think", 50)]
    return ledger[:-2]


def lookup(start: float, end: float | None, number: int = 0, **columns: Any) -> Lookup:
    base: dict[str, Any] = {
        "lookup_no": number,
        "client_ip": "192.0.2.1",
        "server_ip": "192.0.2.53",
        "name": "api.example",
        "type": "A",
        "start_ns": int(start * MS),
        "end_ns": None if end is None else int(end * MS),
        "packet_nos": [3, 4],
    }
    return Lookup(**(base | columns))


def test_the_handshake_is_from_syn_to_ack(prompt: Make, host: Make) -> None:
    s = prompt(131, [host()])
    assert set_up(s.ledger()) == [("tcp_handshake", 30), ("client_idle", 1)]
    table = s.table()
    assert (table.packet_a[0], table.packet_b[0], table.packet_c[0]) == (11, 13, 12)


def test_the_handshake_of_a_connection_without_exchange_is_a_wait_of_its_own(
    story: Make, host: Make
) -> None:
    assert story([], connections=[host()]).waits() == [(-1, "tcp_handshake", 100, 130)]


def test_a_connection_that_stood_ready_costs_its_exchange_nothing(prompt: Make, host: Make) -> None:
    s = prompt(500, [host()])
    assert s.waits("tcp_handshake") == [(-1, "tcp_handshake", 100, 130)]
    assert set_up(s.ledger()) == []


def retried(arrivals_host: Make, **columns: Any) -> Any:
    """A connection whose SYN was sent at 100 ms and again at 1100 ms, in packet 2."""
    base = {
        "syn_last_ns": 1100 * MS,
        "syn_ack_ns": 1130 * MS,
        "established_ns": 1130 * MS,
        "syn_retransmissions": 1,
        "retry_packet_nos": [2],
    }
    return arrivals_host(**(base | columns))


def test_a_repeated_syn_is_syn_retry_up_to_the_repeat(story: Make, host: Make) -> None:
    # Packet 2 is the repeat; payload stands in for the packets around it.
    s = story(
        [(0, "s", 0, 1), (0, "s", 1100, 1), (0, "c", 1131, 100), (0, "s", 1211, 500)],
        connections=[retried(host)],
    )
    s.exchange((1131, 1131), (1211, 1211))
    assert s.ledger()[:3] == [
        ("syn_retry", 1000),
        ("tcp_handshake", 30),
        ("client_idle", 1),
    ]
    table = s.table()
    assert (table.packet_a[0], table.packet_b[0], table.packet_c[0]) == (11, 2, 12)


def test_a_syn_ack_repeated_once_the_client_is_up_delays_nothing(story: Make, host: Make) -> None:
    s = story(
        [(0, "s", 0, 1), (0, "s", 1100, 1), (0, "c", 1131, 100), (0, "s", 1211, 500)],
        connections=[retried(host, syn_ack_ns=130 * MS, established_ns=130 * MS)],
    )
    assert s.waits() == [(-1, "tcp_handshake", 100, 130)]


def test_an_attempt_without_an_answer_counts_until_the_next(prompt: Make, host: Make) -> None:
    dead = host(
        0,
        server_ip="2001:db8::1",
        syn_ns=0,
        syn_ack_ns=None,
        established_ns=None,
        syn_packet_no=1,
    )
    s = prompt(131, [dead, host(1)], number=1)
    assert set_up(s.ledger()) == [
        ("syn_retry", 100),
        ("tcp_handshake", 30),
        ("client_idle", 1),
    ]


def test_a_refused_attempt_is_a_handshake_then_the_clients_pause(prompt: Make, host: Make) -> None:
    refused = host(
        0,
        refused=True,
        syn_ns=0,
        syn_ack_ns=None,
        established_ns=None,
        reset_ns=20 * MS,
        reset_by="server",
    )
    s = prompt(131, [refused, host(1)], number=1)
    assert set_up(s.ledger()) == [
        ("tcp_handshake", 20),
        ("client_idle", 80),
        ("tcp_handshake", 30),
        ("client_idle", 1),
    ]


def test_away_from_the_client_a_pause_behind_a_refusal_is_not_known(
    prompt: Make, host: Make
) -> None:
    refused = host(
        0, refused=True, syn_ns=0, syn_ack_ns=None, established_ns=None, reset_ns=20 * MS
    )
    s = prompt(131, [refused, host(1, vantage_side="middle")], number=1)
    assert set_up(s.ledger())[1] == ("unknown", 80)


def test_a_connection_that_never_came_up_is_a_wait_without_exchange(
    story: Make, host: Make
) -> None:
    dead = host(syn_ack_ns=None, established_ns=None, end_ns=7100 * MS)
    assert story([], connections=[dead]).waits() == [(-1, "syn_retry", 100, 7100)]


def test_the_lookup_is_dns(prompt: Make, host: Make) -> None:
    s = prompt(131, [host(lookup_no=0)], lookups=[lookup(40, 99.5)])
    assert set_up(s.ledger())[:2] == [("dns", 60), ("tcp_handshake", 30)]
    table = s.table()
    assert (table.packet_a[0], table.packet_b[0]) == (3, 4)


def test_the_client_that_waits_behind_the_answer_is_idle(prompt: Make, host: Make) -> None:
    s = prompt(131, [host(lookup_no=0)], lookups=[lookup(40, 80)])
    assert set_up(s.ledger())[:2] == [("dns", 40), ("client_idle", 20)]


def test_away_from_the_client_a_part_of_that_wait_is_on_the_way(prompt: Make, host: Make) -> None:
    there = host(lookup_no=0, vantage_side="middle", client_side_rtt_ns=15 * MS)
    s = prompt(131, [there], lookups=[lookup(40, 80)])
    assert set_up(s.ledger())[:3] == [("dns", 40), ("network_rtt", 15), ("client_idle", 5)]


def test_where_that_way_was_not_measured_the_wait_is_not_known(prompt: Make, host: Make) -> None:
    s = prompt(131, [host(lookup_no=0, vantage_side="middle")], lookups=[lookup(40, 80)])
    assert set_up(s.ledger())[:2] == [("dns", 40), ("unknown", 20)]


def test_tls_is_its_own_handshake(prompt: Make, host: Make) -> None:
    tls = TlsSummary(version="TLS 1.3", start_ns=int(130.5 * MS), end_ns=190 * MS)
    s = prompt(195, [host(tls=tls)])
    assert set_up(s.ledger()) == [
        ("tcp_handshake", 30),
        ("tls_handshake", 60),
        ("client_idle", 5),
    ]


def test_a_client_that_is_late_with_its_hello_is_idle(prompt: Make, host: Make) -> None:
    tls = TlsSummary(version="TLS 1.3", start_ns=150 * MS, end_ns=190 * MS)
    s = prompt(190, [host(tls=tls)])
    assert set_up(s.ledger()) == [
        ("tcp_handshake", 30),
        ("client_idle", 20),
        ("tls_handshake", 40),
    ]


def hello(seen_ms: float, packet: int, kind: str = "client_hello") -> HandshakeMessage:
    at = int(seen_ms * MS)
    return HandshakeMessage(0, True, kind, 500, packet, packet, at, at)


def test_a_hello_retry_costs_what_lies_between_the_hellos(prompt: Make, host: Make) -> None:
    tls = TlsSummary(version="TLS 1.3", hello_retry=True, start_ns=int(130.5 * MS), end_ns=190 * MS)
    messages = [hello(130.5, 21), hello(150, 22, "server_hello"), hello(161, 23)]
    s = prompt(190, [host(tls=tls)], handshakes=messages)
    assert set_up(s.ledger()) == [
        ("tcp_handshake", 30),
        ("tls_handshake", 0.5),
        ("hello_retry", 30.5),
        ("tls_handshake", 29),
    ]
    table = s.table()
    assert (table.packet_a[0], table.packet_b[0]) == (21, 23)


def test_two_hellos_without_a_retry_request_are_none(prompt: Make, host: Make) -> None:
    tls = TlsSummary(version="TLS 1.3", start_ns=int(130.5 * MS), end_ns=190 * MS)
    s = prompt(190, [host(tls=tls)], handshakes=[hello(130.5, 21), hello(161, 23)])
    assert s.waits("hello_retry") == []
