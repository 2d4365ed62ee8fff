"""Where big columns lie: in memory, in memory that processes share, or in files.

Columns that grow with the number of packets would fill the memory on a capture of tens of
millions of packets. From `SPILL_PACKETS` on they lie in temporary files that are mapped: what
is not in use, the system writes to the disk and takes from memory, as it does with the capture
itself. The files have no names; they are gone when the columns are, whatever happens.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import is_constant
from capture_analyzer.model.parcel import put, take

T = TypeVar("T")

SPILL_PACKETS: Final = 4_000_000
"""Packets up to which columns stay in memory: they take about a gigabyte then."""

AT_ONCE: Final = 1 << 20
"""Elements that whole-array work on such columns takes at once, so that what it needs in between
does not grow with the capture."""

_SMALL_BYTES: Final = 1 << 20  # what is smaller is not worth a file


class Room:
    """Room for the columns of a capture.

    Args:
        shared: other processes write into columns: they must lie in memory that is shared.
        limit: most bytes of columns in files; what is beyond that stays in memory.

    Attributes:
        spills: columns go into files.
    """

    def __init__(self, *, shared: bool = False, limit: int = 1 << 62) -> None:
        self.shared = shared
        self.spills = False
        self._left = limit
        self._stow = -1

    def expect(self, packets: int) -> bool:
        """Say how many packets there are at least; returns whether columns go into files."""
        self.spills |= packets > SPILL_PACKETS
        return self.spills

    def unshared(self) -> Room:
        """Room for what no other process writes to."""
        return self if self.spills else IN_MEMORY

    def zeros(self, count: int, kind: type[np.generic] | np.dtype[Any]) -> NDArray[Any]:
        """A column of this many zeros."""
        size = count * np.dtype(kind).itemsize
        spill = self.spills and size >= _SMALL_BYTES
        if not size or not (spill or self.shared):
            return np.zeros(count, kind)
        return np.frombuffer((self._in_file(size) if spill else None) or mmap.mmap(-1, size), kind)

    def joined(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Arrays end to end, in one column; those that lie so already are not copied."""
        if len(parts) == 1 and not self.spills:
            return parts[0]
        if all(is_constant(part) and np.array_equal(part[:1], parts[0][:1]) for part in parts):
            return np.broadcast_to(parts[0][:1], sum(map(len, parts)))
        if not self.spills:
            there = _continuous(parts)
            return np.concatenate(parts) if there is None else there
        column = self.zeros(sum(map(len, parts)), np.result_type(*parts))
        at = 0
        for part in parts:
            column[at : at + len(part)] = part
            at += len(part)
        return column

    def copy(self, column: NDArray[Any]) -> NDArray[Any]:
        """The same elements in a column that may be written to."""
        copied = self.zeros(len(column), column.dtype)
        copied[:] = column
        return copied

    def stowed(self, result: T) -> T:
        """The same result, its arrays put into a file if columns go there."""
        if not self.spills or self._left <= 0:
            return result
        if self._stow < 0:
            self._stow = self.file()
            weakref.finalize(self, os.close, self._stow)
        try:
            place = put(result, self._stow)
        except OSError:  # no room on the disk
            self._left = 0
            return result
        self._left -= place[1]
        stowed: T = take(self._stow, *place)
        return stowed

    def file(self) -> int:
        """A new file without a name, empty, open for reading and writing."""
        if hasattr(os, "memfd_create") and not self.spills:
            return os.memfd_create("capture-analyzer")
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())

    def _in_file(self, size: int) -> mmap.mmap | None:
        """A mapped file of this size; None if there is no room for it on the disk."""
        if size > self._left:
            return None
        with tempfile.TemporaryFile() as file:
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                else:
                    os.ftruncate(file.fileno(), size)
            except OSError:
                return None
            self._left -= size
            return mmap.mmap(file.fileno(), size)


class Line:
    """A column that is made part by part: each is put behind the ones before.

    Args:
        expected: elements of all parts together; what comes beyond stays where it is.
        kind: their type.
    """

    def __init__(self, expected: int, kind: np.dtype[Any]) -> None:
        self._column = np.empty(expected, kind)
        self._count = 0

    def add(self, part: NDArray[Any]) -> NDArray[Any]:
        """The part in its place; itself if there is none left for it."""
        begin, end = self._count, self._count + len(part)
        if end > len(self._column) or part.dtype != self._column.dtype:
            return part
        self._count = end
        place = self._column[begin:end]
        place[:] = part
        return place


def _continuous(parts: Sequence[NDArray[Any]]) -> NDArray[Any] | None:
    """Arrays as one, if each begins in memory where the one before ends, as those of a `Line`."""
    parts = [part for part in parts if len(part)]
    column = parts[0].base if parts else None
    if not isinstance(column, np.ndarray) or column.dtype != parts[0].dtype:
        return None
    begin = at = _address(parts[0])
    for part in parts:
        if part.base is not column or part.strides != column.strides or _address(part) != at:
            return None
        at += part.nbytes
    first, last = ((place - _address(column)) // column.itemsize for place in (begin, at))
    return column[first:last]


def _address(array: NDArray[Any]) -> int:
    """Where in memory an array begins."""
    address: int = array.__array_interface__["data"][0]
    return address


IN_MEMORY: Final = Room()
"""Room for columns of whatever size in memory."""


def stretches(count: int) -> list[slice]:
    """The elements of a column in stretches of at most `AT_ONCE`."""
    return [slice(start, min(start + AT_ONCE, count)) for start in range(0, count, AT_ONCE)]
