"""tcp/spurious-retransmission on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["tcp/spurious-retransmission"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def repeated(hand_made: ModuleType, *mechanisms: str, spurious: str = "true") -> Any:
    tables = hand_made.tables(connections=[hand_made.connection(0)])
    packets = tables.packets
    for number, mechanism in enumerate(mechanisms, 20):
        packets.label[number] = LABELS.index("retransmission")
        packets.mechanism[number] = MECHANISMS.index(mechanism)
        packets.spurious[number] = SPURIOUS.index(spurious)
        packets.payload_bytes[number] = 1448
    return tables


def test_fast_repeat(hand_made: ModuleType) -> None:
    (row,) = judge(repeated(hand_made, "fast"))
    assert (row.severity, row.count, row.cost_ns) == ("info", 1, None)
    assert row.summary == (
        "A segment from api.example was repeated needlessly on the receiver's reports; the "
        "receiver had the data."
    )
    assert row.action == "Find where packets are reordered"
    assert row.packet_nos == [21]


def test_timeout_is_a_warning(hand_made: ModuleType) -> None:
    (row,) = judge(repeated(hand_made, "tlp", "rto"))
    assert (row.severity, row.count) == ("warning", 2)
    assert row.measures == {"connections": 1, "repeats": 2, "timeouts": 1, "bytes": 2896}
    assert row.action == "Find what delayed data or acknowledgements"


@pytest.mark.parametrize("spurious", ["false", ""])
def test_near_miss_needed_or_not_known(hand_made: ModuleType, spurious: str) -> None:
    assert not judge(repeated(hand_made, "fast", spurious=spurious))
