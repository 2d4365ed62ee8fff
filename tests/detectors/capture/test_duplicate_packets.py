"""capture/duplicate-packets on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.packets import LABELS


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["capture/duplicate-packets"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def copied(hand_made: ModuleType, label: str) -> Any:
    tables = hand_made.tables(connections=[hand_made.connection(0)])
    tables.packets.label[1::2] = LABELS.index(label)
    return tables


def test_every_packet_twice(hand_made: ModuleType) -> None:
    (row,) = judge(copied(hand_made, "capture_duplicate"))
    assert (row.severity, row.count, row.packet_total) == ("info", 50, 50)
    assert row.summary == (
        "50 of 100 packets of one connection were copies of others that the capture holds as well; "
        "they were set aside."
    )


def test_near_miss_copies_that_the_network_made(hand_made: ModuleType) -> None:
    assert not judge(copied(hand_made, "network_duplicate"))


def test_near_miss_repeats(hand_made: ModuleType) -> None:
    assert not judge(copied(hand_made, "retransmission"))
