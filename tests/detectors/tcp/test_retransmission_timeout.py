"""tcp/retransmission-timeout on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["tcp/retransmission-timeout"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def timed_out(hand_made: ModuleType, *repeats: tuple[int, str, int]) -> Any:
    """Repeats as (packet_no, mechanism, seq); the hole is filled by the first of them."""
    tables = hand_made.tables(
        connections=[hand_made.connection(0)],
        exchanges=[hand_made.exchange(0, 0, 900)],
        holes=hand_made.holes((0, "loss", 100, 700, 12, repeats[0][0])),
        ledger=hand_made.ledger((0, 0, 100, "transfer"), (0, 100, 900, "loss_recovery")),
    )
    packets = tables.packets
    packets.from_client[:10] = 1
    for number, mechanism, seq in repeats:
        packets.label[number - 1] = LABELS.index("retransmission")
        packets.mechanism[number - 1] = MECHANISMS.index(mechanism)
        packets.spurious[number - 1] = SPURIOUS.index("false")
        packets.payload_bytes[number - 1] = 1448
        packets.seq[number - 1] = seq
    return tables


def test_timer_and_what_followed(hand_made: ModuleType) -> None:
    (row,) = judge(timed_out(hand_made, (30, "rto", 1), (31, "after_rto", 2), (33, "after_rto", 3)))
    assert (row.severity, row.cost_ns, row.count) == ("critical", 800 * MS, 1)
    assert row.measures["segments_behind"] == 2
    assert row.summary.replace("\u00a0", " ") == (
        "The retransmission timer for data from api.example ran out once; the data was missing for "
        "600 ms, and two more segments were repeated behind it."
    )
    assert set(row.packet_nos) == {12, 30, 31, 33}


def test_a_timer_that_ran_out_again_and_again(hand_made: ModuleType) -> None:
    (row,) = judge(timed_out(hand_made, (30, "rto", 1), (40, "rto", 1), (50, "rto", 1)))
    assert row.count == 3
    assert "ran out three times" in row.summary


@pytest.mark.parametrize("mechanism", ["fast", "tlp"])
def test_near_miss_other_mechanisms(hand_made: ModuleType, mechanism: str) -> None:
    assert not judge(timed_out(hand_made, (30, mechanism, 1)))


def test_near_miss_needless_timeout(hand_made: ModuleType) -> None:
    tables = timed_out(hand_made, (30, "rto", 1))
    tables.packets.spurious[29] = SPURIOUS.index("true")
    assert not judge(tables)


def test_waits_of_a_century(hand_made: ModuleType) -> None:
    """A broken clock: together they are more nanoseconds than 64 bits hold."""
    tables = timed_out(hand_made, (20, "rto", 1000))
    tables.holes = hand_made.holes(*[(0, "loss", 100, 2.5e12, 12, 20)] * 5)
    (finding,) = judge(tables)
    assert finding.confidence == 0.9
