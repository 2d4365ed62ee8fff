"""Options: typed by their defaults, and refused with a sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest

from capture_analyzer.detectors.contract import Detector, Documentation, Meta
from capture_analyzer.detectors.options import matching, options_of, unknown
from capture_analyzer.errors import OptionError
from capture_analyzer.model.column import column


@dataclasses.dataclass(frozen=True)
class Options:
    limit_ms: int = column("Limit.", unit="ms", default=5)
    share: float = column("Share.", default=0.5)
    strict: bool = column("Strict.", default=False)
    word: str = column("Word.", default="a")


DETECTOR = Detector(
    "tcp/slow-thing",
    Meta(tables=(), options=Options),
    Documentation("", "", "", "", ""),
    lambda tables, options: [],
)


def test_defaults() -> None:
    assert options_of(DETECTOR, {}) == Options()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("limit_ms", "-7", -7),
        ("limit_ms", 8, 8),
        ("share", "0.25", 0.25),
        ("share", 1, 1.0),
        ("strict", "yes", True),
        ("strict", "OFF", False),
        ("strict", True, True),
        ("word", "b=c", "b=c"),
    ],
)
def test_value_takes_the_type_of_the_default(name: str, text: object, value: object) -> None:
    options = options_of(DETECTOR, {name: text})
    assert getattr(options, name) == value
    assert type(getattr(options, name)) is type(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit_ms", "5.5"),
        ("limit_ms", 5.5),
        ("limit_ms", True),
        ("limit_ms", ""),
        ("share", "nan"),
        ("share", "inf"),
        ("share", None),
        ("share", False),
        ("strict", "maybe"),
        ("strict", 1),
        ("word", 3),
    ],
)
def test_wrong_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=f"tcp/slow-thing.{name} must be"):
        options_of(DETECTOR, {name: value})


def test_unknown_option_names_those_that_exist() -> None:
    with pytest.raises(OptionError, match="limit_ms, share"):
        options_of(DETECTOR, {"limit": 1})


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        (["tcp/a"], {"tcp/a"}),
        (["tcp/*", "http/c"], {"tcp/a", "tcp/b", "http/c"}),
        ([], set()),
    ],
)
def test_patterns(patterns: Iterable[str], chosen: set[str]) -> None:
    assert matching(patterns, ["http/c", "tcp/a", "tcp/b"]) == chosen


def test_pattern_that_names_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="did you mean tcp/a-thing"):
        matching(["tcp/athing"], ["tcp/a-thing"])
    assert "capture-analyzer detectors" in unknown("xyz", ["tcp/a-thing"])
