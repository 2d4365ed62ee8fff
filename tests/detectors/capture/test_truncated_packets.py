"""capture/truncated-packets on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.packets import UDP


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["capture/truncated-packets"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def cut(hand_made: ModuleType, **exchange: Any) -> Any:
    """Packets 11 to 20 are cut to 96 bytes, 30 of them payload."""
    tables = hand_made.tables(
        connections=[hand_made.connection(0)],
        exchanges=[hand_made.exchange(0, 0, 10, **exchange)],
        ledger=hand_made.ledger((0, 0, 10, "unknown")),
    )
    packets = tables.packets
    packets.payload_bytes[10:20] = 1000
    packets.payload_captured[10:20] = 30
    packets.captured_bytes[10:20] = 96
    packets.original_bytes[10:20] = 1066
    return tables


def test_connection_that_could_not_be_read(hand_made: ModuleType) -> None:
    (row,) = judge(cut(hand_made, inferred=True))
    assert (row.severity, row.count) == ("warning", 10)
    assert row.measures["bytes_cut"] == 9700
    assert row.packet_nos == list(range(11, 21))
    assert "the contents of the only connection can't be read whole" in row.summary


def test_connection_that_was_read_all_the_same(hand_made: ModuleType) -> None:
    (row,) = judge(cut(hand_made, complete=True))
    assert row.severity == "info"
    assert "nothing that was needed" in row.summary


def test_near_miss_datagrams_that_nobody_reads(hand_made: ModuleType) -> None:
    tables = cut(hand_made)
    tables.packets.protocol[:] = UDP
    assert not judge(tables)


def test_name_lookups_count(hand_made: ModuleType) -> None:
    tables = cut(hand_made)
    tables.packets.protocol[:] = UDP
    tables.packets.destination_port[:] = 53
    assert judge(tables)


def test_near_miss_nothing_is_cut(hand_made: ModuleType) -> None:
    tables = cut(hand_made)
    tables.packets.payload_captured[:] = tables.packets.payload_bytes
    assert not judge(tables)
