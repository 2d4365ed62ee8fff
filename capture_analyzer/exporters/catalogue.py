"""All exporters: found by walking this package, and through entry points.

A third party adds exporters with entry points of the group `ENTRY_POINTS`; the value of an
entry point is a module of the form in `contract`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
from functools import cache
from typing import Final

from capture_analyzer.exporters.contract import Exporter, Meta, exporter_of

ENTRY_POINTS: Final = "capture_analyzer.exporters"
_PACKAGE: Final = "capture_analyzer.exporters"


@cache
def exporters() -> dict[str, Exporter]:
    """Every exporter by its name, in the order of names; built-in ones win."""
    found: dict[str, Exporter] = {}
    package = importlib.import_module(_PACKAGE)
    for entry in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{_PACKAGE}.{entry.name}")
        if isinstance(getattr(module, "META", None), Meta):
            exporter = exporter_of(module)
            found[exporter.meta.name] = exporter
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            exporter = exporter_of(point.load())
        except Exception:  # noqa: S112  a stranger's broken module must not end the run
            continue
        found.setdefault(exporter.meta.name, exporter)
    return dict(sorted(found.items()))
