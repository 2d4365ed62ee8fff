"""tcp/connect-timeout on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["tcp/connect-timeout", "tcp/syn-retransmission"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return [row for row in findings if row.detector == "tcp/connect-timeout"]


def silent(hand_made: ModuleType, number: int = 0, **values: Any) -> Any:
    """Two SYNs a second apart, and nothing else."""
    defaults = {
        "syn_packet_no": 1,
        "syn_ns": 0,
        "end_ns": 1000 * MS,
        "retry_packet_nos": [2],
        "syn_retransmissions": 1,
        "packet_count": 2,
    }
    return hand_made.connection(number, **{**defaults, **values})


def tables(hand_made: ModuleType, *connections: Any, end_ms: float, **values: Any) -> Any:
    """A capture that lasts until `end_ms`."""
    made = hand_made.tables(connections=list(connections), **values)
    made.packets.time_ns[:] = np.linspace(0, end_ms * MS, len(made.packets)).astype(np.int64)
    return made


def test_nothing_came(hand_made: ModuleType) -> None:
    (row,) = judge(tables(hand_made, silent(hand_made), end_ms=9000))
    assert (row.severity, row.count, row.packet_nos) == ("critical", 1, [1, 2])
    assert row.summary.replace("\u00a0", " ") == (
        "A connection request to api.example (port 443) got no answer to two SYNs; the client gave "
        "up after 1.00 s."
    )


def test_next_attempt_shows_that_the_client_gave_up(hand_made: ModuleType) -> None:
    """Its time is the one that tcp/syn-retransmission holds."""
    second = hand_made.connection(1, syn_ns=2500 * MS, established_ns=2530 * MS)
    made = tables(
        hand_made,
        silent(hand_made),
        second,
        end_ms=2700,
        exchanges=[
            hand_made.exchange(
                0, 0, 2600, connection_no=1, carries_setup=True, setup_connection_nos=[0]
            )
        ],
        ledger=hand_made.ledger((0, 0, 2500, "syn_retry"), (0, 2500, 2600, "transfer")),
    )
    (row,) = judge(made)
    assert (row.severity, row.cost_ns, row.exchange_nos) == ("critical", 2500 * MS, [0])
    assert row.counted_in is not None
    assert row.summary.replace("\u00a0", " ").endswith(
        "the client gave up after 2.50 s, and another attempt succeeded."
    )


def test_near_miss_capture_ends_before_the_next_syn_was_due(hand_made: ModuleType) -> None:
    assert not judge(tables(hand_made, silent(hand_made), end_ms=2900))


@pytest.mark.parametrize(
    "values",
    [
        {"refused": True, "reset_ns": 20 * MS},
        {"syn_ack_ns": 30 * MS},
        {"client_bytes": 100},
        {"syn_ns": None},
    ],
)
def test_near_miss_answered(hand_made: ModuleType, values: dict[str, Any]) -> None:
    assert not judge(tables(hand_made, silent(hand_made, **values), end_ms=9000))
