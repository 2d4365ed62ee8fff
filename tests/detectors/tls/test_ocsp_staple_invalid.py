"""tls/ocsp-staple-invalid on tables made by hand: each fault, and a fresh response."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.certificates import Certificate
from capture_analyzer.model.findings import Finding

HOUR = 3_600_000_000_000
GOOD: dict[str, Any] = {
    "staple_bytes": 475,
    "staple_response": "successful",
    "staple_status": "good",
    "staple_for_this": True,
    "staple_this_update_ns": -HOUR,
    "staple_next_update_ns": HOUR,
}


def judge(hand_made: ModuleType, **values: Any) -> list[Finding]:
    """The findings about such a response."""
    tables = hand_made.tables(
        connections=[hand_made.connection(tls=hand_made.tls(start_ns=0))],
        certificates=[Certificate(0, 0, [0], **{**GOOD, **values})],
    )
    findings, _ = run(tables, select=["tls/ocsp-staple-invalid"])
    return findings


@pytest.mark.parametrize(
    ("values", "fault", "severity"),
    [
        ({"staple_next_update_ns": -1}, "expired", "warning"),
        ({"staple_this_update_ns": HOUR}, "not_yet_valid", "warning"),
        ({"staple_for_this": False}, "other_certificate", "warning"),
        ({"staple_status": "revoked"}, "revoked", "critical"),
        ({"staple_status": "unknown"}, "unknown", "warning"),
        ({"staple_response": "try_later", "staple_status": None}, "failed", "warning"),
        ({"staple_response": "malformed", "staple_status": None}, "malformed", "warning"),
    ],
)
def test_faults(hand_made: ModuleType, values: dict[str, Any], fault: str, severity: str) -> None:
    (row,) = judge(hand_made, **values)
    assert (row.measures["fault"], row.severity) == (fault, severity)


def test_near_misses(hand_made: ModuleType) -> None:
    assert not judge(hand_made)
    assert not judge(hand_made, staple_next_update_ns=None), "valid until there is a newer one"
    assert not judge(hand_made, staple_this_update_ns=HOUR // 30), "clocks differ by minutes"
    assert not judge(hand_made, staple_for_this=None), "can't be told"
    assert not judge(hand_made, staple_bytes=None, staple_status=None, staple_response=None)


def test_words(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, staple_next_update_ns=-5 * HOUR)
    assert row.summary == "The OCSP response that api.example stapled had expired 5 hours before."
