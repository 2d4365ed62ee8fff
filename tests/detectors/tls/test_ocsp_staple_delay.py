"""tls/ocsp-staple-delay on tables made by hand: compared with the server's other handshakes."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from capture_analyzer.api import analyze
from capture_analyzer.detectors.runner import run
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.tls_records import HandshakeMessage

MS = 1_000_000

Shake = tuple[float, float, bool]
"""Gaps beyond the round trip of 30 ms: to the ServerHello, to the Certificate; stapled."""


def judge(hand_made: ModuleType, *shakes: Shake) -> list[Finding]:
    """The findings about a server with such handshakes."""
    connections, messages = [], []
    for number, (first, second, stapled) in enumerate(shakes):
        begin = 1000.0 * number
        hello = begin + 30 + first
        times = [
            ("client_hello", True, begin),
            ("server_hello", False, hello),
            ("certificate", False, hello + second),
        ]
        messages += [
            HandshakeMessage(number, who, kind, 50, at, at, round(t * MS), round(t * MS))
            for at, (kind, who, t) in enumerate(times, 3 * number + 1)
        ]
        tls = hand_made.tls(
            version="TLS 1.2",
            ocsp_stapled=stapled,
            start_ns=round(begin * MS),
            end_ns=round((begin + 900) * MS),
            duration_ns=900 * MS,
        )
        connections.append(hand_made.connection(number, tls=tls, rtt_ns=30 * MS))
    tables = hand_made.tables(connections=connections, handshake_messages=messages)
    findings, _ = run(tables, select=["tls/ocsp-staple-delay"])
    return findings


def test_either_gap(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, (250, 1, True), (2, 1, True), (3, 1, False))
    assert (row.connection_nos, row.measures["before"]) == ([0], "ServerHello")
    assert row.confidence == 0.8
    (row,) = judge(hand_made, (1, 250, True), (2, 1, True))
    assert row.measures["before"] == "Certificate"
    assert row.estimated_saving_ns == 248 * MS


def test_nothing_to_compare_with(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, (250, 1, True))
    assert (row.severity, row.confidence) == ("info", 0.4)


def test_near_misses(hand_made: ModuleType) -> None:
    assert not judge(hand_made, (250, 1, True), (240, 1, True)), "uniformly slow"
    assert not judge(hand_made, (250, 1, True), (200, 1, False)), "slow without a staple as well"
    assert not judge(hand_made, (250, 1, False), (2, 1, True)), "slow, but not stapled"
    assert not judge(hand_made, (40, 1, True), (2, 1, True)), "not slow"


# The only handshake of a server: its answer to the client's Finished is what there is to compare


def found(captures: Path, name: str, *, keys: bool = False) -> list[Finding]:
    logs = [captures / f"{name}.keys"] if keys else []
    rows = analyze(captures / f"{name}.pcap", keylogs=logs).findings
    return [row for row in rows if row.detector == "tls/ocsp-staple-delay"]


def test_one_handshake_of_a_server_that_is_prompt_elsewhere(captures: Path) -> None:
    (row,) = found(captures, "ocsp13-staple-slow-once", keys=True)
    assert (row.severity, row.confidence) == ("warning", 0.6)
    assert row.measures["before"] == "ServerHello"
    assert "in its answer to the client's Finished" in row.summary
    assert len(row.packet_nos) == 2
    (row,) = found(captures, "ocsp13-staple-slow", keys=True)
    assert (row.severity, row.confidence) == ("warning", 0.8)


def test_a_server_that_is_slow_throughout(captures: Path) -> None:
    assert found(captures, "ocsp-staple-slow-throughout") == []
    assert found(captures, "ocsp-staple-slow-server") == []


def test_without_keys_the_staple_of_tls13_is_not_seen(captures: Path) -> None:
    analysis = analyze(captures / "ocsp13-staple-slow.pcap")
    assert "tls/slow-handshake" in {row.detector for row in analysis.findings}
    assert found(captures, "ocsp13-staple-slow") == []
