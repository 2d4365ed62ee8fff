"""OCSP fetches and certificates, on captures whose truth is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from capture_analyzer.api import analyze
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.certificates import OcspFetch

MS = 1_000_000


def booked_ns(tables: Tables) -> int:
    """Time on cause ocsp_fetch in all ledgers."""
    ledger = tables.ledger
    mine = ledger.cause == CAUSE_CODE["ocsp_fetch"]
    return int((ledger.to_ns[mine] - ledger.from_ns[mine]).sum())


def only(tables: Tables) -> OcspFetch:
    (fetch,) = tables.ocsp_fetches
    return fetch


@pytest.mark.parametrize(
    ("name", "phase", "outcome", "least_ms", "most_ms"),
    [
        ("ocsp-fetch-in-handshake", "handshake", "answered", 350, 385),
        ("ocsp-fetch-before-request", "request", "answered", 350, 385),
        ("ocsp-fetch-given-up", "handshake", "given_up", 275, 305),
        ("ocsp-fetch-beside", "beside", "answered", 0, 0),
    ],
)
def test_what_waited(
    captures: Path, name: str, phase: str, outcome: str, least_ms: int, most_ms: int
) -> None:
    tables = analyze(captures / f"{name}.pcap").tables
    fetch = only(tables)
    assert (fetch.phase, fetch.outcome, fetch.tied_by) == (phase, outcome, "certificate")
    assert (fetch.responder, fetch.connection_no) == ("ocsp.ca.example", 0)
    assert (fetch.waited_until_ns is None) == (phase == "beside")
    assert least_ms * MS <= booked_ns(tables) <= most_ms * MS
    first = next(x for x in tables.exchanges if x.connection_no == 0)
    assert first.carries_setup, "what it waited for has a name"
    assert fetch.exchange_no is not None
    asked = tables.exchanges[fetch.exchange_no]
    assert asked.connection_no == fetch.asked_connection_no


def test_the_responders_lookup_is_part_of_the_fetch(captures: Path) -> None:
    tables = analyze(captures / "ocsp-fetch-in-handshake.pcap").tables
    (lookup,) = tables.lookups
    assert only(tables).from_ns == lookup.start_ns


@pytest.mark.parametrize("level", ["hosts", "paths"])
@pytest.mark.parametrize("name", ["ocsp-fetch-in-handshake", "ocsp-fetch-before-request"])
def test_redaction_keeps_the_verdict(captures: Path, name: str, level: str) -> None:
    tables = analyze(captures / f"{name}.pcap", redact=level).tables
    fetch = only(tables)
    assert fetch.waited_until_ns is not None
    if level == "hosts":
        names = {fetch.responder, *(c.ocsp_responder for c in tables.certificates[:1])}
        assert len(names) == 1, "one pseudonym for one host"
        assert "ca.example" not in str(tables.certificates) + str(tables.ocsp_fetches)


def test_certificates(captures: Path) -> None:
    tables = analyze(captures / "ocsp-stapled.pcap").tables
    own, authority = tables.certificates
    assert (own.name, own.position, own.connection_nos) == ("api.example", 0, [0])
    assert (own.staple_response, own.staple_status, own.staple_for_this) == (
        "successful",
        "good",
        True,
    )
    assert own.not_after_ns is not None
    assert round(own.not_after_ns / 86_400e9) == 60
    assert (authority.name, authority.self_signed, authority.staple_bytes) == (None, True, None)
    assert not tables.anomalies


def test_a_chain_is_one_however_often_it_is_shown(captures: Path) -> None:
    tables = analyze(captures / "tls-not-resumed.pcap").tables
    assert [row.connection_nos for row in tables.certificates] == [[0, 1, 2], [0, 1, 2]]


def test_chains_inside_tls13(captures: Path) -> None:
    name = captures / "tls13-aes128"
    keyed = analyze(f"{name}.pcap", keylogs=[f"{name}.keys"]).tables
    assert [row.position for row in keyed.certificates] == [0, 1]
    assert keyed.connections[0].tls is not None
    assert keyed.connections[0].tls.ocsp_stapled is False
    blind = analyze(f"{name}.pcap").tables
    assert blind.certificates == []
    assert blind.connections[0].tls is not None
    assert blind.connections[0].tls.ocsp_stapled is None


@pytest.mark.shared
@pytest.mark.parametrize(
    ("variant", "phase"),
    [("fetch-in-handshake", "handshake"), ("fetch-after", "request"), ("race", "beside")],
)
@pytest.mark.parametrize("keys", [True, False])
def test_in_the_lab(lab: Path, variant: str, phase: str, keys: bool) -> None:
    run = lab / "ocsp" / f"tls13-no-staple-{variant}"
    tables = analyze(run / "client.pcap", keylogs=[run / "keys.log"] if keys else []).tables
    fetch = only(tables)
    assert fetch.phase == phase
    assert fetch.tied_by == ("certificate" if keys else "time")
    if phase != "beside":
        assert fetch.confidence == (1.0 if keys else 0.7)
        assert 320 * MS <= booked_ns(tables) <= 420 * MS


@pytest.mark.shared
@pytest.mark.parametrize(("variant", "stapled"), [("tls12-staple", True), ("tls13-staple", True)])
def test_staples_in_the_lab(lab: Path, variant: str, stapled: bool) -> None:
    run = lab / "ocsp" / variant
    tables = analyze(run / "client.pcap", keylogs=[run / "keys.log"]).tables
    assert tables.connections[0].tls is not None
    assert tables.connections[0].tls.ocsp_stapled is stapled
    assert (tables.certificates[0].staple_status, tables.certificates[0].staple_for_this) == (
        "good",
        True,
    )
