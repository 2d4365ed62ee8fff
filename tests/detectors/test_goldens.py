"""Each detector on the captures in which it must fire: the whole finding, as it was agreed.

The captures' own truth says where a detector fires and where it must not (a near miss).
After a change that is meant: ``UPDATE_GOLDENS=1 pytest tests/detectors`` and read the diff.
"""

from __future__ import annotations

import io
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from capture_analyzer.api import analyze
from capture_analyzer.detectors.catalogue import builtin
from capture_analyzer.exporters import json as json_exporter

CAPTURES = Path(__file__).resolve().parents[2] / "captures"
GOLDENS = Path(__file__).parent / "golden"

pytestmark = pytest.mark.skipif(not CAPTURES.is_dir(), reason="no captures here")


@cache
def truths() -> list[dict[str, Any]]:
    """What is true in each capture, by name."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(CAPTURES.glob("*.json"))]


def keys_of(file: str) -> str | None:
    """Where the keys of a capture are: "beside", "inside", "withheld"; None = there are none."""
    return next((row["keys"] for row in truths() if row["file"] == file), None)


@cache
def findings(file: str) -> list[dict[str, Any]]:
    """Findings of a capture, as the JSON export has them."""
    out = io.StringIO()
    keys = CAPTURES / file.replace(".pcap", ".keys")
    keylogs = [keys] if keys.exists() and keys_of(file) == "beside" else []
    json_exporter.export(analyze(CAPTURES / file, keylogs=keylogs), out)
    rows: list[dict[str, Any]] = json.loads(out.getvalue())["findings"]
    for row in rows:  # numbers move when another detector is added
        if row["counted_in"] is not None:
            row["counted_in"] = rows[row["counted_in"]]["detector"]
    for row in rows:
        del row["finding_no"]
    return rows


def golden_of(detector_id: str) -> Path:
    return GOLDENS / f"{detector_id}.json"


@pytest.mark.parametrize("detector_id", sorted(builtin()))
def test_findings_are_as_agreed(detector_id: str) -> None:
    fires = [row["file"] for row in truths() if detector_id in row["expect"]["fire"]]
    assert fires, "no capture in which it fires"
    assert any(detector_id in row["expect"]["silent"] for row in truths()), "no near miss"
    found = {
        file: [row for row in findings(file) if row["detector"] == detector_id] for file in fires
    }
    assert all(found.values()), "silent where it must fire"
    path = golden_of(detector_id)
    if os.environ.get("UPDATE_GOLDENS") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    assert path.exists(), "no golden; make one with UPDATE_GOLDENS=1"
    assert found == json.loads(path.read_text("utf-8"))


def test_no_golden_is_left_over() -> None:
    known = {golden_of(detector_id) for detector_id in builtin()}
    assert set(GOLDENS.rglob("*.json")) <= known
