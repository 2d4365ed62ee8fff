"""Text for terminals: nothing captured may act on one, and columns stay straight."""

from __future__ import annotations

import pytest

from capture_analyzer.cli.safe_text import fit, printable, right, width, wrap


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text – naïve 漢字 …", "plain text – naïve 漢字 …"),
        ("57\u00a0ms", "57\u00a0ms"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\rb\nc\td\x00\x7f\x9b", "a\\x0db\\x0ac\\x09d\\x00\\x7f\\x9b"),
        ("abc\u202edcba\u2066x\u200b", "abc\\u202edcba\\u2066x\\u200b"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("\u2028", "\\u2028"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_width() -> None:
    assert width("abc") == 3
    assert width("漢字") == 4
    assert width("e\u0301") == 1


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("abc", 5, "abc  "),
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abcde…"),
        ("漢字漢字", 6, "漢字… "),
    ],
)
def test_fit(text: str, columns: int, shown: str) -> None:
    assert fit(text, columns) == shown
    assert width(fit(text, columns)) == columns


def test_right() -> None:
    assert right("ab", 4) == "  ab"
    assert right("abcdef", 4) == "abcdef"


def test_wrap() -> None:
    assert wrap("one two three four", 10, 5) == ["one two", "three four"]
    assert wrap("one two three four five six", 10, 2) == ["one two", "three fou…"]
    assert wrap("", 10, 2) == [""]
    assert wrap("x" * 25, 10, 3) == ["x" * 10, "x" * 10, "x" * 5]
