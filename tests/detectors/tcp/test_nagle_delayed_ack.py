"""tcp/nagle-delayed-ack on tables made by hand."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.api import analyze
from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["tcp/nagle-delayed-ack"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def held(hand_made: ModuleType, late: int, at_once: int, from_client: bool = True) -> Any:
    """Requests of 60 ms, some held for 45 ms; then segments 30 ms apart."""
    rows = [(0, from_client, "nagle_delayed_ack", 100 * n, 100 * n + 45) for n in range(late)]
    begin = 100 * late
    rows += [(0, from_client, "nagle", begin + 30 * n, begin + 30 * n + 30) for n in range(at_once)]
    entries: list[tuple[int, float, float, str]] = []
    for n in range(late):
        entries.append((n, 100 * n, 100 * n + 45, "nagle_delayed_ack"))
        entries.append((n, 100 * n + 45, 100 * n + 60, "server_think"))
    return hand_made.tables(
        connections=[hand_made.connection(0)],
        exchanges=[hand_made.exchange(n, 100 * n, 100 * n + 60) for n in range(late)],
        limits=hand_made.limits(*rows),
        ledger=hand_made.ledger(*entries),
    )


def test_requests_in_two_writes(hand_made: ModuleType) -> None:
    (row,) = judge(held(hand_made, 4, 1))
    assert (row.severity, row.cost_ns, row.count) == ("warning", 180 * MS, 4)
    assert row.summary.replace("\u00a0", " ") == (
        "The client held a small segment back four times for 45 ms, until the delayed "
        "acknowledgement of the one before came."
    )
    assert row.exchange_nos == [0, 1, 2, 3]
    assert row.action == "Set TCP_NODELAY in the client, or write messages in one piece"


def test_server_is_named(hand_made: ModuleType) -> None:
    (row,) = judge(held(hand_made, 1, 0, from_client=False))
    assert row.summary.startswith("api.example held a small segment back for")
    assert "server api.example" in row.action


def test_round_trips_only_have_their_own_words(hand_made: ModuleType) -> None:
    (row,) = judge(held(hand_made, 0, 8, from_client=False))
    assert (row.severity, row.cost_ns, row.count) == ("info", None, 8)
    assert "one at a time" in row.summary
    assert "30\u00a0ms apart" in row.summary


def test_some_of_them_late(hand_made: ModuleType) -> None:
    (row,) = judge(held(hand_made, 1, 9, from_client=False))
    assert "one of them on a delayed one" in row.summary
    assert row.cost_ns == 45 * MS


def test_once_may_be_chance(hand_made: ModuleType) -> None:
    tables = held(hand_made, 1, 0)
    tables.limits.confidence[:] = 0.6
    (row,) = judge(tables)
    assert (row.severity, row.cost_ns, row.confidence) == ("info", 45 * MS, 0.6)


def test_near_miss_a_few_round_trips(hand_made: ModuleType) -> None:
    assert not judge(held(hand_made, 0, 3))


def test_near_miss_other_limits(hand_made: ModuleType) -> None:
    tables = held(hand_made, 0, 0)
    tables.limits = hand_made.limits((0, True, "congestion_window", 0, 45))
    assert not judge(tables)


@pytest.mark.shared
def test_it_is_seen_through_tls(lab: Path) -> None:
    """Tokens held back one round trip each; with keys and without it is the same finding."""
    run = lab / "sse-llm" / "h1-nagle"
    found = []
    for keys in ([], [run / "keys.log"]):
        findings = analyze(run / "client.pcap", keylogs=keys).findings
        (row,) = [row for row in findings if row.detector == "tcp/nagle-delayed-ack"]
        found.append((row.severity, row.cost_ns, row.packet_nos, row.summary))
    assert found[0] == found[1]
    assert found[0][1] > 100_000_000
