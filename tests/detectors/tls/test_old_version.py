"""tls/old-version on tables made by hand."""

from __future__ import annotations

from types import ModuleType

import pytest

from capture_analyzer.detectors.runner import run


@pytest.mark.parametrize(
    ("version", "fires"),
    [("SSL 3.0", 1), ("TLS 1.0", 1), ("TLS 1.1", 1), ("TLS 1.2", 0), ("TLS 1.3", 0), (None, 0)],
)
def test_versions(hand_made: ModuleType, version: str | None, fires: int) -> None:
    tables = hand_made.tables(
        connections=[hand_made.connection(tls=hand_made.tls(version=version))]
    )
    findings, _ = run(tables, select=["tls/old-version"])
    assert len(findings) == fires


def test_one_finding_a_server(hand_made: ModuleType) -> None:
    old = [hand_made.tls(version=version) for version in ("TLS 1.1", "TLS 1.0", "TLS 1.1")]
    names = ("a.example", "a.example", "b.example")
    rows = [
        hand_made.connection(no, tls=tls, server_name=name)
        for no, (tls, name) in enumerate(zip(old, names, strict=True))
    ]
    findings, _ = run(hand_made.tables(connections=rows), select=["tls/old-version"])
    assert [row.connection_nos for row in findings] == [[0, 1], [2]]
    assert findings[0].summary == (
        "Two connections to a.example used TLS 1.0, which is deprecated."
    )
    assert findings[0].display_filter == "tcp.stream in {0, 1}"
