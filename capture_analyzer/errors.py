"""The exceptions a caller can see.

Below the file level nothing is fatal: a bad packet, record or message becomes an
anomaly in the result. Only what prevents an analysis altogether is raised.
"""

from __future__ import annotations

from pathlib import Path


class CaptureAnalyzerError(Exception):
    """Base of every exception that capture_analyzer raises on purpose."""


class CaptureReadError(CaptureAnalyzerError):
    """The capture can't be read.

    Attributes:
        path: the file, as the caller named it.
        offset: where in the (decompressed) file reading failed, in bytes; ``None`` if it is
            not about a place in the file.
        reason: one clause, without a full stop.
    """

    def __init__(self, path: str | Path, reason: str, offset: int | None = None) -> None:
        self.path = str(path)
        self.offset = offset
        self.reason = reason
        where = "" if offset is None else f" (at byte {offset})"
        name = "standard input" if self.path == "-" else self.path
        super().__init__(f"{name}: {reason}{where}")


class UnsupportedFormatError(CaptureReadError):
    """The file is readable but is not a capture of a supported format.

    Attributes:
        empty: there is nothing in it at all.
    """

    def __init__(
        self, path: str | Path, reason: str, offset: int | None = None, *, empty: bool = False
    ) -> None:
        super().__init__(path, reason, offset)
        self.empty = empty


class TwoPointsError(CaptureAnalyzerError):
    """Files given together were captured at two points, which can't be analysed as one."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(
            f"{one} and {other} hold the same segments, captured at two points (such as client "
            "and server): analyse them one at a time"
        )


class KeyLogError(CaptureAnalyzerError):
    """The key log can't be used. Its message never holds a secret."""


class OptionError(CaptureAnalyzerError):
    """An option has no meaning: an unknown detector, a threshold of the wrong type."""


class WorkerError(CaptureAnalyzerError):
    """A worker process died or failed, so that its part of the result is missing.

    Attributes:
        trace: where it failed, as a trace-back; empty if it died.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace

    def __reduce__(self) -> tuple[type[WorkerError], tuple[str, str]]:
        return WorkerError, (str(self), self.trace)


class OutputError(CaptureAnalyzerError):
    """A result can't be written.

    Attributes:
        path: the destination, as the caller named it.
        reason: one clause, without a full stop.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"can't write {path}: {reason}")
