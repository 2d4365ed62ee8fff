"""capture/offloaded-segments on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["capture/offloaded-segments"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def large(hand_made: ModuleType, size: int, **connection: Any) -> Any:
    """The server sends segments of this size."""
    defaults = {"mss_client": 1460, "mss_server": 1460}
    tables = hand_made.tables(connections=[hand_made.connection(0, **{**defaults, **connection})])
    tables.packets.payload_bytes[10:13] = size
    return tables


def test_larger_than_the_receiver_announced(hand_made: ModuleType) -> None:
    (row,) = judge(large(hand_made, 14_480))
    assert (row.severity, row.count, row.packet_nos) == ("info", 3, [11, 12, 13])
    assert row.measures["largest_bytes"] == 14_480


def test_near_miss_as_large_as_announced(hand_made: ModuleType) -> None:
    assert not judge(large(hand_made, 1460))


def test_near_miss_jumbo_frames(hand_made: ModuleType) -> None:
    assert not judge(large(hand_made, 8_948, mss_client=8_960, mss_server=8_960))


def test_each_direction_has_its_own_limit(hand_made: ModuleType) -> None:
    assert judge(large(hand_made, 8_948, mss_server=8_960))
    assert not judge(large(hand_made, 8_948, mss_client=8_960))


def test_without_a_syn_only_what_no_link_carries(hand_made: ModuleType) -> None:
    unknown = {"mss_client": None, "mss_server": None}
    assert not judge(large(hand_made, 8_948, **unknown))
    assert judge(large(hand_made, 20_000, **unknown))
