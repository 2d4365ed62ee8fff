"""Where results are written: whole or not at all.

A regular file is written beside its final place and then renamed, so that a reader never
sees half of one, and an old result survives a failed run. Devices and pipes (/dev/stdout, a
named pipe, a shell's >(process)) are written through, since a rename would replace them.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, Final, TypeAlias

from capture_analyzer.errors import OutputError

Target: TypeAlias = str | os.PathLike[str] | IO[str]
"""A path, "-" for standard output, or an open text file."""

STANDARD_OUTPUT: Final = "-"
_ITS_NAMES: Final = frozenset({STANDARD_OUTPUT, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})
_BUFFER_BYTES: Final = 1 << 20  # exporters write large pieces


@contextlib.contextmanager
def open_text(target: Target) -> Iterator[IO[str]]:
    """Open a destination for UTF-8 text with plain newlines.

    If the body raises, a regular file is left as it was.

    Raises:
        OutputError: it can't be written.
        BrokenPipeError: the reader of a pipe or of standard output went away.
    """
    if not isinstance(target, str | os.PathLike):
        yield target
    elif is_standard_output(target):
        yield sys.stdout
        sys.stdout.flush()
    else:
        with _open(target) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True)
            yield text
            text.detach()


def write_bytes(target: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` as the whole of a destination.

    Raises:
        OutputError: it can't be written.
        BrokenPipeError: the reader of a pipe or of standard output went away.
    """
    if is_standard_output(target):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        with _open(target) as file:
            file.write(data)


@contextlib.contextmanager
def _open(target: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    name = os.fspath(target)
    try:
        # A link stays a link: what it points to is replaced.
        special = _is_special(Path(name))
        writer = _through(Path(name)) if special else _beside(Path(os.path.realpath(name)))
        with writer as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(name, error.strerror or type(error).__name__) from error


def is_standard_output(target: Target) -> bool:
    """Whether a destination is standard output, under any of its names."""
    return isinstance(target, str | os.PathLike) and os.fspath(target) in _ITS_NAMES


def check(target: str | os.PathLike[str]) -> None:
    """Find out early whether a destination can be written, before work is spent on it.

    Raises:
        OutputError: it is a folder, its folder is missing, or writing there isn't allowed.
    """
    name = os.fspath(target)
    if is_standard_output(name):
        return
    path = Path(os.path.realpath(name))
    if path.is_dir():
        raise OutputError(name, "is a folder")
    if _is_special(Path(name)):
        if not os.access(name, os.W_OK):
            raise OutputError(name, "no permission to write")
    elif not path.parent.is_dir():
        raise OutputError(name, "its folder does not exist")
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(name, "no permission to write in its folder")


def _is_special(path: Path) -> bool:
    """Whether something is there that is no regular file."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _through(path: Path) -> Iterator[BinaryIO]:
    with path.open("wb", _BUFFER_BYTES) as file:
        yield file


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[BinaryIO]:
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb", _BUFFER_BYTES) as file:
            yield file
            os.fchmod(handle, _mode(path))
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _mode(path: Path) -> int:
    """Permissions of the file that is replaced, else those of any new file."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
