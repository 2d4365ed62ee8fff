"""tls/slow-handshake on tables made by hand: the steps, and what else takes time."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from capture_analyzer.api import analyze
from capture_analyzer.detectors.runner import run
from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.packets import LABELS
from capture_analyzer.model.tls_records import ROLE_CODE, HandshakeMessage

MS = 1_000_000


def judge(
    hand_made: ModuleType,
    hello: float,
    server_hello: float,
    done: float,
    client: float,
    *,
    cause: str = "tls_handshake",
    again_ms: int | None = None,
    rtt_ms: int = 30,
) -> list[Finding]:
    """The findings about a handshake of TLS 1.2 with steps at these times (ms)."""
    steps = [
        ("client_hello", True, hello),
        ("client_key_exchange", True, client),
        ("server_hello", False, server_hello),
        ("server_hello_done", False, done),
    ]
    messages = [
        HandshakeMessage(0, who, kind, 50, at, at, round(time * MS), round(time * MS))
        for at, (kind, who, time) in enumerate(steps, 4)
    ]
    records = hand_made.tls_records((0, 22, 4), (0, 22, 5), (0, 22, 6), (0, 22, 7))
    records.from_client[:] = [True, True, False, False]
    records.role[:], records.complete[:], records.length[:] = ROLE_CODE["handshake"], True, 50
    records.seen_ns[:] = records.complete_ns[:] = [round(time * MS) for _, _, time in steps]
    end = client + rtt_ms
    tls = hand_made.tls(version="TLS 1.2", start_ns=round(hello * MS), end_ns=round(end * MS))
    tls.duration_ns = tls.end_ns - tls.start_ns
    packets = hand_made.packets(100)
    packets.connection_no[:] = 0
    if again_ms is not None:
        packets.label[50], packets.time_ns[50] = LABELS.index("retransmission"), again_ms * MS
    tables = hand_made.tables(
        packets=packets,
        connections=[hand_made.connection(tls=tls, rtt_ns=rtt_ms * MS, client_side_rtt_ns=0)],
        handshake_messages=messages,
        tls_records=records,
        exchanges=[hand_made.exchange(0, 0, end + 100, carries_setup=True)],
        ledger=hand_made.ledger((0, 0, end, cause), (0, end, end + 100, "server_think")),
    )
    findings, _ = run(tables, select=["tls/slow-handshake"])
    return findings


def test_each_step_is_named(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, 30, 311, 312, 313)
    assert (row.measures["side"], row.measures["step"]) == (
        "server",
        "from ClientHello to ServerHello",
    )
    assert row.estimated_saving_ns == 251 * MS
    (row,) = judge(hand_made, 30, 61, 262, 263)
    assert row.measures["step"] == "from ServerHello to its Finished"
    (row,) = judge(hand_made, 30, 61, 62, 200)
    assert row.measures["side"] == "client"
    assert row.summary.replace("\u00a0", " ") == (
        "The client of api.example took 138 ms longer than the round trip in its TLS handshake, "
        "from the server's flight to its own."
    )


def test_thresholds(hand_made: ModuleType) -> None:
    assert judge(hand_made, 30, 111, 112, 113)
    assert not judge(hand_made, 30, 109, 110, 111)


def test_a_long_path_with_prompt_sides_is_none(hand_made: ModuleType) -> None:
    assert not judge(hand_made, 300, 601, 602, 603, rtt_ms=300)


def test_time_that_has_another_cause_is_none(hand_made: ModuleType) -> None:
    assert not judge(hand_made, 30, 61, 62, 400, cause="ocsp_fetch")


def test_a_repeated_segment_is_no_slow_side(hand_made: ModuleType) -> None:
    assert not judge(hand_made, 30, 311, 312, 313, again_ms=200)
    assert judge(hand_made, 30, 311, 312, 313, again_ms=400)


def test_the_cost_is_the_ledgers_time_beyond_the_round_trip(captures: Path) -> None:
    analysis = analyze(captures / "ocsp-staple-slow.pcap")
    (row,) = [row for row in analysis.findings if row.detector == "tls/slow-handshake"]
    ledger = analysis.tables.ledger
    assert row.estimated_saving_ns is None
    (entry,) = row.ledger_rows
    assert row.cost_ns == ledger.to_ns[entry] - ledger.from_ns[entry]
    assert row.cost_ns == pytest.approx(226 * MS, abs=MS)
    exchange = analysis.tables.exchanges[0]
    part = ledger.rows_of(exchange.exchange_no)
    mine = ledger.cause[part] == CAUSE_CODE["tls_handshake"]
    assert mine.sum() == 3, "in front of it, it, and behind it"
    total = (ledger.to_ns[part] - ledger.from_ns[part])[mine].sum()
    assert total == exchange.phases.tls_ns
