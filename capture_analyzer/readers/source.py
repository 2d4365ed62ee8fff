"""Opening a capture: from a path to one buffer with the container's bytes.

Whatever a file is wrapped in (gzip now) is taken off here, so that the container readers
see nothing but a buffer. Plain files are mapped; what can't be mapped is spooled.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from capture_analyzer.errors import CaptureReadError, UnsupportedFormatError
from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.readers.gzip import MAGIC as GZIP_MAGIC
from capture_analyzer.readers.gzip import Gunzip
from capture_analyzer.readers.spool import DEFAULT_LIMIT_BYTES, spool

_GZIP_PROBLEMS: Final = {
    "truncated": ("gzip-truncated", "the gzip data ends early; what there was is analysed"),
    "damaged": ("gzip-damaged", "the gzip data is damaged; what came before is analysed"),
    "trailing": ("gzip-trailing-bytes", "bytes behind the gzip data are not looked at"),
}


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

    def format(self, container: str) -> str:
        """The format of a file, as the files table names it: "pcap", "pcap+gzip"."""
        return f"{container}+{self.compression}" if self.compression else container


def open_source(
    path: Path, *, max_spool: int = DEFAULT_LIMIT_BYTES, progress: Progress = silent
) -> Source:
    """Open a file of any supported wrapping.

    Args:
        path: the file.
        max_spool: most bytes that it may take when decompressed.
        progress: told how much has been decompressed.

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
            if file.read(len(GZIP_MAGIC)) != GZIP_MAGIC:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                return Source(path, memoryview(mapped))
            file.seek(0)
            return _gunzipped(path, file, status.st_size, max_spool, progress)
    except OSError as error:
        raise CaptureReadError(path, _reason(error)) from error


def _gunzipped(path: Path, file: BinaryIO, size: int, max_spool: int, progress: Progress) -> Source:
    def read(count: int) -> bytes:
        part = file.read(count)
        progress("decompress", file.tell(), size)
        return part

    gunzip = Gunzip(read)
    buffer, over = spool(gunzip, max_spool)
    anomalies = []
    if over:
        detail = f"it unpacks to more than {max_spool:,} bytes; the rest is not looked at"
        anomalies.append(Anomaly("spool-limit", "analyzer", detail))
    elif gunzip.problem:
        code, detail = _GZIP_PROBLEMS[gunzip.problem]
        anomalies.append(Anomaly(code, "capture", detail))
    if not len(buffer):
        raise UnsupportedFormatError(path, "there is nothing in this gzip file")
    return Source(path, buffer, "gzip", anomalies)


def _reason(error: OSError) -> str:
    """One clause for what the operating system said."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "this is a folder, not a capture file"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    return (error.strerror or "can't be read").lower()
