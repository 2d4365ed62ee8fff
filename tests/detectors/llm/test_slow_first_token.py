"""llm/slow-first-token on tables made by hand: the objective, the split, who is blamed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.messages import StreamFacts

MS = 1_000_000


def judge(tables: Any, **options: object) -> list[Finding]:
    findings, outcomes = run(
        tables, select=["llm/slow-first-token"], settings={"llm/slow-first-token": options}
    )
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def late(hand_made: ModuleType, *parts: tuple[float, str], rest_ms: float = 1000) -> Any:
    """Tables with one answer whose first token took these parts (ms, cause)."""
    entries, at = [], 0.0
    for ms, cause in parts:
        entries.append((0, at, at + ms, cause))
        at += ms
    exchange = hand_made.exchange(
        0, 0, at + rest_ms, kind="sse", stream=StreamFacts(), ttft_ns=round(at * MS)
    )
    return hand_made.tables(
        connections=[hand_made.connection()],
        exchanges=[exchange],
        events=hand_made.events((0, at / 2, "role"), (0, at, "content")),
        ledger=hand_made.ledger(*entries, (0, at, at + rest_ms, "generation")),
    )


@pytest.mark.parametrize(("ms", "fires"), [(1970, False), (1971, True), (9000, True)])
def test_objective(hand_made: ModuleType, ms: float, fires: bool) -> None:
    tables = late(hand_made, (30, "network_rtt"), (ms, "generation"))
    assert bool(judge(tables)) == fires


def test_objective_is_an_option(hand_made: ModuleType) -> None:
    tables = late(hand_made, (30, "network_rtt"), (700, "server_think"))
    assert not judge(tables)
    assert judge(tables, objective_ms="500")


def test_a_long_answer_with_a_quick_start_is_none(hand_made: ModuleType) -> None:
    assert not judge(late(hand_made, (300, "generation"), rest_ms=60_000))


def test_an_answer_without_generated_content_is_none(hand_made: ModuleType) -> None:
    tables = late(hand_made, (3000, "generation"))
    tables.exchanges.columns.ttft_ns[0] = NO_TIME
    assert not judge(tables)


def test_split(hand_made: ModuleType) -> None:
    (row,) = judge(
        late(
            hand_made,
            (5, "request_send"),
            (30, "network_rtt"),
            (400, "server_think"),
            (2000, "generation"),
            (65, "record_wait"),
        )
    )
    assert row.summary.replace("\u00a0", " ") == (
        "The first token of an answer of api.example took 2.50 s, 2.40 s of it the server’s."
    )
    assert row.cost_ns == 2400 * MS
    parts: dict[str, Any] = {n: row.measures[n] for n in row.measures if n.endswith("_ns")}
    assert parts["generation_ns"] == 2000 * MS
    assert parts["server_think_ns"] == 400 * MS
    assert parts["record_wait_ns"] == 65 * MS
    assert (
        sum(
            value
            for name, value in parts.items()
            if name not in ("objective_ns", "ttft_min_ns", "ttft_max_ns")
        )
        == parts["ttft_max_ns"]
        == 2500 * MS
    )
    assert "the model was slow to begin" in row.advice
    assert row.packet_nos == [1, 2, 12]


def test_a_late_head_is_told_apart(hand_made: ModuleType) -> None:
    (row,) = judge(late(hand_made, (30, "network_rtt"), (2400, "server_think")))
    assert "The head of the answer itself took" in row.advice
    assert row.severity == "critical"


@pytest.mark.parametrize("cause", ["loss_recovery", "record_wait", "request_send"])
def test_the_server_is_not_blamed_for_the_rest(hand_made: ModuleType, cause: str) -> None:
    (row,) = judge(late(hand_made, (500, "server_think"), (2500, cause)))
    assert row.measures["blamed"] != "server"
    assert row.cost_ns == 2500 * MS
    assert "owner" not in row.action


def test_unknown_time_has_no_cost(hand_made: ModuleType) -> None:
    (row,) = judge(late(hand_made, (500, "server_think"), (2500, "unknown")))
    assert (row.cost_ns, row.severity) == (0, "warning")


def test_a_server_is_one_finding(hand_made: ModuleType) -> None:
    tables = hand_made.tables(
        connections=[hand_made.connection()],
        exchanges=[
            hand_made.exchange(n, 0, 9000, kind="sse", stream=StreamFacts(), ttft_ns=ttft * MS)
            for n, ttft in enumerate((2500, 300, 4000))
        ],
        events=hand_made.events((0, 2500, "content"), (1, 300, "content"), (2, 4000, "content")),
        ledger=hand_made.ledger(
            *((n, 0, 9000, "generation") for n in range(1)),
            (1, 0, 300, "generation"),
            (2, 0, 4000, "generation"),
        ),
    )
    (row,) = judge(tables)
    assert (row.exchange_nos, row.count, row.measures["answers_streamed"]) == ([0, 2], 2, 3)
    assert row.summary.replace("\u00a0", " ").startswith(
        "The first tokens of two answers of api.example took 2.50 to 4.00 s,"
    )
