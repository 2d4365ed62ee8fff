"""What an exporter is: a module with `META` and `export(analysis, destination)`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from capture_analyzer.exporters.destination import Target
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass(frozen=True)
class Meta:
    """What the mechanism must know of an exporter.

    Attributes:
        name: how it is called on the command line: "json".
        title: what it writes, as a noun phrase.
        suffix: the usual ending of its files: ".json".
    """

    name: str
    title: str
    suffix: str


@quick_dataclass(frozen=True)
class Exporter:
    """An exporter as the catalogue holds it."""

    meta: Meta
    export: Callable[[Analysis, Target], None]


class MalformedExporterError(Exception):
    """A module lacks something that every exporter has. The message says what."""


def exporter_of(module: ModuleType) -> Exporter:
    """The exporter that a module is.

    Raises:
        MalformedExporterError: `META` or `export` is missing.
    """
    meta = getattr(module, "META", None)
    export = getattr(module, "export", None)
    if not isinstance(meta, Meta):
        raise MalformedExporterError("META is missing or no Meta")
    if not callable(export):
        raise MalformedExporterError("export is missing")
    return Exporter(meta, export)
