"""Which exchanges and connections a large report lists."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from capture_analyzer.report import choice
from capture_analyzer.report.payload import payload


def test_all_of_a_small_capture(sample: ModuleType) -> None:
    analysis = sample.many(50)
    assert choice.choose(analysis) == choice.ALL
    data = payload(analysis)
    assert data["exchanges"]["listed"] is None
    assert data["connections"]["listed"] is None


def test_those_of_findings_and_the_slowest(
    sample: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "MAX_EXCHANGES", 30)
    monkeypatch.setattr(choice, "MAX_CONNECTIONS", 0)
    analysis = sample.many(200)
    exchanges = analysis.tables.exchanges
    chosen = choice.choose(analysis)
    assert chosen.exchanges is not None
    assert len(chosen.exchanges) == 30
    assert (np.diff(chosen.exchanges) > 0).all()
    listed = set(chosen.exchanges.tolist())
    named = {no for finding in analysis.findings for no in finding.exchange_nos}
    assert len(named & listed) == min(len(named), 30)

    def length(number: int) -> int:
        row = exchanges[number]
        return int(max(row.last_ns, row.end_ns or 0) - row.start_ns)

    least = min((length(no) for no in listed - named), default=0)
    assert all(length(no) <= least for no in range(200) if no not in listed | named) or not (
        listed - named
    )
    assert all(chosen.has_connection(exchanges[no].connection_no) for no in listed)

    data = payload(analysis)
    columns = data["exchanges"]
    assert columns["count"] == 200
    assert len(columns["path"]) == len(columns["start"]) == len(data["ledger"]["count"]) == 30
    ledger = analysis.tables.ledger
    rows = np.isin(ledger.exchange_no, chosen.exchanges)
    assert sum(data["ledger"]["count"]) == rows.sum() == len(data["ledger"]["time"])
    times = (ledger.to_ns - ledger.from_ns)[rows] // data["unit"]
    assert data["ledger"]["time"] == times.tolist()
    assert len(data["connections"]["rows"]) == len(data["connections"]["listed"])
