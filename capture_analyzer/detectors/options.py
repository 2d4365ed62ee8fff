"""Options of detectors: defaults from their declaration, values from the caller."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from capture_analyzer.detectors.contract import Detector
from capture_analyzer.errors import OptionError

_TRUE: Final = ("true", "yes", "on", "1")
_FALSE: Final = ("false", "no", "off", "0")


def options_of(detector: Detector, settings: Mapping[str, object]) -> Any:
    """The options of a detector: `settings` by name over its defaults.

    Text is converted to the type of the default, as it comes from a command line.

    Raises:
        OptionError: no such option, or a value of the wrong type.
    """
    declared = {field.name: field for field in dataclasses.fields(detector.meta.options)}
    values: dict[str, object] = {}
    for name, value in settings.items():
        if name not in declared:
            options = f"its options: {', '.join(declared)}" if declared else "it has no options"
            raise OptionError(f"{detector.id} has no option {name!r}; {options}")
        label = f"{detector.id}.{name}"
        values[name] = _typed(label, value, declared[name].default)
    return detector.meta.options(**values)


def _typed(label: str, value: object, default: object) -> object:
    """`value` in the type of `default`."""
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in (*_TRUE, *_FALSE):
            return value.lower() in _TRUE
        raise OptionError(f"{label} must be true or false, not {value!r}")
    if isinstance(default, int):
        try:
            if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
                return int(value)
        except ValueError:
            pass
        raise OptionError(f"{label} must be a whole number, not {value!r}")
    if isinstance(default, float):
        number = math.nan
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            try:
                number = float(value)
            except (ValueError, OverflowError):
                number = math.nan
        if not math.isfinite(number):
            raise OptionError(f"{label} must be a number, not {value!r}")
        return number
    if not isinstance(value, str):
        raise OptionError(f"{label} must be text, not {value!r}")
    return value


def matching(patterns: Iterable[str], ids: list[str]) -> set[str]:
    """The ids that patterns name: an id, or a shell pattern such as ``tcp/*``.

    Raises:
        OptionError: a pattern names nothing.
    """
    chosen: set[str] = set()
    for pattern in patterns:
        hits = [known for known in ids if fnmatch.fnmatchcase(known, pattern)]
        if not hits:
            raise OptionError(unknown(pattern, ids))
        chosen.update(hits)
    return chosen


def unknown(detector_id: str, ids: list[str], kind: str = "detector") -> str:
    """The sentence that says there is no such detector, with the nearest that there is."""
    import difflib  # only mistakes need it

    near = difflib.get_close_matches(detector_id, ids, n=1)
    hint = f"did you mean {near[0]}?" if near else "capture-analyzer detectors lists them all"
    return f"there is no {kind} {detector_id!r}; {hint}"
