"""llm/stream-stall on tables made by hand: what a stall is, and who is blamed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.messages import StreamFacts

MS = 1_000_000


def judge(tables: Any, **options: object) -> list[Finding]:
    findings, outcomes = run(
        tables, select=["llm/stream-stall"], settings={"llm/stream-stall": options}
    )
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def paused(
    hand_made: ModuleType,
    gap_ms: float,
    cause: str = "generation",
    *,
    pace_ms: float = 30,
    kinds: str = "content",
    before: float = 0,
) -> Any:
    """Tables with one answer: five chunks, a gap, five chunks.

    `before` ms of the gap are booked on transfer, in front of its cause.
    """
    first = [100 + pace_ms * n for n in range(5)]
    begin = first[-1]
    second = [begin + gap_ms + pace_ms * n for n in range(5)]
    end = second[-1]
    return hand_made.tables(
        connections=[hand_made.connection()],
        exchanges=[
            hand_made.exchange(
                0, 0, end, kind="sse", stream=StreamFacts(cadence_ns=int(pace_ms * MS))
            )
        ],
        events=hand_made.events(
            *((0, time, "content") for time in first), *((0, time, kinds) for time in second)
        ),
        ledger=hand_made.ledger(
            (0, 0, begin, "generation"),
            (0, begin, begin + before, "transfer"),
            (0, begin + before, begin + gap_ms, cause),
            (0, begin + gap_ms, end, "generation"),
        ),
    )


@pytest.mark.parametrize(
    ("gap_ms", "pace_ms", "fires"),
    [
        (700, 30, True),
        (201, 30, True),
        (199, 30, False),  # too short
        (300, 61, False),  # slow, but steady
        (310, 61, True),
        (1400, 300, False),
    ],
)
def test_thresholds(hand_made: ModuleType, gap_ms: float, pace_ms: float, fires: bool) -> None:
    assert bool(judge(paused(hand_made, gap_ms, pace_ms=pace_ms))) == fires


def test_options(hand_made: ModuleType) -> None:
    tables = paused(hand_made, 300)
    assert judge(tables)
    assert not judge(tables, least_ms="301")
    assert not judge(tables, factor="11")
    assert judge(paused(hand_made, 150), least_ms=100, factor=2)


def test_what_it_says_of_the_server(hand_made: ModuleType) -> None:
    (row,) = judge(paused(hand_made, 700))
    assert row.summary.replace("\u00a0", " ") == (
        "A streamed answer of api.example paused 0.70 s; the server was silent."
    )
    assert row.action == "Ask the model’s owner at api.example why it pauses after chunk 5"
    assert row.cost_ns == 700 * MS
    assert row.severity == "critical"  # half of the answer and more
    assert row.measures["blamed"] == "server"
    assert row.measures["generation_ns"] == 700 * MS
    assert row.packet_nos == [1, 2, 15, 16]


@pytest.mark.parametrize(
    ("cause", "party", "words"),
    [
        ("loss_recovery", "loss", "a lost segment held it up"),
        ("reordering", "loss", "a lost segment held it up"),
        ("head_of_line", "other_stream", "of another stream"),
        ("record_wait", "record", "a TLS record"),
        ("receiver_window", "window", "a window"),
        ("http2_window", "window", "a window"),
        ("nagle_delayed_ack", "nagle", "a small segment"),
        ("proxy_buffering", "proxy", "an intermediary"),
        ("transfer", "network", "on its way"),
    ],
)
def test_the_server_is_not_blamed_for_others(
    hand_made: ModuleType, cause: str, party: str, words: str
) -> None:
    (row,) = judge(paused(hand_made, 400, cause))
    assert row.measures["blamed"] == party
    assert words in row.summary
    assert "server was silent" not in row.summary
    assert "owner" not in row.action
    assert row.advice.startswith("Not the model's")


def test_the_network_is_not_blamed_for_the_smaller_part(hand_made: ModuleType) -> None:
    (row,) = judge(paused(hand_made, 500, "generation", before=200))
    assert row.measures["blamed"] == "server"
    assert row.cost_ns == 300 * MS
    (row,) = judge(paused(hand_made, 500, "loss_recovery", before=200))
    assert row.measures["blamed"] == "loss"


@pytest.mark.parametrize("cause", ["unknown", "capture_gap"])
def test_nobody_is_blamed_without_evidence(hand_made: ModuleType, cause: str) -> None:
    (row,) = judge(paused(hand_made, 900, cause))
    assert (row.severity, row.cost_ns, row.estimated_saving_ns) == ("info", 0, None)
    assert not row.action


def test_a_pause_behind_the_last_content_is_none(hand_made: ModuleType) -> None:
    assert not judge(paused(hand_made, 900, kinds="ping"))


def test_pings_in_a_pause_do_not_end_it(hand_made: ModuleType) -> None:
    tables = paused(hand_made, 900)
    first = 100 + 4 * 30
    tables.events = hand_made.events(
        *((0, 100 + 30 * n, "content") for n in range(5)),
        *((0, first + 100 * n, "ping") for n in range(1, 9)),
        *((0, first + 900 + 30 * n, "content") for n in range(5)),
    )
    (row,) = judge(tables)
    assert row.measures["stall_max_ns"] == 900 * MS


def test_too_few_events_have_no_pace(hand_made: ModuleType) -> None:
    tables = paused(hand_made, 900)
    tables.exchanges[0].stream.cadence_ns = None
    assert not judge(tables)


def test_stalls_of_a_server_are_one_finding_for_each_reason(hand_made: ModuleType) -> None:
    rows: list[tuple[int, float, str]] = []
    entries: list[tuple[int, float, float, str]] = []
    causes = ["generation", "generation", "loss_recovery"]
    for number, cause in enumerate(causes):
        times = [10, 40, 70, 100, 130, 930, 960, 990 + 600]
        rows += [(number, time, "content") for time in times]
        entries += [
            (number, 0, 130, "generation"),
            (number, 130, 930, cause),
            (number, 930, 990, "generation"),
            (number, 990, 990 + 600, cause),
        ]
    tables = hand_made.tables(
        connections=[hand_made.connection()],
        exchanges=[
            hand_made.exchange(n, 0, 1590, kind="sse", stream=StreamFacts(cadence_ns=30 * MS))
            for n in range(3)
        ],
        events=hand_made.events(*rows),
        ledger=hand_made.ledger(*entries),
    )
    server, loss = sorted(judge(tables), key=lambda row: str(row.measures["blamed"]), reverse=True)
    assert (server.exchange_nos, server.count, server.cost_ns) == ([0, 1], 4, 2 * 1400 * MS)
    assert (loss.exchange_nos, loss.count) == ([2], 2)
    assert server.summary.replace("\u00a0", " ").startswith(
        "Two streamed answers of api.example paused four times, for 0.63 to 0.80 s;"
    )


def test_a_row_that_reaches_beyond_the_gap_is_no_cost(hand_made: ModuleType) -> None:
    tables = paused(hand_made, 700)
    begin = 100 + 4 * 30
    tables.ledger = hand_made.ledger((0, 0, begin + 700 + 120, "generation"))
    (row,) = judge(tables)
    assert row.cost_ns is None
    assert row.estimated_saving_ns == 670 * MS
    assert not row.ledger_rows
