"""tcp/receive-window-limited on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding

MS = 1_000_000


def judge(tables: Any, **settings: Any) -> list[Finding]:
    detector = "tcp/receive-window-limited"
    findings, outcomes = run(tables, select=[detector], settings={detector: settings})
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def full(hand_made: ModuleType, count: int, wait_ms: float, kind: str = "window_full") -> Any:
    """So many round trips of 60 ms, in each of which the sender waited."""
    rows = [(0, False, kind, 60 * n, 60 * n + wait_ms) for n in range(count)]
    entries: list[tuple[int, float, float, str]] = []
    for n in range(count):
        entries.append((0, 60 * n, 60 * n + wait_ms, "receiver_window"))
        entries.append((0, 60 * n + wait_ms, 60 * n + 60, "transfer"))
    return hand_made.tables(
        connections=[hand_made.connection(0, rtt_ns=60 * MS)],
        exchanges=[hand_made.exchange(0, 0, 60 * count)],
        limits=hand_made.limits(*rows, in_flight=32_768),
        ledger=hand_made.ledger(*entries),
    )


def test_most_of_a_transfer(hand_made: ModuleType) -> None:
    (row,) = judge(full(hand_made, 6, 40))
    assert (row.severity, row.cost_ns, row.count) == ("warning", 240 * MS, 6)
    assert row.summary.replace("\u00a0", " ") == (
        "Data from api.example waited 0.24 s in six round trips for the window of the client, "
        "about 33 KB over a round trip of 60 ms."
    )
    assert row.measures["rate_limit_bits_per_s"] == round(32_768 * 8e9 / (60 * MS))


def test_near_miss_now_and_then(hand_made: ModuleType) -> None:
    assert not judge(full(hand_made, 2, 40))


def test_near_miss_small_part_of_the_time(hand_made: ModuleType) -> None:
    assert not judge(full(hand_made, 6, 10))
    assert judge(full(hand_made, 6, 10), least_share=0.1)


def test_near_miss_congestion_window(hand_made: ModuleType) -> None:
    assert not judge(full(hand_made, 6, 40, "congestion_window"))
