"""Handshakes for the report: their steps, and whom each was waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from capture_analyzer.api import analyze
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.report.certificate_rows import rows as certificate_rows
from capture_analyzer.report.handshake_rows import Shake, handshakes, rows
from capture_analyzer.report.strings import StringTable

CAPTURES = Path(__file__).resolve().parents[3] / "captures"
MS = 1_000_000


def read(name: str) -> Analysis:
    keys = CAPTURES / f"{name}.keys"
    return analyze(CAPTURES / f"{name}.pcap", keylogs=[keys] if keys.exists() else [])


def shake(name: str, connection: int = 0) -> Shake:
    return dict(handshakes(read(name).tables))[connection]


def told(found: Shake) -> list[str]:
    return [("> " if step.from_client else "< ") + step.name for step in found.steps]


def sums_ms(found: Shake) -> list[float]:
    return [round(ns / MS, 1) for ns in found.sums()]


def test_tls13() -> None:
    found = shake("tls13-aes128")
    assert told(found) == [
        "> ClientHello",
        *("< ServerHello", "< EncryptedExtensions", "< Certificate", "< CertificateVerify"),
        *("< Finished", "> Finished", "> application data"),
    ]
    assert found.round_trips == 1
    network, server, client, unknown = found.sums()
    assert abs(network - 24 * MS) < MS
    assert server < 2 * MS
    assert client < MS
    assert unknown == 0
    assert all(step.certain for step in found.steps)
    assert 900 < found.flight_bytes < 1_400 < found.window_bytes
    last = [step for step in found.steps if not step.data][-1]
    assert sum(found.sums()) == last.time_ns - found.steps[0].time_ns


def test_tls13_without_keys() -> None:
    found = shake("tls13-no-keys")
    assert told(found) == [
        "> ClientHello",
        *("< ServerHello", "< EncryptedExtensions to Finished", "> Finished"),
        "> application data",
    ]
    assert [step.certain for step in found.steps] == [True, True, False, False, False]
    assert found.round_trips == 1


def test_a_retry_is_a_round_trip_more() -> None:
    found = shake("tls13-hrr-keys")
    assert told(found)[:4] == [
        *("> ClientHello", "< HelloRetryRequest", "> ClientHello", "< ServerHello")
    ]
    assert found.round_trips == 2
    assert abs(found.sums()[0] - 48 * MS) < MS
    assert found.flight_bytes > 900, "the flight is that of the ServerHello"


@pytest.mark.parametrize(("connection", "trips"), [(0, 2), (1, 1)])
def test_tls12_full_and_abbreviated(connection: int, trips: int) -> None:
    found = shake("tls12-keys", connection)
    assert found.round_trips == trips
    names = told(found)
    assert ("< Certificate" in names) == (connection == 0)
    assert names[0] == "> ClientHello"
    assert names[-1] == "> application data"
    order = ["< Finished", "> Finished"] if connection else ["> Finished", "< Finished"]
    assert [name for name in names if name.endswith("Finished")] == order


def test_later_handshakes_are_no_steps_of_the_first() -> None:
    names = told(shake("tls12-renegotiation"))
    assert names.count("> ClientHello") == 1
    assert names.count("< Finished") == 1


def test_the_slow_side() -> None:
    server = shake("ocsp-staple-slow")
    network, own, client, unknown = sums_ms(server)
    assert network == pytest.approx(48, abs=0.5)
    assert unknown == 0
    assert 245 < own < 256
    assert client < 1
    certificate = next(step for step in server.steps if step.name == "Certificate")
    assert certificate.own_ns > 245 * MS
    slow = shake("tls-slow-client")
    assert 175 < sums_ms(slow)[2] < 185
    assert sums_ms(slow)[1] < 2
    long_path = shake("tls-long-path")
    assert sums_ms(long_path)[0] == pytest.approx(560, abs=1)
    assert sums_ms(long_path)[1] < 3


def test_a_flight_that_does_not_fit() -> None:
    large = shake("tls-large-chain")
    assert large.second_part
    assert large.flight_bytes > large.window_bytes
    assert large.round_trips == 3
    assert sums_ms(large)[1] < 3, "its second part is no work of the server"
    fits = shake("tls-long-chain-fits")
    assert not fits.second_part
    assert fits.flight_bytes < fits.window_bytes


@pytest.mark.shared
def test_early_data(corpus: Path) -> None:
    path = corpus / "tls-keys" / "tls13-rfc8446.pcap"
    analysis = analyze(path, keylogs=[path.with_suffix(".keys")])
    names = told(dict(handshakes(analysis.tables))[1])
    assert names[:3] == ["> ClientHello", "> early data", "< ServerHello"]
    assert "> EndOfEarlyData" in names
    tls = analysis.tables.connections[1].tls
    assert tls is not None
    assert tls.early_data_accepted is True


@pytest.mark.shared
@pytest.mark.parametrize("run", ["sse-llm/h1-loss", "capture-quirks/capture-loss", "tls13-h1/main"])
def test_every_handshake_of_the_lab(lab: Path, run: str) -> None:
    analysis = analyze(lab / run / "client.pcap")
    for number, found in handshakes(analysis.tables):
        ends = [step.time_ns for step in found.steps if not step.data]
        first = min(step.time_ns for step in found.steps)
        assert sum(found.sums()) <= max(ends) - first, number
        assert found.round_trips <= 2


def test_rows_are_numbers_and_text() -> None:
    analysis = read("tls12-keys")
    strings = StringTable()
    made = rows(analysis.tables, 1000, strings)
    assert [row[0] for row in made] == [0, 1]
    steps = made[0][-1]
    assert strings.strings[steps[0][0]] == "ClientHello"
    assert all(type(value) is int for step in steps for value in step)


def test_certificates() -> None:
    strings = StringTable()
    ((connections, chain),) = certificate_rows(read("ocsp-stapled").tables, strings)
    assert connections == [0]
    assert len(chain) == 2
    own = chain[0]
    texts = strings.strings
    assert (texts[own[0]], texts[own[3]]) == ("api.example", "Ed25519")
    assert (texts[own[4]], texts[own[5]], own[6]) == ("2026-02-01", "2026-05-02", 59)
    assert (texts[own[12]], own[14], own[15]) == ("good", True, True)
    ((_, expired),) = certificate_rows(read("tls-expired").tables, strings)
    assert expired[0][6] < 0
    ((_, old),) = certificate_rows(read("ocsp-staple-expired").tables, strings)
    assert old[0][14] is False


def test_the_longest_handshakes_are_kept() -> None:
    tables = read("ocsp13-staple-slow").tables
    assert [number for number, _ in handshakes(tables)] == [0, 1, 2]
    kept = [number for number, _ in handshakes(tables, 2)]
    assert len(kept) == 2
    assert kept[0] == 0, "the slow one"
    tables = read("tls13-resumed-keys").tables
    durations = [c.tls.duration_ns or 0 for c in tables.connections if c.tls]
    longest = max(range(2), key=lambda number: durations[number])
    assert [number for number, _ in handshakes(tables, 1)] == [longest]
