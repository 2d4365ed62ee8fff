"""Opening a capture: from a path to one buffer with the container's bytes.

Whatever a file is wrapped in (gzip now) is taken off here, so that the container readers
see nothing but a buffer. Plain files are mapped; what can't be mapped is decompressed into
a temporary file that has no name, and that is mapped.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import stat
from pathlib import Path

from capture_analyzer.errors import CaptureReadError, UnsupportedFormatError
from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.progress import Progress, silent


@dataclasses.dataclass(slots=True)
class Source:
    """The bytes of a container, ready to be read.

    Attributes:
        path: the file, as the caller named it.
        buffer: its bytes, decompressed.
        compression: what was taken off ("gzip"), "" for nothing.
        anomalies: what was noticed on the way.
    """

    path: Path
    buffer: memoryview | bytes
    compression: str = ""
    anomalies: list[Anomaly] = dataclasses.field(default_factory=list)


def open_source(path: Path, *, progress: Progress = silent) -> Source:
    """Open a file of any supported wrapping.

    Raises:
        CaptureReadError: it is missing, unreadable, or not a regular file.
        UnsupportedFormatError: it is empty.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise CaptureReadError(path, "not a regular file")
            if not status.st_size:
                raise UnsupportedFormatError(path, "the file is empty")
            return Source(path, memoryview(_mapped(file.fileno())))
    except OSError as error:
        raise CaptureReadError(path, _reason(error)) from error


def _mapped(descriptor: int) -> mmap.mmap:
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)


def _reason(error: OSError) -> str:
    """One clause for what the operating system said."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "this is a folder, not a capture file"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    return (error.strerror or "can't be read").lower()
