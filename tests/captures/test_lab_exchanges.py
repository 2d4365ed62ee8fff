"""Exchanges of the lab's captures against what client and server themselves logged."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from capture_analyzer.api import analyze
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.exchanges import Exchange, Phases

MS = 1_000_000
NEAR_MS = 5.0  # the clients' own reading of their sockets lags by up to some ms
INFERRED_MS = 10.0

pytestmark = pytest.mark.shared

READABLE = ("http1-plain/", "loss/", "nagle-delack/")
APPLICATIONS_VIEW = ("loss/zero-window",)  # its end is when the application read, not the wire's
QUEUED = ("loss/bufferbloat", "loss/rate-limit")  # queues of their own making hide the think time


def runs(lab: Path, *prefixes: str) -> list[Path]:
    """Folders of runs, by the beginnings of their names."""
    found = sorted(path.parent for path in lab.glob("*/*/truth.json"))
    return [p for p in found if f"{p.parent.name}/{p.name}".startswith(prefixes)]


def name_of(run: Path) -> str:
    return f"{run.parent.name}/{run.name}"


@functools.cache
def tables_of(path: Path) -> Tables:
    return analyze(path, redact="none").tables


def truth_of(run: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((run / "truth.json").read_text())
    return truth


def wanted(truth: dict[str, Any]) -> list[dict[str, Any]]:
    """What the client saw of each request, in ms after it wrote the request; None = not logged."""
    found = []
    for row in truth["requests"]:
        start = row.get("client.req_write_first") or row.get("client.req_sent")
        if not start or not row.get("path"):
            continue
        heads = [row[key] for key in ("client.resp_head", "client.recv_first") if row.get(key)]
        end = row.get("client.resp_end")
        found.append(
            {
                "path": row["path"],
                "start": start,
                "ttfb": (min(heads) - start) / MS if heads else None,
                "total": (end - start) / MS if end else None,
                "think": None if row.get("sse") else (row.get("ms") or {}).get("think"),
            }
        )
    return found


def nearest(tables: Tables, want: dict[str, Any], taken: set[int], *, by_path: bool) -> Exchange:
    """The exchange of a request: of the same path, the one that begins nearest."""
    rows = [
        x
        for x in tables.exchanges
        if x.exchange_no not in taken and (not by_path or x.path == want["path"])
    ]
    assert rows, f"no exchange for {want['path']}"
    best = min(rows, key=lambda x: abs(tables.epoch_ns + x.request_start_ns - want["start"]))
    taken.add(best.exchange_no)
    return best


def think_ms(tables: Tables, exchange: Exchange) -> float:
    ledger, rows = tables.ledger, tables.ledger.rows_of(exchange.exchange_no)
    mine = ledger.cause[rows] == CAUSE_CODE["server_think"]
    return float((ledger.to_ns[rows] - ledger.from_ns[rows])[mine].sum()) / MS


def test_times_of_readable_exchanges(lab: Path) -> None:
    checked = 0
    for run in runs(lab, *READABLE):
        tables, taken = tables_of(run / "client.pcap"), set[int]()
        for want in wanted(truth_of(run)):
            got = nearest(tables, want, taken, by_path=True)
            where = f"{name_of(run)} {want['path']}"
            assert got.ttfb_ns is not None, where
            assert got.ttfb_ns / MS == pytest.approx(want["ttfb"], abs=NEAR_MS), where
            if want["total"] is not None and name_of(run) not in APPLICATIONS_VIEW:
                assert got.end_ns is not None, where
                total = (got.end_ns - got.request_start_ns) / MS
                assert total == pytest.approx(want["total"], abs=NEAR_MS), where
            if want["think"] is not None and name_of(run) not in QUEUED:
                think = think_ms(tables, got)
                assert think == pytest.approx(want["think"], abs=NEAR_MS), where
            checked += 1
        assert len(tables.exchanges) == len(taken), f"{name_of(run)}: more than were made"
    assert checked >= 30


def test_think_time_seen_at_the_server(lab: Path) -> None:
    for run in runs(lab, "http1-plain/", "loss/"):
        tables, taken = tables_of(run / "server.pcap"), set[int]()
        for want in wanted(truth_of(run)):
            got = nearest(tables, want, taken, by_path=True)
            assert think_ms(tables, got) == pytest.approx(want["think"], abs=NEAR_MS), (
                f"{name_of(run)} {want['path']}"
            )


def test_lookup_and_set_up_of_curl(lab: Path) -> None:
    for run in runs(lab, "curl-dns/slow-dns"):
        curl = next(row for row in truth_of(run)["app"] if row.get("ev") == "curl")
        (got,) = tables_of(run / "client.pcap").exchanges
        assert got.phases.dns_ns is not None
        assert got.phases.dns_ns / 1e9 == pytest.approx(curl["namelookup"], abs=0.005)
        before = (got.request_start_ns - got.start_ns) / 1e9
        assert before == pytest.approx(curl["pretransfer"], abs=0.005)


def test_inferred_exchanges(lab: Path) -> None:
    checked = 0
    for run in runs(lab, "encrypted-no-keys/"):
        tables, taken = tables_of(run / "client.pcap"), set[int]()
        for want in wanted(truth_of(run)):
            got = nearest(tables, want, taken, by_path=False)
            where = f"{name_of(run)} {want['path']}"
            begin = (tables.epoch_ns + got.request_start_ns - want["start"]) / MS
            assert begin == pytest.approx(0, abs=NEAR_MS), where
            assert got.inferred
            if want["total"] is not None:
                assert got.end_ns is not None, where
                total = (got.end_ns - got.request_start_ns) / MS
                assert total == pytest.approx(want["total"], abs=INFERRED_MS), where
            checked += 1
        assert len(tables.exchanges) == len(taken), f"{name_of(run)}: more than were made"
    assert checked >= 10


def test_set_up_of_a_lost_syn(lab: Path) -> None:
    for run in runs(lab, "loss/syn-lost"):
        tables = tables_of(run / "client.pcap")
        (got,) = tables.exchanges
        assert got.carries_setup
        ledger, rows = tables.ledger, tables.ledger.rows_of(0)
        retry = ledger.cause[rows] == CAUSE_CODE["syn_retry"]
        cost = (ledger.to_ns[rows] - ledger.from_ns[rows])[retry].sum() / MS
        assert 950 <= cost <= 1100


def test_ledgers_and_phases_add_up_everywhere(lab: Path) -> None:
    for path in sorted(lab.glob("*/*/*.pcap*")):
        tables = tables_of(path)
        for exchange in tables.exchanges:
            end = exchange.last_ns if exchange.end_ns is None else exchange.end_ns
            rows = tables.ledger.rows_of(exchange.exchange_no)
            begins = tables.ledger.from_ns[rows].tolist()
            ends = tables.ledger.to_ns[rows].tolist()
            where = f"{path} exchange {exchange.exchange_no}"
            assert begins[0] == exchange.start_ns, where
            assert ends[-1] == end, where
            assert all(a == b for a, b in zip(ends, begins[1:], strict=False)), where
            parts = [getattr(exchange.phases, f.name) for f in dataclasses.fields(Phases)]
            assert sum(part or 0 for part in parts) == end - exchange.start_ns, where
            assert all(part is None or part >= 0 for part in parts), where
        order = [(x.request_start_ns, x.connection_no) for x in tables.exchanges]
        assert all(a <= b for a, b in itertools.pairwise(order)), path
