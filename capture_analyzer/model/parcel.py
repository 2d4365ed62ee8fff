"""Results put into a file, and taken out with their arrays left where they are.

What is no array is pickled; arrays lie beside that, and are mapped when the result is taken out.
So they cross from one process to another, or out of memory, with one copy.
"""

from __future__ import annotations

import dataclasses
import io
import mmap
import operator
import os
import pickle
from collections.abc import Callable
from typing import Any, Final

import numpy as np

_ALIGNMENT: Final = 64  # of arrays in the file


class _Reducers(dict[type, Callable[[Any], tuple[Any, ...]]]):
    """How rows are pickled: as their class and the values of its fields, in order.

    By itself `pickle` would name the fields of each row, which takes three times as long.
    """

    def __missing__(self, kind: type) -> Callable[[Any], tuple[Any, ...]]:
        """The reducer of a class; a KeyError if it has none of this kind."""
        if not dataclasses.is_dataclass(kind) or kind.__reduce__ is not object.__reduce__:
            raise KeyError(kind)
        fields = dataclasses.fields(kind)
        if len(fields) < 2 or not all(field.init and not field.kw_only for field in fields):
            raise KeyError(kind)
        values = operator.attrgetter(*(field.name for field in fields))
        self[kind] = reducer = lambda row: (kind, values(row))
        return reducer


_REDUCERS: Final = _Reducers()


def put(result: object, file: int) -> tuple[int, int]:
    """Append a result to an open file; returns where it lies, and how many bytes it takes."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = io.BytesIO()
    pickler = pickle.Pickler(pickled, protocol=5, buffer_callback=buffers.append)
    pickler.dispatch_table = _REDUCERS
    pickler.dump(result)
    parts: list[bytes | memoryview] = [
        pickled.getbuffer(),
        *(buffer.raw() for buffer in buffers),
    ]
    sizes = np.array([len(parts), *map(len, parts)], np.int64)
    begin = -(-os.lseek(file, 0, os.SEEK_END) // mmap.ALLOCATIONGRANULARITY)
    begin *= mmap.ALLOCATIONGRANULARITY
    at = begin
    for part in (sizes.tobytes(), *parts):
        os.lseek(file, at, os.SEEK_SET)
        _write(file, part)
        at += _aligned(len(part))
    os.ftruncate(file, at)
    return begin, at - begin


def take(file: int, begin: int, size: int) -> Any:
    """A result that was put there; its arrays can be written, which the file keeps."""
    view = memoryview(mmap.mmap(file, size, offset=begin))
    (count,) = np.frombuffer(view[:8], np.int64).tolist()
    sizes = np.frombuffer(view[8 : 8 * (count + 1)], np.int64).tolist()
    at = _aligned(8 * (count + 1))
    parts = []
    for length in sizes:
        parts.append(view[at : at + length])
        at += _aligned(length)
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 - our own bytes


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _write(file: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while len(view):
        view = view[os.write(file, view) :]
