"""tls/ocsp-not-stapled on tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.certificates import Certificate, OcspFetch
from capture_analyzer.model.findings import Finding


def judge(
    hand_made: ModuleType,
    *,
    requested: bool = True,
    fetches: tuple[OcspFetch, ...] = (),
    **values: Any,
) -> list[Finding]:
    """The findings about a server with such a certificate."""
    certificate = Certificate(0, 0, [0], **{"ocsp_responder": "ocsp.example", **values})
    tls = hand_made.tls(ocsp_requested=requested)
    tables = hand_made.tables(
        connections=[hand_made.connection(tls=tls)],
        certificates=[certificate],
        ocsp_fetches=list(fetches),
    )
    findings, _ = run(tables, select=["tls/ocsp-not-stapled"])
    return findings


def test_it_fires(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made)
    assert (row.severity, row.connection_no) == ("info", 0)
    assert row.summary == "api.example stapled no OCSP response."


def test_must_staple(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, must_staple=True)
    assert row.severity == "warning"
    assert row.summary == (
        "api.example stapled no OCSP response, although the certificate demands it."
    )


def test_a_fetch_is_named(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, fetches=(OcspFetch(connection_no=0),))
    assert row.summary.endswith("; its client then asked ocsp.example itself.")
    (row,) = judge(hand_made, fetches=(OcspFetch(connection_no=5),))
    assert "asked" not in row.summary


def test_near_misses(hand_made: ModuleType) -> None:
    assert not judge(hand_made, ocsp_responder=None), "nothing to staple"
    assert not judge(hand_made, requested=False), "not asked for"
    assert not judge(hand_made, staple_bytes=475), "stapled"
