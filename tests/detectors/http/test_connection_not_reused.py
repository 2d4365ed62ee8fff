"""http/connection-not-reused on tables made by hand: what could have been used, and what not."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.exchanges import Exchanges, Phases
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.messages import Field
from capture_analyzer.model.packets import ACK, FIN

MS = 1_000_000


def judge(tables: Any, **options: object) -> list[Finding]:
    findings, outcomes = run(
        tables,
        select=["http/connection-not-reused"],
        settings={"http/connection-not-reused": options},
    )
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def opened(hand_made: ModuleType, *spans: tuple[float, float], **values: Any) -> Any:
    """A connection an exchange; set-up takes the first 40 ms of each."""
    connections = [
        hand_made.connection(
            number,
            start_ns=round(begin * MS),
            syn_ns=round(begin * MS),
            rtt_ns=40 * MS,
            **values,
        )
        for number, (begin, _) in enumerate(spans)
    ]
    exchanges = [
        hand_made.exchange(
            number,
            begin,
            end,
            connection_no=number,
            request_start_ns=round((begin + 40) * MS),
            response_seen_ns=round(end * MS),
            carries_setup=True,
            complete=True,
            phases=Phases(connect_ns=40 * MS),
        )
        for number, (begin, end) in enumerate(spans)
    ]
    return hand_made.tables(connections=connections, exchanges=exchanges)


def closed(tables: Any, number: int, at_ms: float, *, client: bool, packet: int) -> None:
    tables.connections[number].fin_ns = round(at_ms * MS)
    tables.packets.flags[packet] = ACK | FIN
    tables.packets.from_client[packet] = client
    tables.packets.connection_no[packet] = number


def test_an_idle_one(hand_made: ModuleType) -> None:
    (row,) = judge(opened(hand_made, (0, 100), (200, 300)))
    assert row.severity == "info"
    assert row.estimated_saving_ns == 40 * MS
    assert row.exchange_nos == [1]
    assert row.measures["idle_ones_left"] == 1


def test_three_are_a_warning(hand_made: ModuleType) -> None:
    rows = opened(hand_made, (0, 100), (200, 300), (400, 500), (600, 700))
    (row,) = judge(rows)
    assert (row.severity, row.count) == ("warning", 3)
    assert row.action
    assert judge(rows, repeats=4)[0].severity == "info"


def test_one_spare_connection_serves_one_request_at_a_time(hand_made: ModuleType) -> None:
    (row,) = judge(opened(hand_made, (0, 100), (200, 300), (201, 300), (202, 300)))
    assert row.count == 1


@pytest.mark.parametrize("what", ["busy", "taken", "old", "prompt", "other", "closing", "gone"])
def test_near_misses(hand_made: ModuleType, what: str) -> None:
    rows = opened(hand_made, (0, 250 if what == "busy" else 100), (200, 300))
    options = {}
    if what == "taken":  # another request went out on it just then
        values = {"complete": True, "response_seen_ns": 290 * MS}
        another = hand_made.exchange(2, 210, 290, **values)
        rows.exchanges = Exchanges.of([*rows.exchanges, another])
    elif what == "old":
        options = {"idle_s": 0}
    elif what == "prompt":  # its set-up cost nobody anything
        rows.exchanges[1].carries_setup = False
    elif what == "other":
        rows.connections[1].server_name = "else.example"
    elif what == "closing":  # the FIN was on its way
        rows.connections[0].fin_ns = 250 * MS
    elif what == "gone":  # the server had closed it as idle
        closed(rows, 0, 205, client=False, packet=7)
    assert not judge(rows, **options)


@pytest.mark.parametrize("client", [True, False])
def test_closed_behind_the_answer(hand_made: ModuleType, client: bool) -> None:
    rows = opened(hand_made, (0, 100), (200, 300))
    closed(rows, 0, 101, client=client, packet=7)
    (row,) = judge(rows)
    assert row.measures["closed_by_client" if client else "closed_by_server"] == 1
    assert row.confidence == 0.7
    assert 8 in row.packet_nos
    assert not judge(rows, closed_s=0)


def test_who_asked_for_the_end_counts(hand_made: ModuleType) -> None:
    rows = opened(hand_made, (0, 100), (200, 300))
    closed(rows, 0, 101, client=True, packet=7)
    rows.exchanges[0].response_fields = [Field("connection", "close")]
    (row,) = judge(rows)
    assert row.measures["closed_by_server"] == 1
    assert row.confidence == 0.9


def test_http2_need_not_be_idle(hand_made: ModuleType) -> None:
    rows = opened(hand_made, (0, 100), (200, 300), alpn="h2")
    values = {"stream_id": 3, "response_seen_ns": 160 * MS, "complete": True}
    another = hand_made.exchange(2, 150, 400, **values)
    rows.exchanges = Exchanges.of([*rows.exchanges, another])
    assert judge(rows)


def test_a_websocket_wants_its_own(hand_made: ModuleType) -> None:
    rows = opened(hand_made, (0, 100), (200, 300))
    rows.exchanges[1].status = 101
    assert not judge(rows)


def test_a_tunnel_is_not_spare(hand_made: ModuleType) -> None:
    rows = opened(hand_made, (0, 100), (200, 300))
    rows.exchanges[0].method = "CONNECT"
    assert not judge(rows)
