"""Findings about TCP, DNS and the capture itself, on lab captures with known truth.

Those that must be there, at their cost, and none at warning or above that has no ground.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capture_analyzer.api import analyze

GROUPS = ("tcp/", "dns/", "capture/")
MECHANISMS = {
    "fast": "tcp/fast-retransmission",
    "TLP": "tcp/tail-loss",
    "RTO": "tcp/retransmission-timeout",
    "after-RTO": "tcp/retransmission-timeout",
}

pytestmark = pytest.mark.shared


def ours(ids: Any) -> set[str]:
    return {name for name in ids if name.startswith(GROUPS)}


def happened(folder: Path) -> set[str]:
    """What the losses that were really made, and are in the capture, may be called."""
    found = set()
    for flow in json.loads((folder / "truth.json").read_text())["flows"]:
        for way in ("c2s", "s2c"):
            rows = flow.get(way) or {}
            for row in rows.get("retransmissions", []):
                if row.get("client_frame") and not row["needed"]:
                    found.add("tcp/spurious-retransmission")
                elif row.get("client_frame"):
                    found.add(MECHANISMS[row["mechanism"].split()[0]])
            if rows.get("overtaken"):
                found.add("tcp/reordering")
    return found


def test_findings(lab: Path) -> None:
    expected = json.loads((lab / "EXPECT.json").read_text())
    wrong = []
    count = 0
    for name, expect in sorted(expected.items()):
        folder = lab / name
        if not isinstance(expect, dict) or not (folder / "truth.json").exists():
            continue
        file = folder / expect.get("file", "client.pcap")
        keys = folder / "keys.log"
        findings = analyze(file, keylogs=[keys] if keys.exists() else []).findings
        count += 1
        must, made = ours(expect["must"]), happened(folder)
        got = ours(row.detector for row in findings)
        wrong += [f"{name}: {missing} is silent" for missing in sorted(must - got)]
        any_of = ours(expect.get("any", ()))
        if any_of and any_of & made and not any_of & got:
            wrong.append(f"{name}: none of {sorted(any_of)} fires")
        known = must | made | any_of | set(expect["may"])
        wrong += [
            f"{name}: {row.detector} fires: {row.summary}"
            for row in findings
            if row.severity != "info" and row.detector in ours([row.detector]) - known
        ]
        for detector, (low, high) in expect.get("cost_ms", {}).items():
            costs = [(row.cost_ns or 0) / 1e6 for row in findings if row.detector == detector]
            if detector.startswith(GROUPS) and not low <= sum(costs) <= high:
                wrong.append(f"{name}: {detector} cost {costs} ms")
        wrong += [
            f"{name}: {row.detector} has no packets"
            for row in findings
            if row.detector in must and not row.packet_nos
        ]
    assert wrong == []
    assert count > 50
