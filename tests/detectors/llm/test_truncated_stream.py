"""llm/truncated-stream on tables made by hand: what is cut off by whom, and what is not."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.messages import Message, StreamFacts

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["llm/truncated-stream"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def cut(
    hand_made: ModuleType,
    stream: dict[str, Any] | None = None,
    connection: dict[str, Any] | None = None,
    kinds: tuple[str, ...] = ("role", "content", "content"),
    **values: Any,
) -> Any:
    """Tables with one answer: by default cut off by the server, which closes."""
    facts = StreamFacts(**{"marker_known": True, **(stream or {})})
    return hand_made.tables(
        connections=[hand_made.connection(**(connection or {}))],
        exchanges=[hand_made.exchange(0, 0, 500, kind="sse", stream=facts, **values)],
        events=hand_made.events(*((0, 100 + 10 * n, kind) for n, kind in enumerate(kinds))),
    )


def test_closed(hand_made: ModuleType) -> None:
    (row,) = judge(cut(hand_made))
    assert row.severity == "critical"
    assert row.summary == (
        "A streamed answer of api.example broke off after 2 chunks: the server closed the "
        "connection."
    )
    assert row.measures["silence_max_ns"] == 380 * MS
    assert row.packet_nos == [1, 2, 13]


def test_without_its_marker(hand_made: ModuleType) -> None:
    (row,) = judge(cut(hand_made, complete=True))
    assert row.severity == "critical"
    assert "without the end marker" in row.summary


def test_a_whole_answer_without_the_marker_is_info(hand_made: ModuleType) -> None:
    (row,) = judge(cut(hand_made, {"finish": "stop"}, complete=True))
    assert (row.severity, row.action) == ("info", "")


def test_reset_by_the_server(hand_made: ModuleType) -> None:
    (row,) = judge(cut(hand_made, connection={"reset_by": "server"}, reset=True))
    assert "the server reset it" in row.summary
    assert row.packet_nos == [1, 2, 10, 13]


def test_reset_by_the_client_is_its_own_wish(hand_made: ModuleType) -> None:
    assert not judge(cut(hand_made, connection={"reset_by": "client"}, reset=True))


@pytest.mark.parametrize(("from_client", "fires"), [(True, False), (False, True)])
def test_reset_of_an_http2_stream(hand_made: ModuleType, from_client: bool, fires: bool) -> None:
    tables = cut(hand_made, reset=True, stream_id=3, protocol="h2")
    tables.messages = [
        Message(0, True, 0, 100, "h2", stream_id=3),
        Message(0, False, 0, 100, "h2", stream_id=3),
    ]
    tables.messages[0 if from_client else 1].reset_code = 8
    assert bool(judge(tables)) == fires


@pytest.mark.parametrize(
    "near_miss",
    [
        {"end_ns": None},  # the capture ends first
        {"missing_bytes": 100},
        {"connection": {"missing_bytes": 100}},  # a gap may hide the end
        {"stream": {"ended": True}, "complete": True},
        {"stream": {"marker_known": False}, "complete": True},
        {"stream": {"undecoded": True}, "complete": True},
        {"kinds": ("content", "error"), "complete": True},  # it says that it failed
        {"kinds": ()},
    ],
    ids=str,
)
def test_near_misses(hand_made: ModuleType, near_miss: dict[str, Any]) -> None:
    assert judge(cut(hand_made))
    assert not judge(cut(hand_made, **near_miss))


def test_a_stream_without_marker_can_still_be_cut(hand_made: ModuleType) -> None:
    assert judge(cut(hand_made, {"marker_known": False}))


def test_a_server_is_one_finding(hand_made: ModuleType) -> None:
    facts = [StreamFacts(marker_known=True) for _ in range(3)]
    tables = hand_made.tables(
        connections=[hand_made.connection(), hand_made.connection(1, reset_by="server")],
        exchanges=[
            hand_made.exchange(0, 0, 500, kind="sse", stream=facts[0], complete=True),
            hand_made.exchange(1, 0, 500, kind="sse", stream=facts[1]),
            hand_made.exchange(2, 0, 500, kind="sse", stream=facts[2], connection_no=1, reset=True),
        ],
        events=hand_made.events(*((n, 100, "content") for n in range(3))),
    )
    (row,) = judge(tables)
    assert (row.exchange_nos, row.connection_nos) == ([0, 1, 2], [0, 1])
    assert row.summary == (
        "Three streamed answers of api.example broke off: one by a reset, one with the "
        "connection and one without the end marker."
    )
