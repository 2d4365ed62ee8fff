"""From what a caller names (files, patterns, folders, standard input) to files to open."""

from __future__ import annotations

import contextlib
import glob
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from capture_analyzer.errors import CaptureReadError, OptionError
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.readers.source import STANDARD_INPUT

MAX_FILES: Final = 60_000
"""What the files table can number, with room for the buffers of reassembled fragments."""

_DESCRIPTORS_BESIDE: Final = 64
"""Descriptors for what is opened besides: spools, outputs, pipes."""

_PATTERN: Final = frozenset("*?[")


@quick_dataclass(frozen=True)
class Input:
    """A file to open.

    Attributes:
        path: it, or STANDARD_INPUT.
        named: the caller named it, so that it has to be a capture; else it was found in a
            folder or by a pattern, and may be something else.
    """

    path: Path
    named: bool


def find_inputs(names: Sequence[str | Path]) -> tuple[list[Input], list[Path]]:
    """The files behind some names, in the order of the names, each once.

    A folder stands for the files right in it, a pattern (``*``, ``?``, ``[``) for those that
    match if there is no file of that name; both in the order of their names.

    Returns:
        The files, and those that were named more than once.

    Raises:
        CaptureReadError: a folder is empty or can't be read, or a pattern matches nothing.
        OptionError: standard input is asked for twice, or there are too many files.
    """
    inputs: list[Input] = []
    repeated: list[Path] = []
    seen: set[tuple[int, int]] = set()
    standard = False
    for name in names:
        path = Path(name)
        if path == STANDARD_INPUT:
            if standard:
                raise OptionError("standard input (-) can be read only once")
            standard = True
            inputs.append(Input(path, True))
            continue
        for found in _found(path):
            identity = _identity(found.path)
            if identity in seen:
                repeated.append(found.path)
                continue
            if identity is not None:
                seen.add(identity)
            inputs.append(found)
    if len(inputs) > MAX_FILES:
        raise OptionError(f"{len(inputs):,} files: at most {MAX_FILES:,} can be read together")
    return inputs, repeated


def _found(path: Path) -> list[Input]:
    if path.is_dir():
        try:
            files = sorted(child for child in path.iterdir() if child.is_file())
        except OSError as error:
            raise CaptureReadError(path, (error.strerror or "can't be read").lower()) from error
        if not files:
            raise CaptureReadError(path, "there is no file in this folder")
        return [Input(child, False) for child in files]
    if _PATTERN & set(str(path)) and not path.exists():
        files = [Path(match) for match in sorted(glob.glob(str(path)))]  # noqa: PTH207
        files = [match for match in files if match.is_file()]
        if not files:
            raise CaptureReadError(path, "no file matches this pattern")
        return [Input(match, False) for match in files]
    return [Input(path, True)]


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells whether two names mean the same file; None for pipes, which are read once."""
    with contextlib.suppress(OSError):
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            return status.st_dev, status.st_ino
    return None


def allow_open_files(count: int) -> None:
    """Have the operating system allow so many open files, as far as it lets us.

    A mapped file counts as open, and 1,024 is a usual limit.
    """
    if os.name != "posix":
        return
    import resource

    wanted = count + _open_files() + _DESCRIPTORS_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _open_files() -> int:
    """How many files this process has open, where the operating system tells."""
    with contextlib.suppress(OSError):
        return sum(1 for _ in Path("/dev/fd").iterdir())
    return 0
