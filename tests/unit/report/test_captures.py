"""The report's numbers agree on every capture of the project."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from capture_analyzer.api import analyze
from capture_analyzer.report import html
from capture_analyzer.report.claims import NOBODY, claimed_by
from capture_analyzer.report.verdict import verdict

CAPTURES = Path(__file__).resolve().parents[3] / "captures"
NAMES = sorted(
    path.name for path in CAPTURES.glob("*") if {".pcap", ".pcapng"} & set(path.suffixes)
)


@pytest.mark.parametrize("name", NAMES)
def test_headline_costs_and_hatched_time_agree(name: str) -> None:
    keys = (CAPTURES / name).with_suffix(".keys")
    analysis = analyze(CAPTURES / name, keylogs=[keys] if keys.exists() else [])
    told = verdict(analysis)
    ledger = analysis.tables.ledger
    hatched = (ledger.to_ns - ledger.from_ns)[claimed_by(analysis) != NOBODY].sum()
    assert told.avoidable_ns == hatched
    assert told.time_ns == sum(share.ns for share in told.time_spent)
    lengths = np.array(
        [
            (row.last_ns if row.end_ns is None else row.end_ns) - row.start_ns
            for row in analysis.tables.exchanges
        ]
    )
    assert told.time_ns == lengths.sum()
    assert len(html.render(analysis, charts=False)) < 300_000
