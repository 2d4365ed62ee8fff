"""tcp/idle-restart on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["tcp/idle-restart"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def waits(hand_made: ModuleType, kind: str, wait_ms: float) -> Any:
    rows = [(0, False, kind, 1000 * n, 1000 * n + wait_ms) for n in range(3)]
    return hand_made.tables(connections=[hand_made.connection(0)], limits=hand_made.limits(*rows))


def test_three_restarts(hand_made: ModuleType) -> None:
    (row,) = judge(waits(hand_made, "idle_restart", 30))
    assert (row.severity, row.cost_ns, row.estimated_saving_ns) == ("info", None, 90 * MS)
    assert row.summary.replace("\u00a0", " ") == (
        "api.example started over with a small window after idle times, which took three round "
        "trips more, 90 ms in all."
    )
    assert row.count == 3


def test_near_miss_hardly_any_time(hand_made: ModuleType) -> None:
    assert not judge(waits(hand_made, "idle_restart", 5))


def test_near_miss_slow_start_of_a_new_connection(hand_made: ModuleType) -> None:
    assert not judge(waits(hand_made, "congestion_window", 30))
