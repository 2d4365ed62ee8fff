"""tcp/queueing-delay on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.limits import Queues

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, _ = run(tables, select=["tcp/queueing-delay"])
    return findings


def queue(hand_made: ModuleType, largest_ms: float, *exchanges: Any) -> Any:
    times = {"from_ns": 100, "to_ns": 1100, "smallest_ns": 30, "typical_ns": 180}
    columns: dict[str, Any] = {name: np.array([value * MS]) for name, value in times.items()}
    columns["largest_ns"] = np.array([round(largest_ms * MS)])
    packets = {"first_packet_no": 20, "largest_packet_no": 40, "last_packet_no": 60}
    columns |= {name: np.array([value], np.int32) for name, value in packets.items()}
    return hand_made.tables(
        connections=[hand_made.connection(0), hand_made.connection(1)],
        exchanges=list(exchanges),
        ledger=hand_made.ledger(*((n, 200, 400, "unknown") for n in range(len(exchanges)))),
        queues=Queues(
            connection_no=np.array([0], np.int32),
            from_client=np.array([False]),
            samples=np.array([40]),
            **columns,
        ),
    )


def test_long_queue(hand_made: ModuleType) -> None:
    (row,) = judge(queue(hand_made, 210))
    assert (row.severity, row.cost_ns, row.packet_nos) == ("info", None, [20, 40, 60])
    assert row.summary.replace("\u00a0", " ") == (
        "While data from api.example was transferred, the round trip grew from 30 ms to 210 ms, "
        "for 1.00 s."
    )


def test_very_long_queue_is_a_warning(hand_made: ModuleType) -> None:
    (row,) = judge(queue(hand_made, 600))
    assert row.severity == "warning"


def test_another_request_that_waits_makes_it_a_warning(hand_made: ModuleType) -> None:
    other = hand_made.exchange(0, 200, 400, connection_no=1)
    (row,) = judge(queue(hand_made, 210, other))
    assert (row.severity, row.exchange_nos) == ("warning", [0])


def test_the_transfer_itself_does_not(hand_made: ModuleType) -> None:
    (row,) = judge(queue(hand_made, 210, hand_made.exchange(0, 200, 400, connection_no=0)))
    assert row.severity == "info"


def test_near_miss_no_queue(hand_made: ModuleType) -> None:
    assert not judge(hand_made.tables(connections=[hand_made.connection(0)]))
