"""The form of a detector, checked on good and bad modules."""

from __future__ import annotations

import dataclasses
from types import ModuleType

import pytest

from capture_analyzer.detectors.catalogue import builtin, catalogue, id_of
from capture_analyzer.detectors.contract import (
    SECTIONS,
    MalformedDetectorError,
    Meta,
    detector_of,
    documentation_of,
)

DOCSTRING = """Things were slow.

What it detects:
    Slow things.

    Very slow ones too:

    - a list

Why it matters:
    Somebody waits.

What to do:
    Ask.

When it is wrong:
    At times.
"""


def module(**contents: object) -> ModuleType:
    made = ModuleType("capture_analyzer.detectors.tcp.slow_thing", DOCSTRING)
    made.__dict__.update(
        {"META": Meta(tables=()), "detect": lambda tables, options: []}, **contents
    )
    return made


def test_docstring_is_taken_apart() -> None:
    documentation = documentation_of(DOCSTRING)
    assert documentation.title == "Things were slow."
    assert documentation.detects == "Slow things.\n\nVery slow ones too:\n\n- a list"
    assert documentation.wrong == "At times."


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("Things were slow.", "things", "title"),
        ("Why it matters:\n    Somebody waits.\n", "", "must have"),
        ("Why it matters:", "Why does it matter:", "unknown section"),
        ("    Somebody waits.\n", "", "is empty"),
    ],
)
def test_incomplete_docstring_is_refused(before: str, after: str, complaint: str) -> None:
    assert before in DOCSTRING
    with pytest.raises(MalformedDetectorError, match=complaint):
        documentation_of(DOCSTRING.replace(before, after))


def test_sections_out_of_order_are_refused() -> None:
    swapped = DOCSTRING.replace("What to do:", "X:").replace("Why it matters:", "What to do:")
    with pytest.raises(MalformedDetectorError, match="must have"):
        documentation_of(swapped.replace("X:", "Why it matters:"))


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        ({"META": None}, "META"),
        ({"detect": None}, "detect"),
        ({"META": Meta(tables=(), options=int)}, "options"),
        ({"META": Meta(tables=(), causes=("bad_luck",))}, "bad_luck"),
    ],
)
def test_incomplete_module_is_refused(contents: dict[str, object], complaint: str) -> None:
    with pytest.raises(MalformedDetectorError, match=complaint):
        detector_of(module(**contents), "tcp/slow-thing")


def test_id_is_the_path() -> None:
    assert id_of(module()) == "tcp/slow-thing"


@pytest.mark.parametrize("detector_id", sorted(builtin()))
def test_detector_says_all_it_must(detector_id: str) -> None:
    detector = builtin()[detector_id]
    for section in SECTIONS:
        assert len(getattr(detector.documentation, section)) > 40, section
        assert "TODO" not in getattr(detector.documentation, section)
    assert detector.meta.tables
    assert detector.meta.severity
    assert detector.meta.references
    for field in dataclasses.fields(detector.meta.options):
        assert field.metadata["doc"].endswith("."), field.name
        assert field.default is not dataclasses.MISSING, field.name
        assert isinstance(field.default, bool | int | float | str)


def test_each_cause_has_its_owners_named() -> None:
    owners = {cause for detector in builtin().values() for cause in detector.meta.causes}
    assert {"server_think", "syn_retry"} <= owners


def test_catalogue_is_in_order_of_ids() -> None:
    assert catalogue().ids() == sorted(builtin())


class _Point:
    """What `importlib.metadata.entry_points` gives."""

    dist = None
    value = "acme"

    def __init__(self, name: str, loaded: object) -> None:
        self.name = name
        self._loaded = loaded

    def load(self) -> object:
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


def test_detectors_of_others_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        _Point("acme/slow-cache", module()),
        _Point("acme/broken", ImportError("secret")),
        _Point("acme/incomplete", ModuleType("nothing")),
        _Point("http/slow-server", module()),
    ]
    monkeypatch.setattr("capture_analyzer.detectors.catalogue.entry_points", lambda group: points)
    found = catalogue.__wrapped__()
    assert "acme/slow-cache" in found.detectors
    assert found.broken == {
        "acme/broken": "can't be loaded: ImportError",
        "acme/incomplete": "can't be loaded: MalformedDetectorError",
        "acme:http/slow-server": "another detector has this id",
    }
    assert found.detectors["http/slow-server"] == builtin()["http/slow-server"]
