"""http/stale-connection on tables made by hand: signs of life, the repeat, the wording."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.packets import ACK, FIN, RST

MS = 1_000_000
# What each packet is: instant in ms, by the client, flags, sequence number, acknowledgement,
# payload, connection. The request begins at byte 100 of the client's stream.
USED = ((0, True, ACK, 0, 0, 100, 0), (40, False, ACK, 0, 100, 500, 0))
ASKED = (5000, True, ACK, 100, 500, 100, 0)
RESET = (5040, False, RST, 500, 0, 0, 0)
AGAIN = ((5100, True, ACK, 0, 0, 100, 1), (5140, False, ACK, 0, 100, 500, 1))


def judge(tables: Any, **options: object) -> list[Finding]:
    findings, outcomes = run(
        tables, select=["http/stale-connection"], settings={"http/stale-connection": options}
    )
    assert {row.outcome for row in outcomes if row.reason is None} == {"ran"}
    return findings


def tables(hand_made: ModuleType, *rows: tuple[Any, ...], **retry: Any) -> Any:
    """Two connections: a request on the first goes unanswered, and follows on the second."""
    rows = tuple(sorted((*USED, ASKED, *rows)))
    time, client, flags, seq, ack, payload, connection = zip(*rows, strict=True)
    packets = hand_made.packets(
        len(rows),
        time_ns=np.array(time) * MS,
        from_client=client,
        flags=flags,
        seq=seq,
        ack=ack,
        payload_bytes=payload,
        tcp_header_bytes=20,
        connection_no=connection,
    )
    nothing = {"response_start_ns": None, "end_ns": None, "status": None}
    exchanges = [
        hand_made.exchange(0, 0, 40, complete=True, response_seen_ns=40 * MS),
        hand_made.exchange(
            1, 5000, 5040, request_first_packet_no=3, request_last_packet_no=3, **nothing
        ),
    ]
    if retry.pop("retried", True):
        found = hand_made.exchange(
            2, 5100, 5140, connection_no=1, **{"response_seen_ns": 5140 * MS, **retry}
        )
        exchanges.append(found)
    connections = [hand_made.connection(), hand_made.connection(1, start_ns=5060 * MS)]
    return hand_made.tables(packets=packets, connections=connections, exchanges=exchanges)


def test_a_reset_and_a_repeat(hand_made: ModuleType) -> None:
    (row,) = judge(tables(hand_made, RESET, *AGAIN))
    assert row.severity == "warning"
    assert row.estimated_saving_ns == 100 * MS
    assert row.exchange_nos == [1, 2]
    assert row.confidence == 0.95
    assert "idle for 4.96" in row.summary
    assert 4 in row.packet_nos
    assert row.measures["idle_min_ns"] == 4960 * MS


def test_another_request_follows(hand_made: ModuleType) -> None:
    assert judge(tables(hand_made, RESET, *AGAIN, path="/else"))[0].measures["not_repeated"] == 1


def test_no_repeat_is_a_failed_request(hand_made: ModuleType) -> None:
    (row,) = judge(tables(hand_made, RESET, retried=False))
    assert row.severity == "critical"
    assert row.confidence == 0.6
    assert "failed" in row.summary


@pytest.mark.parametrize(("copies", "fires"), [(1, True), (0, False)])
def test_silence_needs_a_repeated_segment(hand_made: ModuleType, copies: int, fires: bool) -> None:
    again = [(5300, True, ACK, 100, 500, 100, 0)] * copies
    assert bool(judge(tables(hand_made, *again, *AGAIN))) == fires


def test_silence_without_an_answer_elsewhere_is_no_proof(hand_made: ModuleType) -> None:
    again = (5300, True, ACK, 100, 500, 100, 0)
    assert not judge(tables(hand_made, again, retried=False))
    assert not judge(tables(hand_made, again, *AGAIN[:1], response_seen_ns=None))


@pytest.mark.parametrize(
    "sign",
    [
        (5020, False, ACK, 500, 200, 0, 0),  # it acknowledged the request
        (4500, False, ACK, 500, 100, 0, 0),  # it answered a keep-alive just before
    ],
)
def test_signs_of_life(hand_made: ModuleType, sign: tuple[Any, ...]) -> None:
    rows = tables(hand_made, sign, RESET, *AGAIN)
    if sign[0] < 5000:
        rows.exchanges[1].request_first_packet_no = 4
    assert not judge(rows)


@pytest.mark.parametrize("at_ms", [5010, 4990])
def test_a_fin_around_the_request_is_no_life(hand_made: ModuleType, at_ms: int) -> None:
    """The server closed the connection as idle just then; its FIN may have been ignored."""
    rows = tables(hand_made, (at_ms, False, ACK | FIN, 500, 100, 0, 0), RESET, *AGAIN)
    if at_ms < 5000:
        rows.exchanges[1].request_first_packet_no = 4
    (row,) = judge(rows)
    assert row.measures["idle_min_ns"] == 4960 * MS


def test_options(hand_made: ModuleType) -> None:
    assert not judge(tables(hand_made, RESET, *AGAIN), idle_ms=6000)
    late = judge(tables(hand_made, RESET, *AGAIN), retry_s=0)
    assert late[0].measures["not_repeated"] == 1


def test_an_answer_that_was_cut_is_none(hand_made: ModuleType) -> None:
    rows = tables(hand_made, RESET, *AGAIN)
    rows.exchanges[1].response_seen_ns = 5030 * MS
    rows.exchanges.columns.response_seen_ns[1] = 5030 * MS
    assert not judge(rows)
