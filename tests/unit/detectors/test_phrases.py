"""Pieces of sentences."""

from __future__ import annotations

import pytest

from capture_analyzer.detectors.phrases import amount, listed, time_range, upper_first

MS = 1_000_000


@pytest.mark.parametrize(
    ("low_ms", "high_ms", "text"),
    [
        (121, 305, "121 to 305 ms"),
        (700, 1350, "0.70 to 1.35 s"),
        (1031, 1032, "1.03 s"),
        (4.1, 57, "4.1 to 57 ms"),
        (0.29, 57, "0.29 to 57 ms"),
        (9_000, 61_000, "9.00 to 61.0 s"),
    ],
)
def test_time_range(low_ms: float, high_ms: float, text: str) -> None:
    assert time_range(round(low_ms * MS), round(high_ms * MS)).replace("\u00a0", " ") == text


def test_amount() -> None:
    assert amount(48 * MS) == "48\u00a0ms"
    assert amount(700 * MS) == "0.70\u00a0s"


def test_listed() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_upper_first() -> None:
    assert upper_first("six of 8") == "Six of 8"
    assert upper_first("") == ""
