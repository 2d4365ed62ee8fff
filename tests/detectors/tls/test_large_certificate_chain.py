"""tls/large-certificate-chain on tables made by hand: the window and the pause."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.tls_records import ROLE_CODE

MS = 1_000_000


def judge(hand_made: ModuleType, size: int, last_ms: float, **tls: Any) -> list[Finding]:
    """The findings about a server's flight of this size, begun at 60 ms, done at `last_ms`."""
    records = hand_made.tls_records((0, 22, 4), (0, 22, 6), (0, 22, 8))
    records.from_client[:] = [True, False, False]
    records.role[:], records.complete[:] = ROLE_CODE["handshake"], True
    records.offset[:], records.length[:] = [0, 0, 100], [300, 95, size - 105]
    records.seen_ns[:] = [30 * MS, 60 * MS, 60 * MS]
    records.complete_ns[:] = [30 * MS, 60 * MS, round(last_ms * MS)]
    tables = hand_made.tables(
        connections=[
            hand_made.connection(
                tls=hand_made.tls(**tls), rtt_ns=30 * MS, mss_client=1460, mss_server=1460
            )
        ],
        tls_records=records,
        exchanges=[hand_made.exchange(0, 0, 200, carries_setup=True)],
        ledger=hand_made.ledger((0, 0, 200, "tls_handshake")),
    )
    findings, _ = run(tables, select=["tls/large-certificate-chain"])
    return findings


def test_it_fires(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, 18_000, 91)
    assert (row.severity, row.estimated_saving_ns) == ("warning", 30 * MS)
    assert row.summary.replace("\u00a0", " ") == (
        "api.example sent 18 KB before the client could go on, more than its initial window: "
        "one round trip (30 ms) more."
    )


def test_near_misses(hand_made: ModuleType) -> None:
    assert not judge(hand_made, 14_000, 91), "it fits: the server paused for something else"
    assert not judge(hand_made, 18_000, 65), "it came at once: the window is larger"
    assert not judge(hand_made, 18_000, 91, resumed=True), "no certificate"
