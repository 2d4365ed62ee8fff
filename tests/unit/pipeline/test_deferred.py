"""Tables that are worked out when asked for: of some connections the same as of all."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest

from capture_analyzer.api import analyze

TABLES = ["windows", "sender_limits", "stalls", "repeats", "rtt_samples", "tcp_segments"]


@pytest.mark.parametrize("table", TABLES)
def test_rows_of_some_connections(captures: Path, table: str) -> None:
    tables = analyze(captures / "llm-incident.pcap").tables
    some = getattr(tables, table).of([3, 1])  # of four
    every = getattr(tables, table)
    assert len(every) == 0
    every.complete()
    mine = np.isin(every.connection_no, [1, 3])
    assert mine.any()
    for field in dataclasses.fields(every):
        if field.metadata and not field.name.startswith("sack"):
            column, expected = getattr(some, field.name), getattr(every, field.name)[mine]
            assert column.tolist() == expected.tolist(), field.name


def test_an_analysis_can_be_pickled_before(captures: Path) -> None:
    analysis = pickle.loads(pickle.dumps(analyze(captures / "loss-fast-client.pcap")))
    for table in TABLES:
        getattr(analysis.tables, table).complete()
    assert len(analysis.tables.windows)
