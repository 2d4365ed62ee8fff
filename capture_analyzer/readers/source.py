"""Opening a capture: from a name to one buffer with the container's bytes.

Whatever a file is wrapped in is taken off here, so that the container readers see nothing
but a buffer. Plain files are mapped; what can't be mapped (compressed files, pipes, standard
input) is spooled.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from capture_analyzer.errors import CaptureReadError, UnsupportedFormatError
from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.progress import Progress, silent
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.readers.compression import MAGIC_BYTES, UNPACKERS, compression_of
from capture_analyzer.readers.spool import Spool

STANDARD_INPUT: Final = Path("-")
"""What stands for standard input."""

_READ_BYTES: Final = 256 << 10

_PROBLEMS: Final = {
    "truncated": ("truncated", "the {} data ends early; what there was is analysed"),
    "damaged": ("damaged", "the {} data is damaged; what came before is analysed"),
    "window": ("damaged", "the {} data needs more than 128 MiB of memory: unpack it first"),
    "trailing": ("trailing-bytes", "bytes behind the {} data are not looked at"),
}


@quick_dataclass
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

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return "stdin" if self.path == STANDARD_INPUT else self.path.name

    def format(self, container: str) -> str:
        """The format of a file, as the files table names it: "pcap", "pcap+gzip"."""
        return f"{container}+{self.compression}" if self.compression else container


def open_source(path: Path, *, spool: Spool | None = None, progress: Progress = silent) -> Source:
    """Open a file of any supported wrapping, a pipe, or standard input ("-").

    Args:
        path: the file.
        spool: where its bytes go if it can't be mapped.
        progress: told how much has been read of what is spooled.

    Raises:
        CaptureReadError: it is missing, unreadable, or a folder.
        UnsupportedFormatError: it is empty.
    """
    spool = Spool() if spool is None else spool
    try:
        if path == STANDARD_INPUT:
            return _opened(path, sys.stdin.buffer, spool, progress)
        with path.open("rb") as file:
            return _opened(path, file, spool, progress)
    except OSError as error:
        raise CaptureReadError(path, _reason(error)) from error


def _opened(path: Path, file: BinaryIO, spool: Spool, progress: Progress) -> Source:
    status = os.fstat(file.fileno())
    if stat.S_ISDIR(status.st_mode):
        raise CaptureReadError(path, "this is a folder, not a capture file")
    regular = stat.S_ISREG(status.st_mode) and file.tell() == 0
    if regular and not status.st_size:
        raise UnsupportedFormatError(path, "the file is empty", empty=True)
    stream = _Stream(file, status.st_size if regular else 0, progress)
    start = stream.peek(MAGIC_BYTES)
    compression = compression_of(start)
    if compression:
        return _unpacked(path, stream, compression, spool)
    if regular:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return Source(path, memoryview(mapped))
    if not start:
        raise UnsupportedFormatError(path, "there is nothing in it")
    buffer, over = spool.take(stream.parts())
    return Source(path, buffer, anomalies=_over(over, spool, "it has"))


def _unpacked(path: Path, stream: _Stream, compression: str, spool: Spool) -> Source:
    unpacker = UNPACKERS[compression][1](stream.read)
    buffer, over = spool.take(unpacker)
    anomalies = _over(over, spool, "it unpacks to")
    if not over and unpacker.problem:
        code, detail = _PROBLEMS[unpacker.problem]
        name = f"{compression}-{code}"
        anomalies.append(Anomaly(name, "capture", detail.format(compression)))
    if not len(buffer):
        reason = f"there is nothing in this {compression} file"
        if unpacker.problem == "window":
            reason = anomalies[0].detail
        raise UnsupportedFormatError(path, reason)
    return Source(path, buffer, compression, anomalies)


def _over(over: bool, spool: Spool, what: str) -> list[Anomaly]:
    if not over:
        return []
    detail = (
        f"{what} more than what is left of {spool.limit:,} bytes (--max-spool); the rest is not "
        "looked at"
    )
    return [Anomaly("spool-limit", "analyzer", detail)]


class _Stream:
    """Reads a file from its start, also after having looked at its first bytes."""

    def __init__(self, file: BinaryIO, size: int, progress: Progress) -> None:
        self._file = file
        self._size = size
        self._progress = progress
        self._done = 0
        self._start = b""

    def peek(self, count: int) -> bytes:
        self._start = self._file.read(count)
        return self._start

    def read(self, count: int) -> bytes:
        part = self._start + self._file.read(max(count - len(self._start), 0))
        self._start = b""
        self._done += len(part)
        self._progress("decompress" if self._size else "receive", self._done, self._size)
        return part

    def parts(self) -> Iterator[bytes]:
        while part := self.read(_READ_BYTES):
            yield part


def _reason(error: OSError) -> str:
    """One clause for what the operating system said."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "this is a folder, not a capture file"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    return (error.strerror or "can't be read").lower()
