"""tcp/syn-retransmission on tables made by hand: what counts as a repeat, and what it cost."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.packets import LABELS

MS = 1_000_000


def judge(tables: Any) -> list[Finding]:
    findings, outcomes = run(tables, select=["tcp/syn-retransmission"])
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def retried(hand_made: ModuleType, number: int = 0, **values: Any) -> Any:
    """A connection whose SYN (packet 1) was repeated (2) and answered (3), then confirmed (4)."""
    defaults = {
        "syn_packet_no": 1,
        "syn_ack_packet_no": 3,
        "established_packet_no": 4,
        "syn_ns": 0,
        "syn_last_ns": 1030 * MS,
        "syn_ack_ns": 1060 * MS,
        "syn_retransmissions": 1,
        "retry_packet_nos": [2],
        "vantage_side": "client",
    }
    return hand_made.connection(number, **{**defaults, **values})


def lost_syn(hand_made: ModuleType, length_ms: float = 1130, **values: Any) -> Any:
    """Tables with one exchange that waited 1030 ms for a repeated SYN."""
    tables = hand_made.tables(
        connections=[retried(hand_made, **values)],
        exchanges=[hand_made.exchange(0, 0, length_ms, carries_setup=True)],
        ledger=hand_made.ledger(
            (0, 0, 1030, "syn_retry"),
            (0, 1030, 1060, "tcp_handshake"),
            (0, 1060, length_ms, "unknown"),
        ),
    )
    tables.packets.time_ns[:4] = np.array([0, 1030, 1060, 1060]) * MS
    tables.packets.from_client[:4] = [1, 1, 0, 1]
    return tables


def test_lost_syn(hand_made: ModuleType) -> None:
    (row,) = judge(lost_syn(hand_made))
    assert row.severity == "critical"
    assert row.summary.replace("\u00a0", " ") == (
        "A connection request to api.example was lost and repeated after 1.03 s."
    )
    assert row.action == "Find where the SYN to api.example was dropped"
    assert row.cost_ns == 1030 * MS
    assert row.packet_nos == [1, 2, 3]
    assert (row.connection_no, row.exchange_nos, row.count) == (0, [0], 1)
    assert (row.from_ns, row.to_ns) == (0, 1030 * MS)
    assert row.ledger_rows == [0]


def test_less_than_half_of_the_exchange_is_a_warning(hand_made: ModuleType) -> None:
    (row,) = judge(lost_syn(hand_made, length_ms=2100))
    assert row.severity == "warning"


def test_repeat_that_delayed_no_exchange_is_info(hand_made: ModuleType) -> None:
    tables = lost_syn(hand_made)
    tables.exchanges, tables.ledger = [], hand_made.ledger()
    (row,) = judge(tables)
    assert (row.severity, row.cost_ns) == ("info", None)


@pytest.mark.parametrize("label", ["network_duplicate", "capture_duplicate"])
def test_near_miss_copy_made_on_the_way(hand_made: ModuleType, label: str) -> None:
    tables = lost_syn(hand_made)
    tables.packets.label[1] = LABELS.index(label)
    assert not judge(tables)


def test_near_miss_try_again_after_a_refusal(hand_made: ModuleType) -> None:
    tables = lost_syn(
        hand_made,
        refused=True,
        reset_ns=30 * MS,
        syn_ack_packet_no=None,
        established_packet_no=None,
    )
    assert not judge(tables)
    # Lost first, refused only when it was repeated: that is a repeat.
    tables.connections[0].reset_ns = 1060 * MS
    assert len(judge(tables)) == 1


def test_near_miss_repeat_after_the_connection_was_up(hand_made: ModuleType) -> None:
    tables = lost_syn(hand_made, established_packet_no=2, retry_packet_nos=[3])
    assert not judge(tables)


def test_near_miss_no_repeat(hand_made: ModuleType) -> None:
    assert not judge(lost_syn(hand_made, syn_retransmissions=0, retry_packet_nos=[]))


def test_repeated_answer(hand_made: ModuleType) -> None:
    tables = lost_syn(hand_made)
    tables.packets.from_client[:4] = [1, 0, 0, 1]
    (row,) = judge(tables)
    assert row.summary.startswith("The answer (SYN-ACK) of api.example was lost and repeated")
    assert row.action == "Find where the SYN-ACK of api.example was dropped"


def test_at_the_server_a_syn_that_arrived_was_not_lost(hand_made: ModuleType) -> None:
    (row,) = judge(lost_syn(hand_made, vantage_side="server"))
    assert "was not answered and repeated after" in row.summary
    assert row.action == "Find why api.example left a SYN unanswered"


def test_never_answered(hand_made: ModuleType) -> None:
    tables = lost_syn(
        hand_made, syn_ack_packet_no=None, established_packet_no=None, retry_packet_nos=[2, 3]
    )
    tables.packets.from_client[2] = 1
    tables.exchanges, tables.ledger = [], hand_made.ledger()
    (row,) = judge(tables)
    assert row.severity == "warning"
    assert row.summary == (
        "A connection request to api.example was repeated twice and never answered."
    )
    assert row.cost_ns is None


def test_answer_missing_from_the_capture_is_not_called_unanswered(hand_made: ModuleType) -> None:
    tables = lost_syn(hand_made, syn_ack_packet_no=None, client_bytes=100)
    (row,) = judge(tables)
    assert "never answered" not in row.summary


def test_connections_to_one_server_are_one_finding(hand_made: ModuleType) -> None:
    tables = hand_made.tables(
        connections=[
            retried(hand_made, 0),
            retried(hand_made, 1, syn_packet_no=11, retry_packet_nos=[12], syn_ack_packet_no=13),
            hand_made.connection(2, syn_packet_no=21),
            retried(hand_made, 3, server_name="other.example"),
        ],
        exchanges=[
            hand_made.exchange(number, 0, 1130, connection_no=number) for number in range(2)
        ],
        ledger=hand_made.ledger(
            (0, 0, 1030, "syn_retry"),
            (0, 1030, 1130, "unknown"),
            (1, 0, 1100, "syn_retry"),
            (1, 1100, 1130, "unknown"),
        ),
    )
    tables.packets.time_ns[[1, 11]] = [1030 * MS, 1100 * MS]
    for connection in tables.connections:
        if connection.retry_packet_nos == [12]:
            connection.established_packet_no = 14
    row, other = judge(tables)
    assert row.count == 2
    assert row.cost_ns == 2130 * MS
    assert row.summary.replace("\u00a0", " ") == (
        "Two of three connection requests to api.example were lost and repeated after "
        "1.03 to 1.10 s."
    )
    assert [example.cost_ns for example in row.examples] == [1100 * MS, 1030 * MS]
    assert row.packet_nos == [1, 2, 3, 11, 12, 13]
    assert other.connection_no == 3


def test_failed_attempt_before_the_connection_that_carried_the_exchange(
    hand_made: ModuleType,
) -> None:
    failed = retried(
        hand_made, 0, server_ip="2001:db8::1", syn_ack_packet_no=None, established_packet_no=None
    )
    tables = hand_made.tables(
        connections=[failed, hand_made.connection(1)],
        exchanges=[hand_made.exchange(0, 0, 1130, connection_no=1, setup_connection_nos=[0])],
        ledger=hand_made.ledger((0, 0, 1030, "syn_retry"), (0, 1030, 1130, "unknown")),
    )
    (row,) = judge(tables)
    assert row.cost_ns == 1030 * MS
    assert row.connection_no == 0
    assert row.exchange_nos == [0]
