"""The default rule at its borders, and sums over the ledger."""

from __future__ import annotations

from types import ModuleType

import pytest

from capture_analyzer.detectors.severity import booked, by_default, worst

MS = 1_000_000


@pytest.mark.parametrize(
    ("cost_ms", "length_ms", "failed", "severity"),
    [
        (500, 1000, False, "critical"),
        (499, 600, False, "warning"),  # less than 500 ms
        (500, 1001, False, "warning"),  # less than half
        (20, 200, False, "warning"),
        (20, 201, False, "info"),  # less than a tenth
        (19, 19, False, "info"),  # less than 20 ms
        (0, 100, False, "info"),
        (0, 100, True, "critical"),
    ],
)
def test_default_rule(cost_ms: int, length_ms: int, failed: bool, severity: str) -> None:
    assert by_default(cost_ms * MS, length_ms * MS, failed=failed) == severity


def test_worst() -> None:
    assert worst(["info", "critical", "warning"]) == "critical"
    assert worst([]) == "info"


def test_ledger_time_is_summed_by_exchange(hand_made: ModuleType) -> None:
    ledger = hand_made.ledger(
        (0, 0, 10, "dns"),
        (0, 10, 40, "server_think"),
        (0, 40, 45, "transfer"),
        (0, 45, 50, "server_think"),
        (2, 7, 9, "dns"),
        (5, 0, 100, "server_think"),
        (5, 100, 100, "server_think"),  # empty
        (5, 100, 130, "transfer"),
    )
    ledger.confidence[3] = 0.5
    sums = booked(hand_made.tables(ledger=ledger), "server_think", "hello_retry")
    assert sums.exchange_nos.tolist() == [0, 5]
    assert sums.cost_ns.tolist() == [35 * MS, 100 * MS]
    assert sums.length_ns.tolist() == [50 * MS, 130 * MS]
    assert sums.confidence.tolist() == pytest.approx([(30 + 2.5) / 35, 1.0])
    assert sums.rows_of(0) == [1, 3]
    assert sums.rows_of(1) == [5]


def test_no_time_booked(hand_made: ModuleType) -> None:
    ledger = hand_made.ledger((0, 0, 10, "dns"))
    assert len(booked(hand_made.tables(ledger=ledger), "server_think")) == 0
    assert len(booked(hand_made.tables(), "server_think")) == 0
