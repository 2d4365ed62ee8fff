"""tcp/reset-in-exchange on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.packets import ACK, RST

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["tcp/reset-in-exchange"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def reset(hand_made: ModuleType, by: str = "server", ttl: int = 57, **exchange: Any) -> Any:
    """A connection of ten packets; the tenth, at 300 ms, resets it."""
    defaults = {"reset": True, "complete": False, "response_seen_ns": 50 * MS}
    tables = hand_made.tables(
        connections=[hand_made.connection(0, reset_by=by, reset_ns=300 * MS)],
        exchanges=[hand_made.exchange(0, 0, 300, **{**defaults, **exchange})],
        ledger=hand_made.ledger((0, 0, 300, "unknown")),
    )
    packets = tables.packets
    packets.from_client[:10] = [1, 0, 1, 1, 0, 0, 1, 0, 0, 0 if by == "server" else 1]
    packets.ttl[packets.from_client == 0] = 57
    packets.ttl[packets.from_client == 1] = 64
    packets.ttl[9] = ttl
    packets.time_ns[9] = 300 * MS
    packets.flags[9] = RST | ACK
    return tables


def test_reset_by_the_server(hand_made: ModuleType) -> None:
    (row,) = judge(reset(hand_made))
    assert (row.severity, row.count, row.confidence) == ("critical", 1, 0.95)
    assert row.summary == (
        "A request to api.example was cut off by a reset from api.example in the middle of the "
        "answer."
    )
    assert 10 in row.packet_nos
    assert row.measures["ttl_differs"] is False


def test_reset_by_the_client_is_a_warning(hand_made: ModuleType) -> None:
    (row,) = judge(reset(hand_made, "client", ttl=64))
    assert row.severity == "warning"
    assert "a reset from the client" in row.summary


def test_time_to_live_of_another_host(hand_made: ModuleType) -> None:
    (row,) = judge(reset(hand_made, "client", ttl=250))
    assert row.severity == "critical"
    assert row.measures["ttl_differs"] is True
    assert "in the name of the client" in row.summary


def test_before_any_answer(hand_made: ModuleType) -> None:
    (row,) = judge(reset(hand_made, response_seen_ns=None))
    assert row.summary.endswith("before any answer.")


def test_opaque_exchanges_are_less_certain(hand_made: ModuleType) -> None:
    (row,) = judge(reset(hand_made, inferred=True))
    assert row.confidence < 0.8


@pytest.mark.parametrize("exchange", [{"complete": True}, {"reset": False}, {"end_ns": 200 * MS}])
def test_near_miss_both_sides_were_done(hand_made: ModuleType, exchange: dict[str, Any]) -> None:
    assert not judge(reset(hand_made, **exchange))


def test_near_miss_only_the_stream_was_reset(hand_made: ModuleType) -> None:
    tables = reset(hand_made)
    tables.connections[0].reset_ns = tables.connections[0].reset_by = None
    assert not judge(tables)


def test_near_miss_the_answer_was_not_captured(hand_made: ModuleType) -> None:
    tables = reset(hand_made, "client", ttl=64)
    tables.packets.from_client[:] = 1
    assert not judge(tables)
