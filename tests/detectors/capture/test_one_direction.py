"""capture/one-direction on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.packets import ACK, SYN


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["capture/one-direction"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def half(hand_made: ModuleType, side: int) -> Any:
    tables = hand_made.tables(connections=[hand_made.connection(0)])
    tables.packets.from_client[:] = side
    return tables


@pytest.mark.parametrize(("side", "whose"), [(1, "client"), (0, "server")])
def test_one_side_only(hand_made: ModuleType, side: int, whose: str) -> None:
    (row,) = judge(half(hand_made, side))
    assert (row.severity, row.count) == ("warning", 1)
    assert row.summary == (
        f"The only connection was captured in one direction: the {whose}'s packets only."
    )


def test_one_connection_of_several_is_info(hand_made: ModuleType) -> None:
    tables = half(hand_made, 1)
    tables.connections += [hand_made.connection(number) for number in (1, 2)]
    packets = tables.packets
    packets.connection_no[20:60], packets.connection_no[60:] = 1, 2
    packets.from_client[20::2] = 0
    (row,) = judge(tables)
    assert (row.severity, row.connection_nos) == ("info", [0])


def test_near_miss_both_sides(hand_made: ModuleType) -> None:
    tables = half(hand_made, 1)
    tables.packets.from_client[50] = 0
    assert not judge(tables)


def test_near_miss_request_without_an_answer(hand_made: ModuleType) -> None:
    tables = half(hand_made, 1)
    tables.packets.flags[:] = SYN
    assert not judge(tables)
    tables.packets.flags[:] = SYN | ACK
    assert not judge(tables)
