"""Requests and responses of HTTP/1.x paired."""

from __future__ import annotations

from typing import Any

import pytest

from capture_analyzer.model.connections import Connection
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.messages import Field, Message
from capture_analyzer.pipeline.exchanges.http1 import Tunnel, find_http1

MS = 1_000_000


def connection(**columns: Any) -> Connection:
    base: dict[str, Any] = {
        "connection_no": 0,
        "transport": "tcp",
        "tcp_stream": 0,
        "client_ip": "192.0.2.1",
        "client_port": 40000,
        "server_ip": "198.51.100.1",
        "server_port": 80,
        "roles_certain": True,
        "start_ns": 0,
        "end_ns": 10_000 * MS,
        "first_packet_no": 1,
        "last_packet_no": 99,
        "packet_count": 99,
    }
    return Connection(**(base | columns))


def message(
    from_client: bool, offset: int, length: int, begin: int, end: int | None, **columns: Any
) -> Message:
    """A message from `begin` to `end` (ms); None = cut."""
    last = begin if end is None else end
    values: dict[str, Any] = {
        "connection_no": 0,
        "from_client": from_client,
        "offset": offset,
        "length": length,
        "protocol": "http/1.1",
        "first_packet_no": begin + 1,
        "last_packet_no": last + 1,
        "seen_ns": begin * MS,
        "start_ns": begin * MS,
        "head_ns": begin * MS,
        "end_ns": None if end is None else end * MS,
        "last_ns": last * MS,
        "complete": end is not None,
    }
    return Message(**(values | columns))


def request(offset: int, begin: int, end: int | None = None, **columns: Any) -> Message:
    columns = {"method": "GET", "target": f"/{begin}"} | columns
    return message(True, offset, 100, begin, begin if end is None else end, **columns)


def response(offset: int, begin: int, end: int | None, **columns: Any) -> Message:
    columns = {"status": 200} | columns
    return message(False, offset, 500, begin, end, **columns)


def find(
    messages: list[Message], fin_ms: int | None = None, **columns: Any
) -> tuple[list[Exchange], list[Tunnel]]:
    fin_ns = None if fin_ms is None else fin_ms * MS
    return find_http1(messages, [connection(**columns)], lambda _: fin_ns)


def shape(exchanges: list[Exchange]) -> list[tuple[str | None, int | None]]:
    """(target, first response packet) of each."""
    return [(x.path, x.response_first_packet_no) for x in exchanges]


def test_one_after_the_other() -> None:
    messages = [request(0, 0), request(100, 50), response(0, 40, 45), response(500, 90, 99)]
    exchanges, tunnels = find(messages)
    assert shape(exchanges) == [("/0", 41), ("/50", 91)]
    assert not tunnels
    first = exchanges[0]
    assert (first.request_start_ns, first.end_ns, first.ttfb_ns) == (0, 45 * MS, 40 * MS)
    assert first.complete
    assert not first.reset
    assert not first.shared_connection


def test_ttfb_ends_where_the_first_byte_is_usable_not_where_it_is_seen() -> None:
    exchanges, _ = find([request(0, 0), response(0, 40, 90, start_ns=70 * MS)])
    assert exchanges[0].response_seen_ns == 40 * MS
    assert exchanges[0].response_start_ns == 70 * MS
    assert exchanges[0].ttfb_ns == 70 * MS


def test_pipelined_requests_share_the_connection() -> None:
    messages = [request(0, 0), request(100, 1), response(0, 40, 45), response(500, 45, 50)]
    exchanges, _ = find(messages)
    assert shape(exchanges) == [("/0", 41), ("/1", 46)]
    assert [x.shared_connection for x in exchanges] == [True, True]


def test_a_request_at_the_instant_of_the_answers_end_does_not_share() -> None:
    exchanges, _ = find([request(0, 0), response(0, 40, 45), request(100, 45)])
    assert [x.shared_connection for x in exchanges] == [False, False]


def test_interim_responses_are_not_the_answer() -> None:
    interim = response(0, 20, 20, status=103)
    messages = [request(0, 0), response(500, 60, 65, interim=[interim])]
    exchanges, _ = find(messages)
    assert exchanges[0].interim_statuses == [103]
    assert exchanges[0].ttfb_ns == 60 * MS
    assert exchanges[0].status == 200


def test_an_early_answer_ends_with_the_request() -> None:
    exchanges, _ = find([request(0, 0, 80), response(0, 30, 35)])
    assert exchanges[0].end_ns == 80 * MS
    assert exchanges[0].ttfb_ns == 30 * MS


def test_an_answer_whose_request_is_not_in_the_capture() -> None:
    exchanges, _ = find([response(0, 3, 9), request(0, 20), response(500, 40, 45)])
    assert shape(exchanges) == [(None, 4), ("/20", 41)]
    orphan = exchanges[0]
    assert orphan.request_start_ns == 3 * MS
    assert orphan.ttfb_ns is None
    assert orphan.request_first_packet_no is None
    assert not orphan.complete


def test_missing_bytes_of_the_server_hold_the_answers_of_earlier_requests() -> None:
    # The answer to the first request lies in the 500 bytes that the capture lacks.
    messages = [request(0, 0), request(100, 50), response(500, 90, 95)]
    exchanges, _ = find(messages)
    assert shape(exchanges) == [("/0", None), ("/50", 91)]
    assert exchanges[0].end_ns is None
    assert not any(x.shared_connection for x in exchanges)


def test_without_missing_bytes_the_same_times_mean_pipelining() -> None:
    messages = [request(0, 0), request(100, 50), response(0, 90, 95)]
    exchanges, _ = find(messages)
    assert shape(exchanges) == [("/0", 91), ("/50", None)]


def test_the_parsers_pairing_comes_first() -> None:
    messages = [
        request(0, 0, pair_no=0),
        request(100, 1, pair_no=1),
        response(0, 40, 45, pair_no=1),
    ]
    exchanges, _ = find(messages)
    assert shape(exchanges) == [("/0", None), ("/1", 41)]


def test_a_cut_answer_has_no_end() -> None:
    exchanges, _ = find([request(0, 0), response(0, 40, None, last_ns=77 * MS)])
    assert exchanges[0].end_ns is None
    assert exchanges[0].last_ns == 77 * MS
    assert not exchanges[0].complete


def test_a_reset_ends_what_was_open() -> None:
    exchanges, _ = find([request(0, 0), response(0, 40, None)], reset_ns=80 * MS)
    assert exchanges[0].end_ns == 80 * MS
    assert exchanges[0].reset


def test_a_reset_behind_a_whole_answer_is_not_its_end() -> None:
    exchanges, _ = find([request(0, 0), response(0, 40, 45)], reset_ns=80 * MS)
    assert exchanges[0].end_ns == 45 * MS
    assert not exchanges[0].reset


def test_the_servers_fin_ends_a_request_without_an_answer() -> None:
    exchanges, _ = find([request(0, 10)], fin_ms=70)
    assert exchanges[0].end_ns == 70 * MS
    assert not exchanges[0].reset


def test_a_fin_before_the_request_does_not() -> None:
    exchanges, _ = find([request(0, 10)], fin_ms=5)
    assert exchanges[0].end_ns is None


def test_a_fin_does_not_end_an_answer_that_the_capture_lacks() -> None:
    messages = [request(0, 0), request(100, 50), response(500, 90, 95)]
    exchanges, _ = find(messages, fin_ms=100)
    assert exchanges[0].end_ns is None


def test_upgrade_opens_a_tunnel() -> None:
    fields = [Field("upgrade", "WebSocket")]
    opener = response(0, 30, 30, status=101, upgrade=True, fields=fields)
    exchanges, tunnels = find([request(0, 0), opener])
    assert exchanges[0].kind == "websocket"
    assert tunnels == [Tunnel(0, client_offset=100, server_offset=500)]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("text/event-stream; charset=utf-8", "sse"),
        ("Text/Event-Stream", "sse"),
        ("text/event-streams", "http"),
        ("text/html", "http"),
    ],
)
def test_the_media_type_tells_the_kind(value: str, kind: str) -> None:
    answer = response(0, 30, 30, fields=[Field("content-type", value)])
    exchanges, _ = find([request(0, 0), answer])
    assert exchanges[0].kind == kind


def test_http2_messages_are_left_alone() -> None:
    exchanges, tunnels = find([request(0, 0, protocol="h2")])
    assert exchanges == []
    assert tunnels == []
