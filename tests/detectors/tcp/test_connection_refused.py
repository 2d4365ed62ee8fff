"""tcp/connection-refused on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["tcp/connection-refused"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def refused(hand_made: ModuleType, number: int = 0, **values: Any) -> Any:
    defaults = {
        "refused": True,
        "syn_packet_no": 2 * number + 1,
        "last_packet_no": 2 * number + 2,
        "syn_ns": number * 500 * MS,
        "start_ns": number * 500 * MS,
        "reset_ns": number * 500 * MS + 30 * MS,
        "server_name": None,
    }
    return hand_made.connection(number, **{**defaults, **values})


def accepted(hand_made: ModuleType, number: int, **values: Any) -> Any:
    defaults = {"start_ns": 2000 * MS, "established_ns": 2030 * MS}
    return hand_made.connection(number, **{**defaults, **values})


def test_nothing_listens(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made.tables(connections=[refused(hand_made)]))
    assert (row.severity, row.count, row.packet_nos) == ("critical", 1, [1, 2])
    assert row.summary == "A connection to 198.51.100.1:443 was refused."


def test_tries_of_one_server_are_one_finding(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made.tables(connections=[refused(hand_made, n) for n in range(3)]))
    assert (row.count, row.connection_no) == (3, None)
    assert row.packet_nos == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("name", [None, "api.example"])
def test_a_later_attempt_that_succeeds_makes_it_a_warning(
    hand_made: ModuleType, name: str | None
) -> None:
    connections = [refused(hand_made), accepted(hand_made, 1, server_name=name)]
    (row,) = judge(hand_made.tables(connections=connections))
    assert row.severity == "warning"
    assert "a later one was accepted" in row.summary


def test_an_earlier_one_does_not(hand_made: ModuleType) -> None:
    connections = [refused(hand_made, start_ns=5000 * MS), accepted(hand_made, 1)]
    (row,) = judge(hand_made.tables(connections=connections))
    assert row.severity == "critical"


def test_http_beside_https_is_info(hand_made: ModuleType) -> None:
    connections = [
        refused(hand_made, server_port=80),
        accepted(hand_made, 1, start_ns=20 * MS, server_port=443),
    ]
    (row,) = judge(hand_made.tables(connections=connections))
    assert row.severity == "info"
    assert "port 443 of the same host was open" in row.summary


def test_another_port_of_the_host_is_no_excuse(hand_made: ModuleType) -> None:
    connections = [
        refused(hand_made, server_port=8080),
        accepted(hand_made, 1, start_ns=20 * MS, server_port=443),
    ]
    (row,) = judge(hand_made.tables(connections=connections))
    assert row.severity == "critical"


def test_near_miss_reset_of_a_connection_that_was_up(hand_made: ModuleType) -> None:
    connections = [accepted(hand_made, 0, reset_by="server", reset_ns=3000 * MS)]
    assert not judge(hand_made.tables(connections=connections))
