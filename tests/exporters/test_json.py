"""The JSON contract: every key, every type, the same bytes, and no way to break out of it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.exporters.json import SCHEMA, export
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.exchanges import Phases
from capture_analyzer.model.findings import DetectorOutcome, Example, Finding

MS = 1_000_000

KEYS: dict[str, Any] = {
    "": "schema generator capture detectors connections exchanges findings anomalies",
    "generator": "name version",
    "capture": "epoch_ns duration_ns packet_count byte_count files redaction",
    "capture.files": "name format packet_count",
    "detectors": "id outcome reason",
    "connections": (
        "connection_no transport tcp_stream client server server_name alpn preconnected start_ns "
        "end_ns first_packet_no packet_count vantage handshake tls retransmissions"
    ),
    "connections.client": "ip port",
    "connections.server": "ip port",
    "connections.vantage": "side confidence",
    "connections.handshake": "client_side_rtt_ns server_side_rtt_ns rtt_ns syn_retransmissions",
    "connections.tls": (
        "version cipher_suite resumed hello_retry early_data ocsp_stapled decrypted why_not "
        "duration_ns"
    ),
    "connections.retransmissions": "total spurious by_mechanism",
    "exchanges": (
        "exchange_no connection_no stream_id protocol kind inferred method authority path status "
        "grpc_status start_ns request_start_ns end_ns phases ttfb_ns ttft_ns request_bytes "
        "response_bytes packets ledger events"
    ),
    "exchanges.phases": "dns_ns connect_ns tls_ns idle_ns send_ns wait_ns receive_ns",
    "exchanges.packets": "request_first request_last response_first response_last",
    "exchanges.ledger": "from_ns to_ns cause packet_nos",
    "findings": (
        "finding_no detector severity confidence connection_no exchange_nos from_ns to_ns count "
        "cost_ns counted_in estimated_saving_ns summary advice measures examples packet_nos "
        "packet_total display_filter"
    ),
    "findings.examples": "packet_nos cost_ns",
    "anomalies": "code origin connection_no packet_no detail",
}
"""What the contract asks for, by place; more keys may be there."""


@pytest.fixture
def analysis(hand_made: ModuleType) -> Analysis:
    made = hand_made
    return made.analysis(
        connections=[
            made.connection(
                0,
                tls=made.tls(cipher_suite="TLS_AES_128_GCM_SHA256", resumed=False),
                vantage_side="client",
                vantage_confidence=0.95,
                rtt_ns=30 * MS,
                retransmissions=3,
                retransmissions_spurious=1,
                retransmissions_by_mechanism={"rto": 1, "fast": 2},
            ),
            made.connection(1, tcp_stream=None, server_name=None, preconnected=True),
        ],
        exchanges=[
            made.exchange(0, 0, 100, phases=Phases(send_ns=0, wait_ns=100 * MS), ttfb_ns=7),
            made.exchange(1, 50, 60, end_ns=None, method=None, status=None, connection_no=1),
            made.exchange(2, 70, 90),
        ],
        ledger=made.ledger(
            (0, 0, 40, "network_rtt"), (0, 40, 100, "server_think"), (2, 70, 90, "unknown")
        ),
        findings=[
            Finding(
                "http/slow-server",
                "warning",
                2 / 3,
                "One request waited.",
                finding_no=0,
                cost_ns=60 * MS,
                measures={"share": float("nan"), "requests": 3, "certain": True, "name": "x"},
                examples=[Example([1, 2], 5, 0)],
                packet_nos=[1, 2],
                packet_total=2,
            )
        ],
        detectors=[DetectorOutcome("http/slow-server", "ran")],
        anomalies=[Anomaly("cut-in-packet", "capture", "the file ends inside packet 8")],
    )


def text_of(analysis: Analysis) -> str:
    file = io.StringIO()
    export(analysis, file)
    return file.getvalue()


def document_of(analysis: Analysis) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text_of(analysis), parse_constant=refuse)


def at(document: Any, place: str) -> list[Any]:
    """All values at a place such as connections.tls."""
    values = [document]
    for name in filter(None, place.split(".")):
        values = [value[name] for value in values if value is not None]
        values = [
            item for value in values for item in (value if isinstance(value, list) else [value])
        ]
    return [value for value in values if value is not None]


@pytest.mark.parametrize("place", KEYS)
def test_keys_of_the_contract(place: str, analysis: Analysis) -> None:
    values = at(document_of(analysis), place)
    assert values
    for value in values:
        assert set(KEYS[place].split()) <= set(value)


def test_values(analysis: Analysis) -> None:
    document = document_of(analysis)
    assert document["schema"] == SCHEMA
    assert document["capture"] == {
        "epoch_ns": "1796093752000000000",
        "duration_ns": 5000 * MS,
        "packet_count": 100,
        "byte_count": 6600,
        "files": [{"name": "trouble.pcap", "format": "pcap", "packet_count": 100}],
        "redaction": "default",
    }
    first, second = document["connections"]
    assert first["vantage"] == {"side": "client", "confidence": 0.95}
    assert first["handshake"]["rtt_ns"] == 30 * MS
    assert first["tls"]["resumed"] is False
    assert first["tls"]["early_data"] is None
    assert first["tls"]["decrypted"] == "no"
    assert first["retransmissions"] == {
        "total": 3,
        "spurious": 1,
        "by_mechanism": {"fast": 2, "rto": 1},
    }
    assert (second["tls"], second["tcp_stream"], second["preconnected"]) == (None, None, True)
    exchange, cut, _ = document["exchanges"]
    assert exchange["phases"]["send_ns"] == 0
    assert exchange["phases"]["dns_ns"] is None
    assert exchange["ledger"] == [
        {"from_ns": 0, "to_ns": 40 * MS, "cause": "network_rtt", "packet_nos": [1, 2]},
        {"from_ns": 40 * MS, "to_ns": 100 * MS, "cause": "server_think", "packet_nos": [1, 2]},
    ]
    assert exchange["events"] is None
    assert (cut["end_ns"], cut["method"], cut["status"], cut["ledger"]) == (None, None, None, [])
    (finding,) = document["findings"]
    assert finding["confidence"] == 0.6667
    assert finding["measures"] == {"share": None, "requests": 3, "certain": True, "name": "x"}
    assert document["anomalies"][0]["origin"] == "capture"


@pytest.mark.parametrize(
    ("packets", "expected"),
    [
        ((0, 0, 0), []),
        ((7, 0, 0), [7]),
        ((0, 7, 0), [7]),
        ((9, 7, 0), [7, 9]),
        ((0, 7, 9), [7, 9]),
        ((7, 7, 0), [7]),
        ((9, 7, 8), [7, 8, 9]),
        ((9, 7, 9), [7, 9]),
        ((7, 7, 9), [7, 9]),
        ((7, 7, 7), [7]),
    ],
)
def test_packets_of_a_ledger_entry(
    packets: tuple[int, int, int], expected: list[int], analysis: Analysis
) -> None:
    ledger = analysis.tables.ledger
    ledger.packet_a[0], ledger.packet_b[0], ledger.packet_c[0] = packets
    assert document_of(analysis)["exchanges"][0]["ledger"][0]["packet_nos"] == expected


def test_nothing_captured_can_break_out(analysis: Analysis) -> None:
    evil = '"}]\u2028\ud800\x00\\</script>\x1b[31m'
    connection, exchange = analysis.tables.connections[0], analysis.tables.exchanges[0]
    connection.server_name = connection.alpn = exchange.path = exchange.method = evil
    analysis.findings[0].summary = analysis.tables.anomalies[0].detail = evil
    text = text_of(analysis)
    assert text.isascii()
    assert "\x1b" not in text
    document = json.loads(text)
    assert document["connections"][0]["server_name"] == evil
    assert document["exchanges"][0]["path"] == evil
    assert document["findings"][0]["summary"] == evil


def test_empty_analysis(hand_made: ModuleType) -> None:
    document = document_of(hand_made.analysis())
    for name in ("connections", "exchanges", "findings", "detectors", "anomalies"):
        assert document[name] == []


def test_more_rows_than_one_piece(hand_made: ModuleType) -> None:
    count = 4_500
    analysis = hand_made.analysis(
        exchanges=[hand_made.exchange(number, number, number + 2) for number in range(count)],
        ledger=hand_made.ledger(
            *((number, number, number + 2, "unknown") for number in range(count) if number % 3)
        ),
    )
    rows = document_of(analysis)["exchanges"]
    assert [row["exchange_no"] for row in rows] == list(range(count))
    for row in rows:
        expected = [] if row["exchange_no"] % 3 == 0 else [row["start_ns"]]
        assert [entry["from_ns"] for entry in row["ledger"]] == expected


def test_written_to_a_file(analysis: Analysis, tmp_path: Path) -> None:
    export(analysis, tmp_path / "a.json")
    assert (tmp_path / "a.json").read_text("ascii") == text_of(analysis)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
