"""http/server-errors on tables made by hand: shares, severities, wording."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding


def judge(tables: Any, **options: object) -> list[Finding]:
    findings, outcomes = run(
        tables, select=["http/server-errors"], settings={"http/server-errors": options}
    )
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def answers(hand_made: ModuleType, *statuses: int | None) -> Any:
    return hand_made.tables(
        connections=[hand_made.connection()],
        exchanges=[
            hand_made.exchange(n, 100 * n, 100 * n + 50, status=status)
            for n, status in enumerate(statuses)
        ],
    )


@pytest.mark.parametrize(
    ("failed", "total", "severity"),
    [
        (1, 1, "info"),  # a single one is never more
        (1, 30, "info"),
        (2, 40, "info"),  # not above 5 %
        (3, 40, "warning"),
        (2, 5, "warning"),
        (2, 4, "critical"),
        (2, 2, "critical"),
    ],
)
def test_severity(hand_made: ModuleType, failed: int, total: int, severity: str) -> None:
    (row,) = judge(answers(hand_made, *[500] * failed, *[200] * (total - failed)))
    assert row.severity == severity
    assert bool(row.action) == (severity != "info")


def test_option(hand_made: ModuleType) -> None:
    (row,) = judge(answers(hand_made, 500, 500, *[200] * 8), share=0.2)
    assert row.severity == "info"


@pytest.mark.parametrize("status", [None, 101, 200, 304, 404, 429, 499])
def test_near_misses(hand_made: ModuleType, status: int | None) -> None:
    assert not judge(answers(hand_made, status, status, status))


def test_exchanges_without_an_answer_are_not_counted(hand_made: ModuleType) -> None:
    (row,) = judge(answers(hand_made, 503, 503, 200, 200, None, None, None))
    assert row.measures["answered"] == 4
    assert row.severity == "critical"


def test_what_it_says(hand_made: ModuleType) -> None:
    (row,) = judge(answers(hand_made, 503, 502, 500, 500, *[200] * 16))
    assert row.summary == (
        "Four of 20 requests to api.example failed with status 500 twice, 502 and 503."
    )
    assert "502 comes from a proxy" in row.advice
    assert "504" not in row.advice
    assert row.exchange_nos == [0, 1, 2, 3]
    assert row.measures["status_500"] == 2
    assert row.cost_ns is None


def test_servers_are_apart(hand_made: ModuleType) -> None:
    tables = answers(hand_made, 500, 500, 200, 200)
    tables.connections.append(hand_made.connection(1, server_name="b.example"))
    for number in (1, 2):
        tables.exchanges.columns.connection_no[number] = 1
        tables.exchanges[number].connection_no = 1
    rows = judge(tables)
    assert {tuple(row.exchange_nos) for row in rows} == {(0,), (1,)}
    assert {row.severity for row in rows} == {"info"}
