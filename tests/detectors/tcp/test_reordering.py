"""tcp/reordering on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["tcp/reordering"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def overtaken(hand_made: ModuleType, late_ms: float, kind: str = "reordering") -> Any:
    return hand_made.tables(
        connections=[hand_made.connection(0)],
        exchanges=[hand_made.exchange(0, 0, 200)],
        holes=hand_made.holes((0, kind, 100, 100 + late_ms, 12, 20)),
        ledger=hand_made.ledger(
            (0, 0, 100, "transfer"),
            (0, 100, 100 + late_ms, kind if kind == "reordering" else "loss_recovery"),
            (0, 100 + late_ms, 200, "transfer"),
        ),
    )


def test_late_segment(hand_made: ModuleType) -> None:
    (row,) = judge(overtaken(hand_made, 25))
    assert (row.severity, row.cost_ns, row.count) == ("warning", 25 * MS, 1)
    assert row.summary.replace("\u00a0", " ") == (
        "A segment on a connection with api.example was overtaken by later ones and came 25 ms "
        "behind them."
    )
    assert row.packet_nos == [12, 20]


def test_a_little_late_is_info(hand_made: ModuleType) -> None:
    (row,) = judge(overtaken(hand_made, 2))
    assert row.severity == "info"


def test_near_miss_order_of_the_captures_queues(hand_made: ModuleType) -> None:
    assert not judge(overtaken(hand_made, 0.05))


def test_near_miss_loss(hand_made: ModuleType) -> None:
    assert not judge(overtaken(hand_made, 25, "loss"))


def test_near_miss_never_filled(hand_made: ModuleType) -> None:
    tables = overtaken(hand_made, 25)
    tables.holes = hand_made.holes((0, "reordering", 100, None, 12, 0))
    assert not judge(tables)
