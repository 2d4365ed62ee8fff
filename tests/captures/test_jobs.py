"""The bytes of every result are the same for any number of processes."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest

from capture_analyzer.api import analyze
from capture_analyzer.errors import CaptureAnalyzerError
from capture_analyzer.exporters import json, packets_csv
from capture_analyzer.model import room
from capture_analyzer.model.analysis import TABLES
from capture_analyzer.pipeline import batches, flows, workers
from capture_analyzer.pipeline.workers import can_fork
from capture_analyzer.report import html

pytestmark = pytest.mark.skipif(not can_fork(), reason="workers are forked")

SMALL = 40
"""Packets of a batch, so that small captures have several."""


def results(jobs: int, path: Path, **options: Any) -> str:
    """All tables, JSON, packet table and report, or what was wrong."""
    try:
        analysis = analyze(path, jobs=jobs, **options)
    except CaptureAnalyzerError as error:
        return str(error)
    as_json, packets = io.StringIO(), io.StringIO()
    json.export(analysis, as_json)
    packets_csv.export(analysis, packets)
    report = html.render(analysis, charts=False).decode()
    tables = "".join(analysis.frame(name).to_csv() for name in TABLES)
    tables = re.sub(r" object at 0x[0-9a-f]+", "", tables)
    return tables + as_json.getvalue() + packets.getvalue() + report


def check(path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """In one batch, in many, and in many by several processes."""
    whole = results(1, path, **options)
    with monkeypatch.context() as patch:
        patch.setattr(batches, "BATCH_PACKETS", SMALL)
        patch.setattr(workers, "FEWEST_PACKETS", 0)
        assert results(1, path, **options) == whole
        for jobs in (2, 3):
            assert results(jobs, path, **options) == whole
        # In files, and in pieces where whole-array work would take much memory.
        patch.setattr(room, "SPILL_PACKETS", 10)
        patch.setattr(room, "_SMALL_BYTES", 1)
        patch.setattr(room, "AT_ONCE", 17)
        patch.setattr(flows, "SHARE_PACKETS", 50)
        for jobs in (1, 2):
            assert results(jobs, path, **options) == whole


def keys_of(path: Path) -> list[Path]:
    """Key logs beside a capture."""
    names = [path.with_suffix(".keys"), path.with_suffix(".keys.txt"), path.parent / "keys.log"]
    return [name for name in names if name.exists()]


NAMES = sorted(
    path.name
    for path in (Path(__file__).resolve().parents[2] / "captures").iterdir()
    if ".pcap" in path.name
)


@pytest.mark.parametrize("name", NAMES)
def test_own_captures(name: str, captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = captures / name
    check(path, monkeypatch)
    if keys := keys_of(path):
        check(path, monkeypatch, keylogs=keys)


@pytest.mark.parametrize(
    "options",
    [
        {"redact": "none"},
        {"redact": "hosts,ips,paths"},
        {"ports": [443]},
        {"start": "+0.5", "end": "+2"},
        {"select": ["tcp/*"]},
    ],
    ids=str,
)
def test_options(options: dict[str, Any], captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES[:: len(NAMES) // 12]:
        path = captures / name
        check(path, monkeypatch, keylogs=keys_of(path), **options)


def test_lab(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = sorted(lab.glob("*/*/client.pcap*"))
    assert runs
    for path in runs[::4]:
        check(path, monkeypatch, keylogs=keys_of(path))


def test_corpus(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted(path for path in corpus.glob("*/*") if ".pcap" in path.name)
    assert files
    for path in files:
        if path.stat().st_size < 1 << 20:
            check(path, monkeypatch, keylogs=keys_of(path))


def test_too_few_packets_to_pay_for_a_process(
    captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise AssertionError("forked for a few packets")

    monkeypatch.setattr("os.fork", refuse)
    assert results(4, captures / NAMES[0])
