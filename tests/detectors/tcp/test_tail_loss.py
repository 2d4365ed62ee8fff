"""tcp/tail-loss on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["tcp/tail-loss"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def probed(hand_made: ModuleType, *repeats: tuple[int, str]) -> Any:
    """A request whose last segment was repeated by these packets, the last at 300 ms."""
    tables = hand_made.tables(
        connections=[hand_made.connection(0)],
        exchanges=[hand_made.exchange(0, 0, 400)],
        holes=hand_made.holes((-1, "loss", 40, 300, 12, repeats[-1][0])),
        ledger=hand_made.ledger(
            (0, 0, 40, "transfer"), (0, 40, 300, "loss_recovery"), (0, 300, 400, "server_think")
        ),
    )
    packets = tables.packets
    packets.from_client[:10] = 1
    for number, mechanism in repeats:
        packets.label[number - 1] = LABELS.index("retransmission")
        packets.mechanism[number - 1] = MECHANISMS.index(mechanism)
        packets.spurious[number - 1] = SPURIOUS.index("false")
        packets.payload_bytes[number - 1] = 300
        packets.from_client[number - 1] = 1
    return tables


def test_probe(hand_made: ModuleType) -> None:
    (row,) = judge(probed(hand_made, (30, "tlp")))
    assert (row.severity, row.cost_ns, row.count) == ("warning", 260 * MS, 1)
    assert row.summary.replace("\u00a0", " ") == (
        "The last segment of a flight to api.example was lost and repeated by a probe after 260 ms."
    )
    assert row.packet_nos == [12, 30]


def test_near_miss_timer_behind_a_probe_that_was_lost(hand_made: ModuleType) -> None:
    assert not judge(probed(hand_made, (30, "tlp"), (31, "rto")))


@pytest.mark.parametrize("mechanism", ["fast", "rto"])
def test_near_miss_other_mechanisms(hand_made: ModuleType, mechanism: str) -> None:
    assert not judge(probed(hand_made, (30, mechanism)))
