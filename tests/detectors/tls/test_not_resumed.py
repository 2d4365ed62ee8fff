"""tls/not-resumed on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding

MS = 1_000_000


def judge(hand_made: ModuleType, *rows: dict[str, Any]) -> list[Finding]:
    """The findings about connections with such handshakes of 30 ms, in order."""
    connections = []
    for number, row in enumerate(rows):
        start = row.pop("start_ms", 100 * number) * MS
        client = row.pop("client_ip", "192.0.2.1")
        name = row.pop("server_name", "api.example")
        values = {"resumed": False, "resumption_offered": False, "version": "TLS 1.2", **row}
        tls = hand_made.tls(start_ns=start, end_ns=start + 30 * MS, **values)
        connections.append(
            hand_made.connection(
                number, tls=tls, client_ip=client, server_name=name, rtt_ns=20 * MS
            )
        )
    findings, _ = run(hand_made.tables(connections=connections), select=["tls/not-resumed"])
    return findings


def test_an_earlier_session(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, {}, {}, {})
    assert (row.connection_nos, row.severity, row.estimated_saving_ns) == ([1, 2], "info", 40 * MS)
    assert row.summary == (
        "Two of three TLS handshakes with api.example were full although an earlier session "
        "could have been resumed: the client offered no session."
    )


def test_a_session_that_was_refused(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, {"resumption_offered": True, "version": "TLS 1.3"})
    assert row.confidence == 1.0
    assert row.estimated_saving_ns is None, "TLS 1.3 saves work, no round trip"
    assert row.summary.endswith("the server did not take the session that its client offered.")


def test_near_misses(hand_made: ModuleType) -> None:
    assert not judge(hand_made, {}), "first contact"
    assert not judge(hand_made, {}, {"resumed": True, "resumption_offered": True})
    assert not judge(hand_made, {}, {"start_ms": 10}), "both at once: no session yet"
    assert not judge(hand_made, {}, {"client_ip": "192.0.2.9"}), "another client"
    assert not judge(hand_made, {}, {"server_name": "b.example"}), "another server"
    assert not judge(hand_made, {}, {"resumed": None}), "not known"
