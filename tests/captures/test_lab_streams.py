"""Streamed answers of the lab's captures against what model, server and client logged.

The client's own reading lags behind the wire now and then (it was busy), so an event must lie
between the instant at which it was made and the one at which the client noticed it.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capture_analyzer.api import analyze
from capture_analyzer.model.analysis import Analysis, Tables
from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.events import EVENT_KIND_CODE
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.findings import Finding

MS = 1_000_000
pytestmark = pytest.mark.shared

PROMPT = ("h1-healthy", "h1-stall", "h1-multi-token", "h2-healthy", "h2-stall")
"""Nothing held their events back: not the network, not the stack, no intermediary."""

HELD_BY_THE_SERVER = ("burst", "nginx")
"""Their events were made long before something at the server let them go."""


@functools.cache
def analysis_of(run: Path, side: str) -> Analysis:
    return analyze(run / f"{side}.pcap", keylogs=[run / "keys.log"], redact="none")


def truth_of(run: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((run / "truth.json").read_text())
    return truth


def runs(lab: Path, *names: str) -> list[Path]:
    """Folders of streamed runs, whose names contain one of these (all, without any)."""
    found = sorted(path.parent for path in (lab / "sse-llm").glob("*/truth.json"))
    return [run for run in found if not names or any(name in run.name for name in names)]


def streams(run: Path, side: str = "client") -> list[tuple[Tables, Exchange, dict[str, Any]]]:
    """Each streamed exchange with its tables and its truth, in order of request."""
    tables = analysis_of(run, side).tables
    exchanges = [row for row in tables.exchanges if row.stream is not None]
    rows = [row for row in truth_of(run)["requests"] if row.get("sse")]
    rows.sort(key=lambda row: row["client.req_sent"])
    assert len(exchanges) == len(rows)
    return [(tables, exchange, row) for exchange, row in zip(exchanges, rows, strict=True)]


def tokens(row: dict[str, Any], key: str) -> list[float]:
    """When each event with a token was made or seen, by the clock of the capture's epoch."""
    sent = row["client.req_sent"]
    return [sent + event[key] * MS for event in row["sse"] if event["kind"] == "token"]


def contents(tables: Tables, exchange: Exchange) -> np.ndarray:
    """When each event with content was usable, by the same clock."""
    events = tables.events
    rows = events.rows_of(exchange.exchange_no)
    content = events.kind[rows] == EVENT_KIND_CODE["content"]
    times: np.ndarray = tables.epoch_ns + events.time_ns[rows][content]
    return times


def booked(tables: Tables, exchange: Exchange, begin: float, end: float, *causes: str) -> float:
    """What the ledger books on causes between two instants, in ms."""
    ledger = tables.ledger
    rows = ledger.rows_of(exchange.exchange_no)
    codes = np.array([CAUSE_CODE[cause] for cause in causes])
    mine = np.isin(ledger.cause[rows], codes)
    first = np.maximum(ledger.from_ns[rows] + tables.epoch_ns, int(begin))
    last = np.minimum(ledger.to_ns[rows] + tables.epoch_ns, int(end))
    return float(np.maximum(last - first, 0)[mine].sum() / MS)


@pytest.mark.parametrize("side", ["client", "server"])
def test_events_lie_between_their_making_and_their_reading(lab: Path, side: str) -> None:
    for run in runs(lab):
        for tables, exchange, row in streams(run, side):
            ours = contents(tables, exchange)
            made, seen = np.array(tokens(row, "made_ms")), np.array(tokens(row, "seen_ms"))
            assert len(ours) == len(seen), run.name
            assert (ours >= made - 0.5 * MS).all(), run.name
            assert (ours <= seen + 0.5 * MS).all(), run.name
            if side == "client":
                prompt = np.abs(ours - seen) < 2 * MS
                assert prompt.mean() > 0.9, run.name  # the others the client read late


@pytest.mark.parametrize("side", ["client", "server"])
def test_time_to_first_token_is_the_sum_of_its_ledger(lab: Path, side: str) -> None:
    for run in runs(lab):
        for tables, exchange, _ in streams(run, side):
            assert exchange.ttft_ns is not None
            token = exchange.request_start_ns + exchange.ttft_ns
            ledger = tables.ledger
            rows = ledger.rows_of(exchange.exchange_no)
            inside = (ledger.from_ns[rows] >= exchange.request_start_ns) & (
                ledger.to_ns[rows] <= token
            )
            total = (ledger.to_ns[rows] - ledger.from_ns[rows])[inside].sum()
            assert total == exchange.ttft_ns, run.name


@pytest.mark.parametrize("side", ["client", "server"])
def test_generation_is_the_models_own_time(lab: Path, side: str) -> None:
    for run in runs(lab, *PROMPT):
        for tables, exchange, row in streams(run, side):
            made = tokens(row, "made_ms")
            ours = contents(tables, exchange)
            share = booked(tables, exchange, ours[0], ours[-1], "generation")
            assert share == pytest.approx((made[-1] - made[0]) / MS, abs=3), run.name
            head = next(
                row["client.req_sent"] + event["made_ms"] * MS
                for event in row["sse"]
                if event["kind"] != "token"
            )
            start = exchange.request_start_ns + tables.epoch_ns
            before = booked(tables, exchange, start, ours[0], "generation")
            assert before == pytest.approx((made[0] - head) / MS, abs=3), run.name


@pytest.mark.parametrize("side", ["client", "server"])
def test_no_gap_is_booked_on_the_model_that_it_did_not_make(lab: Path, side: str) -> None:
    """Between any two events, generation is at most the time between their making."""
    checked = 0
    for run in runs(lab):
        if any(name in run.name for name in HELD_BY_THE_SERVER):
            continue
        for tables, exchange, row in streams(run, side):
            made = tokens(row, "made_ms")
            ours = contents(tables, exchange)
            for k in range(1, len(ours)):
                share = booked(tables, exchange, ours[k - 1], ours[k], "generation")
                # An event that waited may hide a part of the making of the next.
                assert share <= (made[k] - made[k - 1]) / MS + 5, (run.name, k)
                checked += 1
    assert checked > 300


@pytest.mark.parametrize("side", ["client", "server"])
def test_records_are_complete_when_they_were(lab: Path, side: str) -> None:
    for run in runs(lab, "16k", "healthy", "tiny", "loss"):
        tables = analysis_of(run, side).tables
        records = tables.tls_records
        truth = json.loads((run / "stream.json").read_text())
        rows = [r for x in truth if x["dir"] == "s2c" for r in x["tls_records"]]
        ours = {
            int(offset): tables.epoch_ns + int(complete)
            for offset, complete, mine in zip(
                records.offset, records.complete_ns, ~records.from_client, strict=True
            )
            if mine
        }
        matched = [r for r in rows if r["off"] in ours and r["t_complete"]]
        assert len(matched) == len(rows) > 40, run.name
        way = 0 if side == "client" else 15 * MS  # the capture is one way in front of the receiver
        apart = [ours[r["off"]] + way - r["t_complete"] for r in matched]
        # At the server a record leaves at once; how long the link takes for it is not seen.
        near = 2 * MS if side == "client" else 10 * MS
        assert np.abs(apart).max() < near, run.name


def stalls(run: Path, side: str) -> list[Finding]:
    return [row for row in analysis_of(run, side).findings if row.detector == "llm/stream-stall"]


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("name", ["h1-stall", "h2-stall"])
def test_the_server_is_blamed_for_its_pause(lab: Path, name: str, side: str) -> None:
    for run in runs(lab, name):
        (row,) = stalls(run, side)
        assert row.measures["blamed"] == "server"
        assert row.count == 2
        assert row.exchange_nos == [0, 1]
        assert row.counted_in is None
        assert row.cost_ns == pytest.approx(2 * 675 * MS, abs=10 * MS)


@pytest.mark.parametrize("side", ["client", "server"])
def test_the_network_is_blamed_for_its_losses(lab: Path, side: str) -> None:
    for run in runs(lab, "h1-loss-twice"):
        (row,) = stalls(run, side)
        assert row.measures["blamed"] == "loss"
        assert row.cost_ns is not None
        assert 150 * MS < row.cost_ns < 420 * MS
        assert row.counted_in is not None  # in the finding about the loss


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("name", ["healthy", "multi-token", "tiny", "buffering-off"])
def test_steady_streams_have_no_findings_of_streams(lab: Path, name: str, side: str) -> None:
    for run in runs(lab, name):
        found = {row.detector for row in analysis_of(run, side).findings}
        assert not {d for d in found if d.startswith("llm/")}, run.name
        assert "tls/record-wait" not in found, run.name
        assert "http/slow-server" not in found, run.name


def test_records_of_16_kb_are_waited_for(lab: Path) -> None:
    for run in runs(lab, "16k"):
        (row,) = [x for x in analysis_of(run, "client").findings if x.detector == "tls/record-wait"]
        # Twelve segments: ten at once, the others a round trip later.
        assert 25 * MS < int(row.measures["wait_max_ns"] or 0) < 45 * MS
        assert row.count > 20


def test_think_time_on_a_busy_connection_is_never_more_than_it_was(lab: Path) -> None:
    run = lab / "h2-multiplex" / "main"
    if not run.is_dir():
        pytest.skip("no such run")
    tables = analysis_of(run, "client").tables
    truth = {row["path"]: row["ms"].get("think") for row in truth_of(run)["requests"]}
    known = 0
    for exchange in tables.exchanges:
        think = truth.get(exchange.path or "")
        if think is None:
            continue
        share = booked(tables, exchange, 0, 1 << 62, "server_think")
        assert share <= think + 5, exchange.path
        known += share > think - 5
    assert known >= 6
