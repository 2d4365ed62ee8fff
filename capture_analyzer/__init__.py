"""capture_analyzer says why a request was slow, from a packet capture.

    >>> import capture_analyzer
    >>> analysis = capture_analyzer.analyze("trouble.pcap")
    >>> for finding in analysis.findings:
    ...     print(finding.severity, finding.summary)
    >>> analysis.frame("exchanges")

The names below are imported when they are first used, so that ``import capture_analyzer``
costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capture_analyzer.errors import (
    CaptureAnalyzerError,
    CaptureReadError,
    KeyLogError,
    OptionError,
    UnsupportedFormatError,
)
from capture_analyzer.version import __version__

if TYPE_CHECKING:
    from capture_analyzer.api import analyze
    from capture_analyzer.model.analysis import Analysis

__all__ = [
    "Analysis",
    "CaptureAnalyzerError",
    "CaptureReadError",
    "KeyLogError",
    "OptionError",
    "UnsupportedFormatError",
    "__version__",
    "analyze",
]

_LAZY = {"analyze": "capture_analyzer.api", "Analysis": "capture_analyzer.model.analysis"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
