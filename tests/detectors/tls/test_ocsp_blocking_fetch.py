"""tls/ocsp-blocking-fetch on tables made by hand: the ledger's time, whose it is."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.certificates import OcspFetch
from capture_analyzer.model.findings import Finding

MS = 1_000_000


def judge(hand_made: ModuleType, *, confidence: float = 1.0, **values: Any) -> list[Finding]:
    """The findings where exchange 0 waited 365 of its 500 ms for a responder."""
    fetch = OcspFetch(
        **{
            "exchange_no": 1,
            "responder": "ocsp.example",
            "asked_connection_no": 1,
            "connection_no": 0,
            "tied_by": "certificate",
            "phase": "handshake",
            "from_ns": 60 * MS,
            "to_ns": 424 * MS,
            "outcome": "answered",
            "waited_until_ns": 425 * MS,
            "first_packet_no": 14,
            "last_packet_no": 19,
            "next_packet_no": 22,
            **values,
        }
    )
    cause = "ocsp_fetch" if fetch.waited_until_ns is not None else "tls_handshake"
    entries = [(0, 0, 60, "tls_handshake"), (0, 60, 425, cause), (0, 425, 500, "network_rtt")]
    tables = hand_made.tables(
        connections=[hand_made.connection(0), hand_made.connection(1, server_port=80)],
        exchanges=[hand_made.exchange(0, 0, 500)],
        ledger=hand_made.ledger(*entries, confidence=confidence),
        ocsp_fetches=[fetch],
    )
    findings, _ = run(tables, select=["tls/ocsp-blocking-fetch"])
    return findings


def test_what_it_says(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made)
    assert row.summary.replace("\u00a0", " ") == (
        "A client of api.example waited 0.36 s for the OCSP responder ocsp.example."
    )
    assert (row.cost_ns, row.severity, row.confidence) == (365 * MS, "warning", 1.0)
    assert (row.connection_no, row.exchange_nos, row.packet_nos) == (0, [0], [14, 19, 22])


def test_known_by_time_only(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, confidence=0.7, tied_by="time")
    assert row.confidence == 0.7
    assert "seems to have waited" in row.summary


def test_an_answer_that_never_came(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, outcome="given_up")
    assert row.summary.endswith("ocsp.example, which did not answer.")


def test_a_fetch_beside_is_none(hand_made: ModuleType) -> None:
    assert not judge(hand_made, phase="beside", waited_until_ns=None)
