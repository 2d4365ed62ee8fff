"""Every capture of the project is analysed and held against what is true in it."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capture_analyzer.api import analyze
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.events import EVENT_KINDS
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS

FOLDER = Path(__file__).resolve().parents[2] / "captures"
WITHOUT_KEYS = " without keys"
FILES = sorted(path.stem for path in FOLDER.glob("*.json"))
NAMES = [
    name + given
    for name in FILES
    for given in ("", WITHOUT_KEYS)
    if not given or (FOLDER / f"{name}.keys").exists()
]
"""Captures as they are analysed: those with keys beside them with the keys, and without."""

READ_NS = 1_000  # what can be read off is exact; a stamp is cut to a microsecond
THINK_NS = 1_000_000
TUNNELLED = {"upgrade", "connect"}  # more exchanges than the truth lists may be inferred


NOT_YET_TOLD_APART = {
    "syn-duplicated": "a duplicate made by the network is known by its IP ID",
}


@functools.cache
def truth(name: str) -> dict[str, Any]:
    file = name.removesuffix(WITHOUT_KEYS)
    loaded: dict[str, Any] = json.loads((FOLDER / f"{file}.json").read_text())
    if file != name:
        loaded["expect"] = loaded["expect_without_keys"]
    return loaded


@functools.cache
def analysis(name: str) -> Analysis:
    keys = FOLDER / f"{name}.keys"
    keylogs = [keys] if keys.exists() else []
    return analyze(FOLDER / truth(name)["file"], keylogs=keylogs, redact="none")


def readable(name: str, request: dict[str, Any]) -> bool:
    """Whether the analysis could read the request, and need not infer it."""
    given = truth(name)["keys"] and not name.endswith(WITHOUT_KEYS)
    return not request["encrypted"] or bool(given and not truth(name).get("opaque"))


def all_readable(name: str) -> bool:
    return all(readable(name, request) for request in truth(name)["requests"])


def pairs(name: str, captured: tuple[str, ...] = ("yes",)) -> list[tuple[dict[str, Any], Exchange]]:
    """Requests that were captured whole (or as said) with the exchange that each is.

    HTTP/2 is paired by stream. HTTP/1.1 is paired by the instant of its request on its
    connection; so are encrypted requests, whose exchanges are inferred. What encrypted HTTP/2
    streams hold can't be told without keys.
    """
    exchanges = analysis(name).tables.exchanges
    found = []
    for request in truth(name)["requests"]:
        if request["captured"] not in captured or not is_http(request):
            continue
        if truth(name).get("one_side"):
            continue
        if request["protocol"] == "h2" and not readable(name, request):
            continue
        pipelined = "pipelined" in request["target"]
        same = [
            e
            for e in exchanges
            if e.connection_no == request["connection"]
            and e.stream_id == request["stream_id"]
            and abs(e.request_start_ns - request["request_start_ns"]) <= READ_NS
            # Pipelined requests start at one instant.
            and (not pipelined or e.path == request["target"])
        ]
        assert len(same) == 1, f"{request['name']}: {len(same)} exchanges start there"
        found.append((request, same[0]))
    return found


def is_http(request: dict[str, Any]) -> bool:
    """Whether a strict parser may take it: a token, and a target without control characters."""
    return bool(re.fullmatch(r"[A-Z]+", request["method"])) and min(request["target"]) > " "


def close(got: int | None, wanted: int | None, tolerance: int) -> bool:
    if got is None or wanted is None:
        return got is wanted
    return abs(got - wanted) <= tolerance


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_captures_are_there() -> None:
    assert len(NAMES) > 40


def test_packets(name: str) -> None:
    known, tables = truth(name), analysis(name).tables
    assert len(tables.packets.time_ns) == known["packet_count"]
    assert tables.duration_ns == known["duration_ns"]
    assert str(tables.epoch_ns) == known["epoch_ns"]


def test_connections(name: str) -> None:
    connections = analysis(name).tables.connections
    known = truth(name)["connections"]
    assert len(connections) == len(known)
    for got, wanted in zip(connections, known, strict=True):
        assert [got.client_ip, got.client_port] == wanted["client"]
        assert [got.server_ip, got.server_port] == wanted["server"]
        assert got.first_packet_no == wanted["first_packet_no"]
        assert got.packet_count == wanted["packet_count"]
        assert got.start_ns == wanted["start_ns"]
        if name != "syn-duplicated":  # see there: a copy that the network made
            assert got.syn_retransmissions == wanted["syn_retransmissions"]
        if not truth(name).get("half"):  # of the other half nothing was to be captured
            assert got.missing_bytes == wanted["missing_bytes"]
        if got.vantage_confidence > 0.5:
            assert got.vantage_side in (truth(name)["vantage"], "unknown")
        hello = not truth(name).get("unreadable") and not truth(name).get("mid_connection")
        if wanted["server_name"] and hello:
            shown = truth(name).get("outer_name") if name.endswith(WITHOUT_KEYS) else None
            assert got.server_name == (shown or wanted["server_name"])


def test_tls(name: str) -> None:
    for got, wanted in zip(
        analysis(name).tables.connections, truth(name)["connections"], strict=True
    ):
        if "tls" in wanted and truth(name).get("mid_connection"):
            assert got.tls is not None
            known = got.tls.decrypted == "yes"
            assert got.tls.version == (wanted["tls"]["version"] if known else None)
            assert got.tls.cipher_suite == (wanted["tls"]["cipher"] if known else None)
        elif "tls" in wanted:
            assert got.tls is not None
            assert got.tls.version == wanted["tls"]["version"]
            assert got.tls.resumed is wanted["tls"]["resumed"]
            assert got.tls.hello_retry is truth(name).get("hello_retry", False)
            assert got.tls.alert is None
        elif "alert" in truth(name):
            assert got.tls is not None
            assert got.tls.alert == truth(name)["alert"]


def test_lookups(name: str) -> None:
    lookups = analysis(name).tables.lookups
    known = truth(name)["lookups"]
    assert len(lookups) == len(known)
    for got, wanted in zip(lookups, known, strict=True):
        assert got.start_ns == wanted["start_ns"]
        assert got.end_ns == wanted["end_ns"]
        assert got.type == wanted["type"]
        assert got.rcode == wanted["rcode"]
        assert got.question_count == wanted["question_count"]
        if not truth(name).get("unreadable"):
            assert got.addresses == wanted["addresses"]


def test_number_of_exchanges(name: str) -> None:
    if truth(name).get("unreadable"):
        pytest.skip("the heads of the requests were not captured")
    requests = truth(name)["requests"]
    if any(r["protocol"] == "h2" and not readable(name, r) for r in requests):
        pytest.skip("streams that run at the same time can't be told without keys")
    if truth(name).get("misleading") and name.endswith(WITHOUT_KEYS):
        pytest.skip("padded records of the handshake look like requests")
    least = sum(r["captured"] == "yes" for r in requests)
    most = sum(r["captured"] != "no" for r in requests)
    got = len(analysis(name).tables.exchanges)
    if name in TUNNELLED:
        assert got >= least
    else:
        assert least <= got <= most


def test_times(name: str) -> None:
    if truth(name).get("unreadable"):
        pytest.skip("the heads of the requests were not captured")
    if truth(name).get("misleading") and name.endswith(WITHOUT_KEYS):
        pytest.skip("padded records of the handshake look like requests")
    wrong = []
    for request, got in pairs(name):
        label = request["name"]
        if readable(name, request):
            assert not got.inferred
            assert got.protocol == request["protocol"]
            assert (got.method, got.status) == (request["method"], request["status"])
            assert got.kind == request["kind"] or name in TUNNELLED
            if name != "hostile-strings":
                assert got.path == request["target"]
            assert got.interim_statuses == request["interim"]
            assert got.reset is (request["reset_code"] is not None or request.get("ended") == "rst")
            if request["protocol"] == "http/1.1":
                assert (got.request_bytes, got.response_bytes) == (
                    request["request_bytes"],
                    request["response_bytes"] + sum(25 for _ in request["interim"]),
                ) or request["interim"]
        checks = {
            "request start": (got.request_start_ns, request["request_start_ns"]),
            "request end": (got.request_end_ns, request["request_end_ns"]),
            "response start": (got.response_start_ns, request["response_start_ns"]),
            "end": (got.end_ns, request["end_ns"]),
        }
        if request.get("ended") == "rst" and not readable(name, request):
            del checks["end"]  # whether a reset came in time can't be told
        wrong += [
            f"{label}: {what} {got_ns} instead of {wanted_ns}"
            for what, (got_ns, wanted_ns) in checks.items()
            if not close(got_ns, wanted_ns, READ_NS)
        ]
        if got.ttfb_ns is not None and got.response_start_ns is not None:
            assert got.ttfb_ns == got.response_start_ns - got.request_start_ns
    assert wrong == []


def test_think_time(name: str) -> None:
    if truth(name).get("unreadable"):
        pytest.skip("the heads of the requests were not captured")
    ledger = analysis(name).tables.ledger
    wrong = []
    for request, got in pairs(name):
        if request["think_ns"] is None or request["kind"] == "sse":
            continue
        rows = ledger.rows_of(got.exchange_no)
        of_server = ledger.cause[rows] == CAUSE_CODE["server_think"]
        spans = (ledger.to_ns[rows] - ledger.from_ns[rows])[of_server]
        unknown = ledger.cause[rows] == CAUSE_CODE["unknown"]
        unsaid = (ledger.to_ns[rows] - ledger.from_ns[rows])[unknown]
        booked = int(spans.sum())
        # What it can't know it may leave open, but not book elsewhere.
        tolerance = truth(name).get("think_tolerance_ns", THINK_NS)
        if not booked - tolerance <= request["think_ns"] <= booked + unsaid.sum() + tolerance:
            wrong.append(f"{request['name']}: {booked} instead of {request['think_ns']}")
    assert wrong == []


def test_streams(name: str) -> None:
    """Each event of a stream: its kind, and when it was seen, in order and usable."""
    if not any("events_ns" in request for request in truth(name)["requests"]):
        return
    events = analysis(name).tables.events
    count = 0
    for request, got in pairs(name, ("yes", "partly")):
        if "events_ns" not in request or not readable(name, request):
            continue
        rows = events.rows_of(got.exchange_no)
        count += 1
        assert got.stream is not None
        assert [EVENT_KINDS[kind] for kind in events.kind[rows]] == request["event_kinds"]
        assert events.seen_ns[rows].tolist() == request["events_seen_ns"]
        assert events.in_order_ns[rows].tolist() == request["events_in_order_ns"]
        assert events.time_ns[rows].tolist() == request["events_ns"]
        assert got.ttft_ns == request["ttft_ns"]
        if request["captured"] == "yes":
            assert got.stream.ended is (request["event_kinds"][-1] == "end")
        elif truth(name).get("gap"):
            assert got.missing_bytes > 0
    if name.startswith("sse-") and WITHOUT_KEYS not in name:
        assert count


def test_decryption(name: str) -> None:
    """Whether each connection could be decrypted, and why not."""
    known = truth(name)
    opened = known["keys"] is not None and not name.endswith(WITHOUT_KEYS)
    for got, wanted in zip(analysis(name).tables.connections, known["connections"], strict=True):
        if "tls" not in wanted or name in TUNNELLED:
            continue
        assert got.tls is not None
        if not opened or known.get("opaque"):
            assert got.tls.decrypted == "no"
            assert got.tls.why_not
        elif known.get("gap") or known.get("one_side"):
            assert got.tls.decrypted == "partial"
            assert got.tls.why_not
        else:
            assert got.tls.decrypted == "yes"
            assert got.tls.why_not is None


def test_ledger_adds_up(name: str) -> None:
    tables = analysis(name).tables
    ledger = tables.ledger
    for exchange in tables.exchanges:
        rows = ledger.rows_of(exchange.exchange_no)
        begins, ends = ledger.from_ns[rows], ledger.to_ns[rows]
        last = exchange.last_ns if exchange.end_ns is None else exchange.end_ns
        assert int((ends - begins).sum()) == last - exchange.start_ns
        if len(begins):
            assert begins[0] == exchange.start_ns
            assert ends[-1] == last
            assert np.array_equal(begins[1:], ends[:-1])
            assert (ends > begins).all() or last == exchange.start_ns
        phases = exchange.phases
        parts = (
            phases.dns_ns,
            phases.connect_ns,
            phases.tls_ns,
            phases.idle_ns,
            phases.send_ns,
            phases.wait_ns,
            phases.receive_ns,
        )
        assert sum(part or 0 for part in parts) == last - exchange.start_ns
        assert all(part is None or part >= 0 for part in parts)


def test_retransmissions(name: str) -> None:
    packets = analysis(name).tables.packets
    known = {row["packet_no"]: row for row in truth(name)["retransmissions"]}
    labelled = set(np.flatnonzero(packets.label == LABELS.index("retransmission")) + 1)
    wanted = {no for no, row in known.items() if row["mechanism"] != "syn"}
    evident = {no for no in wanted if known[no]["evident"]}
    assert evident <= labelled
    assert labelled <= wanted
    wrong = []
    for number in sorted(labelled):
        row = known[int(number)]
        mechanism = MECHANISMS[packets.mechanism[number - 1]]
        spurious = SPURIOUS[packets.spurious[number - 1]]
        if mechanism not in (row["mechanism"], "unknown"):
            wrong.append(f"{number}: {mechanism} instead of {row['mechanism']}")
        if spurious not in ("false" if row["needed"] else "true", ""):
            wrong.append(f"{number}: spurious {spurious}")
    assert wrong == []


def test_findings(name: str, request: pytest.FixtureRequest) -> None:
    if name == "syn-duplicated":
        request.applymarker(pytest.mark.xfail(reason=NOT_YET_TOLD_APART[name]))
    result = analysis(name)
    built = {row.id for row in result.detectors}
    assert all(row.outcome != "failed" for row in result.detectors)
    expect = truth(name)["expect"]
    wrong = []
    for detector, cost in expect["fire"].items():
        own = [f for f in result.findings if f.detector == detector]
        if detector not in built:
            continue
        if not own:
            wrong.append(f"{detector} is silent")
        elif cost:
            total = sum(f.cost_ns or f.estimated_saving_ns or 0 for f in own) / 1e6
            if not cost[0] <= total <= cost[1]:
                wrong.append(f"{detector} cost {total} ms, not {cost[0]} to {cost[1]}")
        wrong += [f"{detector} has no packets" for f in own if not f.packet_nos]
    wrong += [
        f"{f.detector} fires: {f.summary}"
        for f in result.findings
        if f.detector in expect["silent"]
    ]
    assert wrong == []


def test_what_the_capture_lacks_is_said(name: str) -> None:
    codes = {(a.code, a.origin) for a in analysis(name).tables.anomalies}
    if truth(name).get("cut"):
        assert any(origin == "capture" for _, origin in codes)
    if truth(name).get("gap"):
        assert any(c["missing_bytes"] for c in truth(name)["connections"])
