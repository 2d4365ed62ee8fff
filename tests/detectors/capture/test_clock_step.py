"""capture/clock-step on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.exchanges import Exchanges
from capture_analyzer.model.findings import Finding

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["capture/clock-step"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def stepped(hand_made: ModuleType, *packet_nos: int) -> Any:
    detail = "the capture's clock was set back by 400 ms"
    return hand_made.tables(
        anomalies=[Anomaly("clock-step", "capture", detail, packet_no=no) for no in packet_nos]
    )


def test_clock_that_ran_on(hand_made: ModuleType) -> None:
    (row,) = judge(stepped(hand_made, 50))
    assert (row.severity, row.count, row.confidence) == ("info", 1, 0.8)
    assert row.packet_nos == [49, 50]
    assert row.summary.replace("\u00a0", " ") == (
        "The capture's clock was set back by 400 ms at +0.049 s."
    )


def test_time_stamps_that_run_backwards_are_certain(hand_made: ModuleType) -> None:
    tables = stepped(hand_made, 50)
    tables.packets.time_ns[49:] -= 400 * MS
    (row,) = judge(tables)
    assert row.confidence == 1.0


def test_exchanges_across_it_are_named(hand_made: ModuleType) -> None:
    tables = stepped(hand_made, 12)
    tables.exchanges = Exchanges.of(hand_made.exchange(number, 0, 10) for number in range(3))
    (row,) = judge(tables)
    assert row.exchange_nos == [1]  # packets 11 and 12


def test_several_steps_are_one_finding(hand_made: ModuleType) -> None:
    (row,) = judge(stepped(hand_made, 20, 60))
    assert row.count == 2


def test_near_miss_other_anomalies(hand_made: ModuleType) -> None:
    tables = hand_made.tables(anomalies=[Anomaly("cut-in-packet", "capture", "the file ends")])
    assert not judge(tables)
