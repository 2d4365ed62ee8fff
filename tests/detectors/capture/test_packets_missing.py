"""capture/packets-missing on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["capture/packets-missing"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def gaps(hand_made: ModuleType, *rows: tuple[int, str, float, float | None, int, int]) -> Any:
    tables = hand_made.tables(
        connections=[hand_made.connection(0), hand_made.connection(1)],
        exchanges=[hand_made.exchange(0, 0, 200)],
        holes=hand_made.holes(*rows),
        ledger=hand_made.ledger(
            (0, 0, 50, "transfer"), (0, 50, 80, "capture_gap"), (0, 80, 200, "transfer")
        ),
    )
    tables.packets.from_client[1::2] = 1  # both sides speak
    return tables


def test_bytes_that_were_acknowledged_but_not_captured(hand_made: ModuleType) -> None:
    (row,) = judge(gaps(hand_made, (0, "capture", 50, 80, 12, 14)))
    assert (row.severity, row.cost_ns, row.count) == ("warning", 30 * MS, 1)
    assert row.summary.replace("\u00a0", " ") == (
        "The capture lacks 1.0 KB that one connection carried, in one gap: the receiver "
        "acknowledged them."
    )
    assert row.packet_nos == [12, 14]


def test_all_connections_are_one_finding(hand_made: ModuleType) -> None:
    (row,) = judge(gaps(hand_made, (0, "capture", 50, 80, 12, 14), (1, "capture", 60, 90, 22, 24)))
    assert (row.count, row.connection_nos) == (2, [0, 1])
    assert row.measures["missing_bytes"] == 2000


def test_drop_counter_alone_is_info(hand_made: ModuleType) -> None:
    tables = gaps(hand_made)
    tables.ledger = hand_made.ledger((0, 0, 200, "transfer"))
    tables.interfaces[0].dropped_count = 7
    (row,) = judge(tables)
    assert (row.severity, row.cost_ns) == ("info", None)
    assert row.summary == ("The capturing program dropped 7 packets; no connection shows a gap.")


def test_near_miss_lost_in_the_network(hand_made: ModuleType) -> None:
    tables = gaps(hand_made, (0, "loss", 50, 80, 12, 14))
    assert not judge(tables)


def test_near_miss_one_direction_only(hand_made: ModuleType) -> None:
    """That the other side's bytes are missing is capture/one-direction."""
    tables = gaps(hand_made, (0, "capture", 50, 80, 12, 14))
    tables.packets.from_client[:] = 1
    assert not judge(tables)


def test_near_miss_counter_of_nothing(hand_made: ModuleType) -> None:
    tables = gaps(hand_made)
    tables.interfaces[0].dropped_count = 0
    assert not judge(tables)
