"""tls/handshake-failure on tables made by hand: alerts, closes, and what is no failure."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.tls_records import ROLE_CODE

MS = 1_000_000


def judge(
    hand_made: ModuleType,
    *,
    alert: str | None = None,
    end_ns: int | None = None,
    role: str = "handshake",
    others: tuple[Any, ...] = (),
    **connection: Any,
) -> list[Finding]:
    """The findings about a connection whose handshake began."""
    tls = hand_made.tls(start_ns=30 * MS, end_ns=end_ns, alert=alert)
    records = hand_made.tls_records((0, 22, 4), (0, 23, 6))
    records.complete[:], records.role[:] = True, ROLE_CODE[role]
    tables = hand_made.tables(
        connections=[hand_made.connection(0, tls=tls, **connection), *others],
        tls_records=records,
        exchanges=[hand_made.exchange(0, 0, 90)] if end_ns else [],
    )
    findings, _ = run(tables, select=["tls/handshake-failure"])
    return findings


def test_an_alert(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, alert="server: handshake_failure", fin_ns=70 * MS)
    assert row.summary == (
        "A TLS handshake with api.example failed: the server sent the alert handshake_failure."
    )
    assert (row.severity, row.confidence, row.connection_no) == ("critical", 1.0, 0)


def test_the_certificate_was_refused(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, alert="client: unknown_ca")
    assert row.advice.startswith("Look at the certificate of api.example")


def test_without_a_readable_alert(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, role="alert", fin_ns=70 * MS)
    assert "an alert that is encrypted" in row.summary
    assert row.packet_nos == [6]
    (row,) = judge(hand_made, reset_ns=70 * MS, reset_by="server")
    assert row.summary.endswith("failed: the server reset it.")
    (row,) = judge(hand_made, fin_ns=70 * MS)
    assert row.summary.endswith("failed: the connection was closed.")
    assert row.confidence == 0.8


def test_another_connection_succeeded(hand_made: ModuleType) -> None:
    good = hand_made.connection(1, tls=hand_made.tls(start_ns=0, end_ns=30 * MS))
    (row,) = judge(hand_made, alert="server: handshake_failure", others=(good,))
    assert row.severity == "warning"


def test_near_misses(hand_made: ModuleType) -> None:
    assert not judge(hand_made, end_ns=60 * MS, fin_ns=90 * MS), "it was completed"
    assert not judge(hand_made), "the capture ends"
    assert not judge(hand_made, fin_ns=70 * MS, missing_bytes=5), "the capture lacks some of it"
