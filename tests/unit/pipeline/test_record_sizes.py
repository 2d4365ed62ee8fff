"""Table record_sizes, on captures whose records are known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from capture_analyzer.api import analyze
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.record_sizes import SIZINGS, RecordSizes
from capture_analyzer.model.tls_records import ROLES
from capture_analyzer.report import record_rows
from capture_analyzer.report.choice import ALL


def read(captures: Path, name: str, *, keys: bool = True) -> Analysis:
    log = captures / f"{name}.keys"
    logs = [log] if keys and log.exists() else []
    return analyze(captures / f"{name}.pcap", keylogs=logs)


def server(analysis: Analysis) -> dict[str, int]:
    """The server's row of connection 0."""
    sizes = analysis.tables.record_sizes.complete()
    (place,) = np.flatnonzero((sizes.connection_no == 0) & ~sizes.from_client)
    names = ("records", "content_bytes", "overhead_bytes", "tiny", "in_one_segment", "aligned")
    more = ("first_bytes", "median_bytes", "largest_bytes", "sizing", "restarts")
    return {name: int(getattr(sizes, name)[place]) for name in (*names, *more)}


@pytest.mark.parametrize("name", ["tls13-resumed-keys", "tls-tiny-records", "tls13-keyupdate"])
def test_sums_are_those_of_the_records(captures: Path, name: str) -> None:
    tables = read(captures, name).tables
    records, sizes = tables.tls_records, tables.record_sizes.complete()
    counts: Counter[tuple[int, bool]] = Counter()
    total: Counter[tuple[int, bool]] = Counter()
    for index in range(len(records)):
        if ROLES[records.role[index]] == "application":
            key = int(records.connection_no[index]), bool(records.from_client[index])
            counts[key] += 1
            total[key] += int(records.length[index]) + 5
    keys = list(zip(sizes.connection_no.tolist(), sizes.from_client.tolist(), strict=True))
    assert keys == sorted(counts, key=lambda key: (key[0], not key[1]))
    assert sizes.records.tolist() == [counts[key] for key in keys]
    assert (sizes.content_bytes + sizes.overhead_bytes).tolist() == [total[key] for key in keys]


def test_tiny_and_large_records(captures: Path) -> None:
    tiny = server(read(captures, "tls-tiny-records"))
    assert tiny["tiny"] == tiny["records"] > 100
    assert (tiny["largest_bytes"], SIZINGS[tiny["sizing"]]) == (13, "unknown")
    assert tiny["overhead_bytes"] == 22 * tiny["records"]
    download = server(read(captures, "tls13-download"))
    assert (download["largest_bytes"], download["median_bytes"]) == (16_384, 16_384)
    assert SIZINGS[download["sizing"]] == "constant"
    assert download["in_one_segment"] == 1, "the head alone; the rest takes several each"
    spilled = server(read(captures, "tls-spilled-records"))
    assert spilled["aligned"] == spilled["records"] == spilled["in_one_segment"]
    assert SIZINGS[spilled["sizing"]] == "constant"


@pytest.mark.parametrize("keys", [True, False])
def test_padding_is_overhead_where_it_is_known(captures: Path, keys: bool) -> None:
    analysis = read(captures, "tls13-keyupdate", keys=keys)
    found = server(analysis)
    assert bool(analysis.tables.record_sizes.content_inferred.any()) != keys
    assert (found["overhead_bytes"] > 40 * found["records"]) == keys


def test_dynamic_sizes(captures: Path) -> None:
    found = server(read(captures, "tls-dynamic-records"))
    assert (SIZINGS[found["sizing"]], found["restarts"]) == ("grows", 1)
    assert (found["first_bytes"], found["largest_bytes"]) == (1_369, 16_384)


@pytest.mark.parametrize("name", ["sse-stream", "tls13-no-keys", "sse-big-records", "llm-incident"])
def test_writes_of_all_sizes_are_no_dynamic_sizing(captures: Path, name: str) -> None:
    sizes = read(captures, name).tables.record_sizes.complete()
    assert "grows" not in {SIZINGS[code] for code in sizes.sizing}


def test_of_some_connections(captures: Path) -> None:
    sizes = read(captures, "tls13-resumed-keys").tables.record_sizes
    some = sizes.of([1])
    assert set(some.connection_no.tolist()) == {1}
    assert len(some) == 2
    assert set(sizes.complete().connection_no.tolist()) == {0, 1}
    assert len(read(captures, "http-keepalive").tables.record_sizes.complete()) == 0
    assert len(RecordSizes().complete()) == 0


# In the report


def test_rows_of_the_report(captures: Path) -> None:
    ((number, client, of_server, points, telling),) = record_rows.rows(
        read(captures, "sse-stall").tables, ALL, 1000
    )
    assert number == 0
    assert client is not None
    assert of_server is not None
    assert telling == 1, "each token has a record"
    assert len(points[2]) == len(points[3]) == of_server[0]
    many = record_rows.rows(read(captures, "tls-tiny-records").tables, ALL, 1)[0]
    assert len(many[3][3]) == many[2][0] <= record_rows.MAX_POINTS
    assert many[4] == 0


@pytest.mark.parametrize(
    ("name", "keys", "telling"),
    [
        ("sse-stream", True, 1),
        ("sse-stream", False, 1),
        ("sse-h2", True, 1),
        ("sse-records-16k", True, 0),
        ("tls13-download", True, 0),
    ],
)
def test_lengths_of_tokens_are_given_away(
    captures: Path, name: str, keys: bool, telling: int
) -> None:
    rows = record_rows.rows(read(captures, name, keys=keys).tables, ALL, 1)
    assert [row[4] for row in rows] == [telling]


def test_points_are_bounded(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_rows, "MAX_POINTS", 10)
    tables = read(captures, "tls-tiny-records").tables
    points = record_rows.rows(tables, ALL, 1)[0][3]
    assert [len(column) for column in points] == [1, 1, 10, 10]
    assert set(points[3]) == {30}, "of each few the largest"
    monkeypatch.setattr(record_rows, "MAX_ALL_POINTS", 5)
    assert record_rows.rows(tables, ALL, 1)[0][3] is None
