"""tcp/zero-window-stall on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding

MS = 1_000_000


def judge(tables: Any, detector: str = "tcp/zero-window-stall", **settings: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=[detector], settings={detector: settings})
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def stalled(hand_made: ModuleType, *rows: tuple[int, bool, str, float, float]) -> Any:
    entries = [(0, begin, end, "receiver_window") for _, _, _, begin, end in rows]
    return hand_made.tables(
        connections=[hand_made.connection(0, rtt_ns=30 * MS)],
        exchanges=[hand_made.exchange(0, rows[0][3], 2500)],
        limits=hand_made.limits(*rows),
        ledger=hand_made.ledger(*entries, (0, rows[-1][4], 2500, "transfer")),
    )


def test_client_that_does_not_read(hand_made: ModuleType) -> None:
    (row,) = judge(stalled(hand_made, (0, False, "zero_window", 100, 1600)))
    assert (row.severity, row.cost_ns, row.count) == ("critical", 1500 * MS, 1)
    assert row.summary.replace("\u00a0", " ") == (
        "The client had no room for data from api.example for 1.50 s: it did not read."
    )
    assert row.packet_nos == [11, 12, 13]
    assert row.action == "Find why the client stopped reading"


def test_server_that_does_not_read(hand_made: ModuleType) -> None:
    (row,) = judge(stalled(hand_made, (0, True, "zero_window", 100, 1600)))
    assert row.summary.startswith("api.example had no room for data for")


def test_several_stalls(hand_made: ModuleType) -> None:
    rows = [(0, False, "zero_window", 100 + 300 * n, 300 + 300 * n) for n in range(3)]
    (row,) = judge(stalled(hand_made, *rows))
    assert (row.count, row.measures["stalled_ns"]) == (3, 600 * MS)
    assert "three times" in row.summary


def test_near_miss_no_longer_than_a_round_trip(hand_made: ModuleType) -> None:
    tables = stalled(hand_made, (0, False, "zero_window", 100, 135))
    assert not judge(tables)
    assert judge(tables, least_ms=1)


def test_near_miss_window_that_was_only_full(hand_made: ModuleType) -> None:
    assert not judge(stalled(hand_made, (0, False, "window_full", 100, 1600)))


def test_time_of_both_kinds_is_dealt_out(hand_made: ModuleType) -> None:
    """Entries of one cause go to the kind that took most of each."""
    tables = stalled(
        hand_made,
        (0, False, "zero_window", 100, 1100),
        *((0, False, "window_full", 1200 + 60 * n, 1240 + 60 * n) for n in range(5)),
    )
    (zero,) = judge(tables)
    (full,) = judge(tables, "tcp/receive-window-limited")
    assert (zero.cost_ns, full.cost_ns) == (1000 * MS, 200 * MS)
