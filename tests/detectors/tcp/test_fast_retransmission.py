"""tcp/fast-retransmission on tables made by hand: which repeats count, and what they cost."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS

MS = 1_000_000
RETRANSMISSION = LABELS.index("retransmission")


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["tcp/fast-retransmission"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def repeated(hand_made: ModuleType, mechanism: str = "fast", length_ms: float = 200) -> Any:
    """Packet 20 of the server repeats bytes that packet 12 showed missing, 40 ms before."""
    tables = hand_made.tables(
        connections=[hand_made.connection(0)],
        exchanges=[hand_made.exchange(0, 0, length_ms)],
        holes=hand_made.holes((0, "loss", 60, 100, 12, 20)),
        ledger=hand_made.ledger(
            (0, 0, 60, "transfer"), (0, 60, 100, "loss_recovery"), (0, 100, length_ms, "transfer")
        ),
    )
    tables.packets.from_client[:10] = 1
    repeat(tables, 20, mechanism)
    return tables


def repeat(tables: Any, packet_no: int, mechanism: str, seq: int = 1, side: int = 0) -> None:
    packets = tables.packets
    packets.label[packet_no - 1] = RETRANSMISSION
    packets.mechanism[packet_no - 1] = MECHANISMS.index(mechanism)
    packets.spurious[packet_no - 1] = SPURIOUS.index("false")
    packets.payload_bytes[packet_no - 1] = 1000
    packets.seq[packet_no - 1] = seq
    packets.from_client[packet_no - 1] = side


def test_one_lost_segment(hand_made: ModuleType) -> None:
    (row,) = judge(repeated(hand_made))
    assert (row.severity, row.cost_ns, row.count) == ("warning", 40 * MS, 1)
    assert row.summary.replace("\u00a0", " ") == (
        "A segment from api.example was lost and repeated after the receiver's reports; its data "
        "was waited for 40 ms."
    )
    assert row.packet_nos == [12, 20]
    assert (row.connection_no, row.exchange_nos) == (0, [0])
    assert row.confidence == 0.9
    assert row.ledger_rows == [1]


def test_in_a_long_exchange_it_is_info(hand_made: ModuleType) -> None:
    (row,) = judge(repeated(hand_made, length_ms=500))
    assert row.severity == "info"


def test_a_request_is_lost_on_its_way_to_the_server(hand_made: ModuleType) -> None:
    tables = repeated(hand_made)
    tables.packets.from_client[19] = 1
    (row,) = judge(tables)
    assert "segment to api.example" in row.summary


@pytest.mark.parametrize("mechanism", ["tlp", "rto", "after_rto", "unknown"])
def test_near_miss_other_mechanisms(hand_made: ModuleType, mechanism: str) -> None:
    assert not judge(repeated(hand_made, mechanism))


def test_near_miss_needless(hand_made: ModuleType) -> None:
    tables = repeated(hand_made)
    tables.packets.spurious[19] = SPURIOUS.index("true")
    assert not judge(tables)


def test_near_miss_repeat_that_was_lost_too(hand_made: ModuleType) -> None:
    """What repaired the loss in the end counts."""
    tables = repeated(hand_made)
    repeat(tables, 30, "rto")
    assert not judge(tables)


def test_time_belongs_to_what_took_most_of_it(hand_made: ModuleType) -> None:
    tables = repeated(hand_made)
    tables.holes = hand_made.holes(
        (0, "loss", 60, 70, 12, 20),
        (0, "loss", 65, 100, 13, 30),
    )
    repeat(tables, 30, "rto", seq=2)
    (row,) = judge(tables)
    assert row.cost_ns is None
    findings, _ = run(tables, select=["tcp/retransmission-timeout"])
    assert findings[0].cost_ns == 40 * MS


def test_a_loss_without_an_exchange_costs_nothing_that_is_known(hand_made: ModuleType) -> None:
    tables = repeated(hand_made)
    tables.exchanges, tables.ledger = [], hand_made.ledger()
    (row,) = judge(tables)
    assert (row.severity, row.cost_ns) == ("info", None)


def test_many_connections_of_a_server_are_one_finding(hand_made: ModuleType) -> None:
    count = 25
    tables = hand_made.tables(
        connections=[hand_made.connection(number) for number in range(count)],
        holes=hand_made.holes(
            *((n, "loss", 10, 20 + n, 2 * n + 1, 2 * n + 2) for n in range(count))
        ),
    )
    for number in range(count):
        repeat(tables, 2 * number + 2, "fast")
        tables.packets.connection_no[2 * number : 2 * number + 2] = number
        tables.packets.from_client[2 * number] = 1
    (row,) = judge(tables)
    assert (row.connection_no, row.count) == (None, count)
    assert row.connection_nos == list(range(count))
    assert row.measures["wait_max_ns"] == 34 * MS
    assert row.examples[0].packet_nos == [49, 50]


def test_two_connections_are_two(hand_made: ModuleType) -> None:
    tables = repeated(hand_made)
    tables.connections.append(hand_made.connection(1))
    repeat(tables, 40, "fast")
    tables.packets.connection_no[38:40] = 1
    tables.packets.from_client[38] = 1
    rows = judge(tables)
    assert sorted(row.connection_no or 0 for row in rows) == [0, 1]
    assert {row.count for row in rows} == {1}
    assert np.array([row.cost_ns or 0 for row in rows]).sum() == 40 * MS


def test_near_miss_one_side_only(hand_made: ModuleType) -> None:
    """Without the receiver's reports the mechanism is a guess."""
    tables = repeated(hand_made)
    tables.packets.from_client[:] = 0
    assert not judge(tables)
