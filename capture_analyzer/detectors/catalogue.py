"""All detectors: found by walking this package, and through entry points.

A third party adds detectors with entry points of the group `ENTRY_POINTS`; the name of an
entry point is the id ("acme/slow-cache"), its value a module of the form in `contract`.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import Final

from capture_analyzer.detectors.contract import Detector, detector_of
from capture_analyzer.entry_points import entry_points

ENTRY_POINTS: Final = "capture_analyzer.detectors"
_PACKAGE: Final = "capture_analyzer.detectors"


class Catalogue:
    """Detectors by id, in the order of their ids.

    Attributes:
        detectors: those that can run.
        broken: third parties' detectors that can't, with the reason.
    """

    def __init__(self, detectors: dict[str, Detector], broken: dict[str, str]) -> None:
        self.detectors = dict(sorted(detectors.items()))
        self.broken = dict(sorted(broken.items()))

    def __contains__(self, detector_id: str) -> bool:
        return detector_id in self.detectors or detector_id in self.broken

    def ids(self) -> list[str]:
        """Every id in order, those of broken detectors too."""
        return sorted({*self.detectors, *self.broken})


@cache
def catalogue() -> Catalogue:
    """The built-in detectors and those of entry points.

    Raises:
        MalformedDetectorError: a built-in detector is malformed (a mistake in this package).
    """
    detectors = builtin()
    broken: dict[str, str] = {}
    for point in sorted(entry_points(ENTRY_POINTS), key=lambda point: point.name):
        if point.name in detectors or point.name in broken:
            owner = point.dist.name if point.dist else point.value
            broken[f"{owner}:{point.name}"] = "another detector has this id"
            continue
        try:
            detectors[point.name] = detector_of(point.load(), point.name)
        except Exception as error:  # whatever a stranger's module raises must not end the run
            broken[point.name] = f"can't be loaded: {type(error).__name__}"
    return Catalogue(detectors, broken)


def builtin() -> dict[str, Detector]:
    """The detectors of this package: the modules of its sub-packages, by id."""
    found: dict[str, Detector] = {}
    package = importlib.import_module(_PACKAGE)
    for group in pkgutil.iter_modules(package.__path__):
        if not group.ispkg:
            continue
        folder = importlib.import_module(f"{_PACKAGE}.{group.name}")
        for entry in pkgutil.iter_modules(folder.__path__):
            module = importlib.import_module(f"{folder.__name__}.{entry.name}")
            detector_id = id_of(module)
            found[detector_id] = detector_of(module, detector_id)
    return found


def id_of(module: ModuleType) -> str:
    """The id that a built-in detector's module has by its path."""
    return module.__name__.removeprefix(_PACKAGE + ".").replace(".", "/").replace("_", "-")
