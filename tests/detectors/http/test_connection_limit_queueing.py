"""http/connection-limit-queueing on tables made by hand: full pools, and chains."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding

MS = 1_000_000


def judge(tables: Any, **options: object) -> list[Finding]:
    name = "http/connection-limit-queueing"
    findings, outcomes = run(tables, select=[name], settings={name: options})
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def pool(hand_made: ModuleType, *lanes: tuple[tuple[float, float], ...], **values: Any) -> Any:
    """A connection a lane, with its exchanges one after the other."""
    connections = [
        hand_made.connection(number, syn_ns=-50 * MS, start_ns=-50 * MS, **values)
        for number in range(len(lanes))
    ]
    spans = sorted((begin, end, no) for no, lane in enumerate(lanes) for begin, end in lane)
    exchanges = [
        hand_made.exchange(number, begin, end, connection_no=connection, complete=True)
        for number, (begin, end, connection) in enumerate(spans)
    ]
    return hand_made.tables(connections=connections, exchanges=exchanges)


BUSY = tuple(((0.0, 300.0),) for _ in range(4))


def test_a_full_pool(hand_made: ModuleType) -> None:
    rows = pool(hand_made, *BUSY, ((0, 100), (101, 300)), ((0, 120), (121, 300)))
    (row,) = judge(rows)
    assert row.severity == "warning"
    assert row.measures["queued_max_ns"] == 121 * MS
    assert row.measures["queued_ns"] == 222 * MS
    assert row.estimated_saving_ns == 121 * MS
    assert row.exchange_nos == [6, 7]
    assert row.confidence == 0.7


def test_an_idle_connection_is_left(hand_made: ModuleType) -> None:
    lanes = (*BUSY, ((0, 100), (101, 300)), ((0, 90), (500, 600)))
    assert not judge(pool(hand_made, *lanes))


def test_five_connections_are_not_the_limit(hand_made: ModuleType) -> None:
    lanes = (*BUSY[:3], ((0, 100), (101, 300)), ((0, 120), (121, 300)))
    assert not judge(pool(hand_made, *lanes))
    assert judge(pool(hand_made, *lanes), connections=5)


def test_a_pause_is_no_queue(hand_made: ModuleType) -> None:
    lanes = (*BUSY, ((0, 100), (140, 300)), ((0, 120), (160, 300)))
    assert not judge(pool(hand_made, *lanes))


def test_streams_of_http2_do_not_queue(hand_made: ModuleType) -> None:
    lanes = (*BUSY, ((0, 100), (101, 300)), ((0, 120), (121, 300)))
    assert not judge(pool(hand_made, *lanes, alpn="h2"))


def test_a_connection_that_ends_makes_room_for_none(hand_made: ModuleType) -> None:
    rows = pool(hand_made, *BUSY, ((0, 100), (101, 300)), ((0, 120), (121, 300)))
    rows.connections[0].fin_ns = 90 * MS
    assert not judge(rows)


def test_steady_work_is_no_queue(hand_made: ModuleType) -> None:
    """Six workers, each of which has its next request ready for good."""
    for turns, fires in ((10, True), (30, False)):
        lane = tuple((turn * 50.0, turn * 50.0 + 49.0) for turn in range(turns))
        assert bool(judge(pool(hand_made, *(lane,) * 6))) == fires
