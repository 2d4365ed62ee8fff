"""tls/certificate-expiry on tables made by hand: the days before and behind the end."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.detectors.runner import run
from capture_analyzer.model.certificates import Certificate
from capture_analyzer.model.findings import Finding

DAY = 86_400_000_000_000


def judge(hand_made: ModuleType, begin: float, end: float, **values: Any) -> list[Finding]:
    """The findings about a certificate valid between these days of the capture's."""
    position = values.pop("position", 0)
    certificate = Certificate(
        0,
        position,
        [0],
        not_before_ns=round(begin * DAY),
        not_after_ns=round(end * DAY),
        self_signed=values.pop("self_signed", False),
    )
    tables = hand_made.tables(
        connections=[hand_made.connection(tls=hand_made.tls(start_ns=0))],
        certificates=[certificate],
    )
    findings, _ = run(
        tables, select=["tls/certificate-expiry"], settings={"tls/certificate-expiry": values}
    )
    return findings


@pytest.mark.parametrize(
    ("begin", "end", "severity"),
    [
        (-30, 60, None),
        (-30, 14.1, None),
        (-30, 13.9, "warning"),
        (-30, 0.01, "warning"),
        (-30, -0.01, "critical"),
        (0.5, 60, "critical"),
    ],
)
def test_days(hand_made: ModuleType, begin: float, end: float, severity: str | None) -> None:
    findings = judge(hand_made, begin, end)
    assert [row.severity for row in findings] == ([severity] if severity else [])


def test_words(hand_made: ModuleType) -> None:
    (row,) = judge(hand_made, -30, -3)
    assert row.summary == "The certificate that api.example showed had expired 3 days before."
    (row,) = judge(hand_made, -30, 0.1, position=1)
    assert row.summary == (
        "The intermediate certificate that api.example showed expires 2 hours later."
    )


def test_the_root_is_not_judged(hand_made: ModuleType) -> None:
    assert not judge(hand_made, -30, -3, position=2, self_signed=True)
    assert judge(hand_made, -30, -3, position=0, self_signed=True), "the server's own counts"


def test_the_option(hand_made: ModuleType) -> None:
    assert judge(hand_made, -30, 20, days="30")
    assert not judge(hand_made, -30, 5, days="3")
