"""http/slow-server on tables made by hand: thresholds, grouping, confidence."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding

MS = 1_000_000


def judge(tables: Any, **options: object) -> list[Finding]:
    findings, outcomes = run(
        tables, select=["http/slow-server"], settings={"http/slow-server": options}
    )
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def one(hand_made: ModuleType, think_ms: float, other_ms: float, **values: Any) -> Any:
    """Tables with one exchange that thought so long of its time."""
    end = think_ms + other_ms
    return hand_made.tables(
        connections=[hand_made.connection(rtt_ns=30 * MS)],
        exchanges=[hand_made.exchange(0, 0, end, **values)],
        ledger=hand_made.ledger(
            (0, 0, other_ms, "network_rtt"), (0, other_ms, end, "server_think")
        ),
    )


@pytest.mark.parametrize(
    ("think_ms", "other_ms", "severity"),
    [
        (500, 100, "warning"),
        (500, 500, "warning"),
        (499, 100, "info"),
        (100, 100, "info"),
        (99, 10, None),  # too short to matter
        (500, 501, None),  # most of it was something else
        (9000, 10, "warning"),  # never critical
    ],
)
def test_thresholds(
    hand_made: ModuleType, think_ms: float, other_ms: float, severity: str | None
) -> None:
    findings = judge(one(hand_made, think_ms, other_ms))
    assert [row.severity for row in findings] == ([severity] if severity else [])


def test_near_misses_of_other_causes(hand_made: ModuleType) -> None:
    for cause in ("network_rtt", "generation", "unknown", "loss_recovery"):
        tables = one(hand_made, 900, 10)
        tables.ledger.cause[1] = hand_made.CAUSE_CODE[cause]
        assert not judge(tables), cause


def test_near_miss_of_a_model_at_work(hand_made: ModuleType) -> None:
    assert judge(one(hand_made, 2400, 30, kind="sse"))
    assert not judge(one(hand_made, 2400, 30, kind="sse", ttft_ns=2430 * MS))


def test_what_it_says(hand_made: ModuleType) -> None:
    (row,) = judge(one(hand_made, 850, 35))
    assert row.summary.replace("\u00a0", " ") == (
        "api.example took 0.85 s to answer a request, 96 % of its time."
    )
    assert row.action.replace("\u00a0", " ") == (
        "Ask the owner of api.example why an answer took 0.85 s"
    )
    assert row.cost_ns == 850 * MS
    assert row.packet_nos == [1, 2]
    assert row.connection_no == 0
    assert row.exchange_nos == [0]
    assert row.measures["rtt_ns"] == 30 * MS
    assert row.display_filter == "frame.number in {1, 2}"


def test_options(hand_made: ModuleType) -> None:
    tables = one(hand_made, 300, 10)
    assert judge(tables, warning_ms="300")[0].severity == "warning"
    assert not judge(tables, info_ms="301")
    assert not judge(tables, share="0.99")


def test_one_finding_for_each_server_and_severity(hand_made: ModuleType) -> None:
    servers = ["a.example", "a.example", "b.example"]
    thinks = [(0, 121), (1, 305), (1, 40), (2, 800), (0, 700), (2, 900)]
    entries = [
        entry
        for number, (_, think) in enumerate(thinks)
        for entry in ((number, 0, 30, "network_rtt"), (number, 30, 30 + think, "server_think"))
    ]
    tables = hand_made.tables(
        connections=[hand_made.connection(no, server_name=name) for no, name in enumerate(servers)],
        exchanges=[
            hand_made.exchange(number, 0, 30 + think, connection_no=connection)
            for number, (connection, think) in enumerate(thinks)
        ],
        ledger=hand_made.ledger(*entries),
    )
    b, a, a_info = judge(tables)
    assert (b.severity, b.exchange_nos, b.connection_no, b.count) == ("warning", [3, 5], 2, 2)
    assert (a.severity, a.exchange_nos) == ("warning", [4])
    assert (a_info.severity, a_info.exchange_nos) == ("info", [0, 1])
    assert a_info.connection_no is None
    assert a_info.connection_nos == [0, 1]
    assert a_info.summary.replace("\u00a0", " ") == (
        "a.example took 121 to 305 ms to answer two of four requests, most of their time."
    )
    assert a_info.action == ""
    assert [example.exchange_no for example in b.examples] == [5, 3]
    assert sum(row.cost_ns or 0 for row in (b, a, a_info)) == (121 + 305 + 800 + 700 + 900) * MS


def test_inferred_exchanges_are_less_certain(hand_made: ModuleType) -> None:
    (row,) = judge(one(hand_made, 850, 35, inferred=True, protocol="opaque", method=None))
    assert row.confidence == 0.7
    assert "to answer an encrypted request" in row.summary


def test_a_wait_that_is_hardly_known_is_not_judged(hand_made: ModuleType) -> None:
    tables = one(hand_made, 850, 35)
    tables.ledger.confidence[:] = 0.25
    assert not judge(tables)
    tables.ledger.confidence[:] = 0.5
    assert judge(tables)[0].confidence == 0.5


def test_no_exchanges(hand_made: ModuleType) -> None:
    _, outcomes = run(hand_made.tables(), select=["http/slow-server"])
    chosen = next(row for row in outcomes if row.id == "http/slow-server")
    assert (chosen.outcome, chosen.reason) == ("not_applicable", "the capture has no exchanges")
