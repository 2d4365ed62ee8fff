"""What a detector is: a module with documentation, `META` and a pure `detect`.

A detector's id is its path: ``detectors/tcp/syn_retransmission.py`` is
``tcp/syn-retransmission``. Its docstring is its documentation: a title line, then the four
sections of `SECTIONS`, each a line that ends in a colon with indented text below it. The
documentation page, ``capture-analyzer explain`` and the report all show that text.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Final

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.causes import CAUSES
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass

SECTIONS: Final[dict[str, str]] = {
    "detects": "What it detects",
    "matters": "Why it matters",
    "advice": "What to do",
    "wrong": "When it is wrong",
}
"""Sections of a detector's documentation, in order: key in `Documentation`, heading."""

DEFAULT_SEVERITY: Final = (
    "critical: the exchange failed, or the cause took at least half of an affected exchange and "
    "500 ms; warning: at least 10 % and 20 ms of an affected exchange; info: less, or no cost"
)
"""The rule of `severity.by_default` in words."""


@quick_dataclass(frozen=True)
class NoOptions:
    """The options of a detector that has none."""


@quick_dataclass(frozen=True)
class Meta:
    """What the mechanism must know of a detector.

    Attributes:
        tables: names of the tables without rows of which it has nothing to judge.
        options: a frozen dataclass whose fields are its options, each declared with
            `model.column.column` (a sentence, a unit, a default that gives its type).
        causes: causes of the ledger that it owns: its cost is the ledger's time for them.
        severity: its severity rule in words.
        references: what its judgement rests on, such as sections of RFCs.
    """

    tables: tuple[str, ...]
    options: type = NoOptions
    causes: tuple[str, ...] = ()
    severity: str = DEFAULT_SEVERITY
    references: tuple[str, ...] = ()


@quick_dataclass(frozen=True)
class Documentation:
    """The parts of a detector's docstring; paragraphs are separated by an empty line."""

    title: str
    detects: str
    matters: str
    advice: str
    wrong: str


@quick_dataclass(frozen=True)
class Detector:
    """A detector as the catalogue holds it."""

    id: str
    meta: Meta
    documentation: Documentation
    detect: Callable[[Tables, Any], Iterable[Finding]]


class MalformedDetectorError(Exception):
    """A module lacks something that every detector has. The message says what."""


def detector_of(module: ModuleType, detector_id: str) -> Detector:
    """The detector that a module is.

    Raises:
        MalformedDetectorError: its docstring, `META` or `detect` is missing or incomplete.
    """
    meta = getattr(module, "META", None)
    detect = getattr(module, "detect", None)
    if not isinstance(meta, Meta):
        raise MalformedDetectorError("META is missing or no Meta")
    if not callable(detect):
        raise MalformedDetectorError("detect is missing")
    if not dataclasses.is_dataclass(meta.options):
        raise MalformedDetectorError("META.options is no dataclass")
    for cause in meta.causes:
        if cause not in CAUSES:
            raise MalformedDetectorError(f"META.causes names {cause!r}, which is no cause")
    return Detector(detector_id, meta, documentation_of(module.__doc__ or ""), detect)


def documentation_of(docstring: str) -> Documentation:
    """Take a detector's docstring apart.

    Raises:
        MalformedDetectorError: the title or a section is missing, empty or out of order.
    """
    lines = inspect.cleandoc(docstring).splitlines()
    title = lines[0].strip() if lines else ""
    if not title.endswith("."):
        raise MalformedDetectorError("the docstring does not begin with a title sentence")
    keys = {f"{heading}:": key for key, heading in SECTIONS.items()}
    texts: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines[1:]:
        if line in keys:
            current = texts.setdefault(keys[line], [])
        elif line.strip() and not line.startswith(" "):
            raise MalformedDetectorError(f"the docstring has an unknown section: {line}")
        elif current is not None:
            current.append(line)
    if list(texts) != list(SECTIONS):
        raise MalformedDetectorError(f"the docstring must have: {', '.join(SECTIONS.values())}")
    sections = {key: inspect.cleandoc("\n".join(["", *text])) for key, text in texts.items()}
    for key, text in sections.items():
        if not text:
            raise MalformedDetectorError(f"the section {SECTIONS[key]!r} is empty")
    return Documentation(title=title, **sections)
