"""Set-up of exchanges: which of it belongs to an exchange, and from when on."""

from __future__ import annotations

from typing import Any

import pytest

from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.model.exchanges import Exchange, Exchanges
from capture_analyzer.model.lookups import Lookup
from capture_analyzer.pipeline.join import Setup, join
from capture_analyzer.pipeline.timeline import add_phases

MS = 1_000_000


def connection(number: int = 0, syn: int | None = 100, **columns: Any) -> Connection:
    """A connection whose handshake took 30 ms; instants in ms."""
    base: dict[str, Any] = {
        "connection_no": number,
        "transport": "tcp",
        "tcp_stream": number,
        "client_ip": "192.0.2.1",
        "client_port": 40000 + number,
        "server_ip": "198.51.100.1",
        "server_port": 443,
        "roles_certain": True,
        "start_ns": 0,
        "end_ns": 0,
        "first_packet_no": 1,
        "last_packet_no": 1,
        "packet_count": 1,
    }
    if syn is not None:
        base |= {
            "syn_ns": syn * MS,
            "syn_ack_ns": (syn + 30) * MS,
            "established_ns": (syn + 30) * MS,
            "rtt_ns": 30 * MS,
        }
    return Connection(**(base | columns))


def failed(number: int, syn: int, **columns: Any) -> Connection:
    """A connection attempt that nothing answered."""
    nothing = {"syn_ack_ns": None, "established_ns": None, "rtt_ns": None}
    return connection(number, syn, **(nothing | columns))


def exchange(request: int, number: int = 0, **columns: Any) -> Exchange:
    """An exchange whose request was sent at once, and answered 50 ms later."""
    base: dict[str, Any] = {
        "exchange_no": 0,
        "connection_no": number,
        "stream_id": None,
        "protocol": "http/1.1",
        "kind": "http",
        "inferred": False,
        "start_ns": request * MS,
        "request_start_ns": request * MS,
        "request_end_ns": request * MS,
        "response_start_ns": (request + 50) * MS,
        "end_ns": (request + 60) * MS,
        "last_ns": (request + 60) * MS,
        "request_first_packet_no": 9,
    }
    return Exchange(**(base | columns))


def lookup(number: int, start: int, end: int | None, **columns: Any) -> Lookup:
    base: dict[str, Any] = {
        "lookup_no": number,
        "client_ip": "192.0.2.1",
        "server_ip": "192.0.2.53",
        "name": "api.example",
        "type": "A",
        "start_ns": start * MS,
        "end_ns": None if end is None else end * MS,
    }
    return Lookup(**(base | columns))


def joined(
    exchanges: list[Exchange], connections: list[Connection], lookups: list[Lookup] | None = None
) -> list[Setup]:
    table, setups = join(Exchanges.of(exchanges), connections, lookups or [])
    add_phases(table, setups)
    exchanges[:] = table
    for x in exchanges:
        parts = [x.phases.dns_ns, x.phases.connect_ns, x.phases.tls_ns, x.phases.idle_ns]
        parts += [x.phases.send_ns, x.phases.wait_ns, x.phases.receive_ns]
        assert sum(part or 0 for part in parts) == (x.end_ns or x.last_ns) - x.start_ns
        assert all(part is None or part >= 0 for part in parts)
    return setups


def test_a_prompt_first_request_carries_the_set_up() -> None:
    row = exchange(131)
    (setup,) = joined([row], [connection()])
    assert row.start_ns == 100 * MS
    assert row.carries_setup
    assert row.phases.connect_ns == 30 * MS
    assert row.phases.idle_ns == MS
    assert row.phases.dns_ns is None
    assert row.phases.tls_ns is None
    assert setup.ready_ns == 130 * MS


@pytest.mark.parametrize(("request_ms", "carries"), [(180, True), (181, False)])
def test_prompt_is_within_50_ms(request_ms: int, carries: bool) -> None:
    row, host = exchange(request_ms), connection()
    joined([row], [host])
    assert row.carries_setup == carries
    assert host.preconnected != carries
    assert row.start_ns == (100 if carries else request_ms) * MS


def test_prompt_is_within_a_long_round_trip() -> None:
    row = exchange(400)
    host = connection(established_ns=300 * MS, rtt_ns=200 * MS)
    joined([row], [host])
    assert row.carries_setup


def test_only_the_first_exchange_carries_it() -> None:
    second, first = exchange(200), exchange(131)
    rows = [second, first]
    joined(rows, [connection()])
    assert rows == [first, second]
    assert [x.exchange_no for x in rows] == [0, 1]
    assert [x.carries_setup for x in rows] == [True, False]


def test_numbers_go_by_first_request_byte_then_connection() -> None:
    rows = [exchange(200, 1), exchange(200, 0), exchange(150, 1)]
    joined(rows, [connection(0), connection(1)])
    assert [(x.request_start_ns // MS, x.connection_no) for x in rows] == [
        (150, 1),
        (200, 0),
        (200, 1),
    ]


def test_tls_is_between_connect_and_idle() -> None:
    row = exchange(200)
    tls = TlsSummary(version="TLS 1.3", start_ns=131 * MS, end_ns=190 * MS)
    joined([row], [connection(tls=tls)])
    assert (row.phases.connect_ns, row.phases.tls_ns, row.phases.idle_ns) == (
        30 * MS,
        60 * MS,
        10 * MS,
    )


def test_early_data_ends_the_set_up_at_the_request() -> None:
    row = exchange(132)
    tls = TlsSummary(version="TLS 1.3", start_ns=131 * MS, end_ns=190 * MS)
    joined([row], [connection(tls=tls)])
    assert (row.phases.connect_ns, row.phases.tls_ns, row.phases.idle_ns) == (
        30 * MS,
        2 * MS,
        0,
    )


def test_tls_12_away_from_the_client_has_a_way_to_go() -> None:
    # Seen at the server: its Finished at 190, the request a round trip of 60 ms later.
    tls = TlsSummary(version="TLS 1.2", resumed=False, start_ns=131 * MS, end_ns=190 * MS)
    row = exchange(251)
    joined([row], [connection(tls=tls, client_side_rtt_ns=60 * MS, rtt_ns=60 * MS)])
    assert row.phases.tls_ns == 120 * MS
    assert row.phases.idle_ns == MS


def test_without_a_syn_the_connection_was_there_before() -> None:
    row, host = exchange(131), connection(syn=None)
    assert joined([row], [host]) == []
    assert host.preconnected
    assert row.start_ns == row.request_start_ns


def test_a_request_that_is_not_in_the_capture_has_no_set_up() -> None:
    row = exchange(131, request_first_packet_no=None)
    assert joined([row], [connection()]) == []
    assert not row.carries_setup


def test_the_lookup_before_the_syn_belongs_to_it() -> None:
    row = exchange(131)
    joined([row], [connection(lookup_no=0)], [lookup(0, 40, 99)])
    assert row.start_ns == 40 * MS
    assert row.phases.dns_ns == 60 * MS
    assert row.lookup_no == 0


def test_a_name_known_for_a_while_does_not() -> None:
    row = exchange(131)
    joined([row], [connection(lookup_no=0)], [lookup(0, 0, 49)])
    assert row.start_ns == 100 * MS
    assert row.lookup_no is None
    assert row.phases.dns_ns is None


def test_the_other_address_type_asked_at_once_counts() -> None:
    row = exchange(131)
    rows = [lookup(0, 10, 20), lookup(1, 10, 99, type="AAAA")]
    (setup,) = joined([row], [connection(lookup_no=0)], rows)
    assert row.start_ns == 10 * MS
    assert setup.dns_end_ns == 99 * MS
    assert [x.lookup_no for x in setup.lookups] == [0, 1]


def test_an_unanswered_question_is_what_the_client_waited_for() -> None:
    # A is answered at once, AAAA never: the resolver library gives up after five seconds.
    row = exchange(5131)
    rows = [lookup(0, 90, 95, connection_nos=[0]), lookup(1, 90, None, type="AAAA")]
    (setup,) = joined([row], [connection(syn=5090, lookup_no=0)], rows)
    assert row.start_ns == 90 * MS
    assert setup.dns_end_ns == 5090 * MS


def test_an_unanswered_question_is_awaited_once_only() -> None:
    rows = [exchange(131), exchange(3131, 1)]
    lookups = [lookup(0, 90, 99, connection_nos=[0, 1]), lookup(1, 90, None, type="AAAA")]
    hosts = [connection(0, lookup_no=0), connection(1, 3100, lookup_no=0)]
    joined(rows, hosts, lookups)
    assert [x.start_ns // MS for x in rows] == [90, 3100]


def test_failed_questions_of_the_search_list_count() -> None:
    row = exchange(131)
    rows = [
        lookup(0, 20, 40, name="api.example.ns.svc.cluster.local", rcode="NXDOMAIN"),
        lookup(1, 41, 60, name="api.example.svc.cluster.local", rcode="NXDOMAIN"),
        lookup(2, 61, 99),
    ]
    (setup,) = joined([row], [connection(lookup_no=2)], rows)
    assert row.start_ns == 20 * MS
    assert [x.lookup_no for x in setup.lookups] == [0, 1, 2]


def test_questions_for_other_names_or_of_others_do_not() -> None:
    row = exchange(131)
    rows = [
        lookup(0, 20, 98, name="other.example"),
        lookup(1, 20, 98, client_ip="192.0.2.9"),
        lookup(2, 20, 98, name="xapi.example"),
        lookup(3, 61, 99),
    ]
    joined([row], [connection(lookup_no=3)], rows)
    assert row.start_ns == 61 * MS


def test_a_failed_attempt_on_another_address_of_the_name_belongs_to_it() -> None:
    row = exchange(381, 1)
    hosts = [
        failed(0, 100, server_ip="2001:db8::1", server_name="api.example"),
        connection(1, 350, server_name="api.example"),
    ]
    joined([row], hosts)
    assert row.start_ns == 100 * MS
    assert row.setup_connection_nos == [0]
    assert row.phases.connect_ns == 280 * MS


@pytest.mark.parametrize(
    "change",
    [
        {"server_port": 80},
        {"server_ip": "198.51.100.9", "server_name": "other.example"},
        {"client_ip": "192.0.2.9"},
        {"syn_ns": -2901 * MS},
        {"syn_ns": 101 * MS},
    ],
)
def test_other_failed_attempts_do_not(change: dict[str, Any]) -> None:
    row = exchange(131, 1)
    hosts = [failed(0, 50, **change), connection(1, 100, server_name="api.example")]
    joined([row], hosts)
    assert row.setup_connection_nos == []
    assert row.start_ns == 100 * MS


def test_an_attempt_3_s_before_still_belongs() -> None:
    row = exchange(3131, 1)
    joined([row], [failed(0, 100, refused=True, syn_ack_ns=None), connection(1, 3100)])
    assert row.start_ns == 100 * MS


def test_an_attempt_belongs_to_one_connection() -> None:
    rows = [exchange(231, 1), exchange(331, 2)]
    joined(rows, [failed(0, 100), connection(1, 200), connection(2, 300)])
    assert [x.setup_connection_nos for x in rows] == [[0], []]


def test_the_lookup_lies_before_the_first_attempt() -> None:
    row = exchange(381, 1)
    hosts = [
        failed(0, 100, server_ip="2001:db8::1", server_name="api.example"),
        connection(1, 350, server_name="api.example", lookup_no=0),
    ]
    joined([row], hosts, [lookup(0, 40, 99)])
    assert row.start_ns == 40 * MS
    assert row.phases.dns_ns == 60 * MS
    assert row.phases.connect_ns == 280 * MS


def test_refused_at_the_last_attempt_is_no_exchange() -> None:
    assert joined([], [failed(0, 100, refused=True)]) == []
