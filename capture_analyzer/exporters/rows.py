"""Rows of text that consist of fixed parts and numbers, made by whole-array operations.

A row is put together of *words*: four characters each, fewer filled up with zero bytes. A
number becomes as many words as the greatest of its column needs; each word is looked up by
four digits. Once all words of all rows stand in one array, the zero bytes are dropped. That
takes a tenth of the time of formatting row by row.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME

Words: TypeAlias = Sequence[NDArray[np.uint32] | np.uint32]
"""A part of each row: words side by side, one a row, or the same for all rows."""

_SIZE: Final = 4
_BASE: Final = 10**_SIZE


def fixed(text: str) -> Words:
    """Text that is the same in every row.

    Args:
        text: ASCII without zero bytes.
    """
    return [_word(text[place : place + _SIZE]) for place in range(0, len(text), _SIZE)]


def choice(texts: Sequence[str]) -> NDArray[np.uint32]:
    """Texts of which `chosen` takes one for each row, as words: a row of all their firsts ...

    Args:
        texts: ASCII without zero bytes.
    """
    columns = itertools.zip_longest(*map(fixed, texts), fillvalue=_word(""))
    return np.array([*columns], np.uint32)


def chosen(codes: NDArray[Any], texts: NDArray[np.uint32]) -> Words:
    """For each row one of some texts.

    Args:
        codes: index into the texts, or truth.
        texts: as made by `choice`.
    """
    codes = codes.astype(np.intp)
    return [words[codes] for words in texts]


def numbers(values: NDArray[Any], absent: NDArray[np.bool_] | None = None) -> Words:
    """Whole numbers in decimal.

    Args:
        values: of any integer type; NO_TIME is null.
        absent: where nothing is to stand instead.
    """
    if not len(values):
        return [np.empty(0, np.uint32)]
    low, high = int(values.min()), int(values.max())
    null = values == NO_TIME if low == NO_TIME else None
    if null is not None:
        values = np.where(null, 0, values)
        low, high = int(values.min()), int(values.max())
    words = []
    if low < 0:
        words = [np.where(values < 0, _word("-"), _word(""))]
        values = np.abs(values.astype(np.int64))
        high = int(values.max())
    words += _decimal(values.astype(np.uint32 if high < 2**32 else np.uint64), high)
    if null is not None:
        words[-1] = np.where(null, _word("null"), words[-1])
    if absent is not None:
        words = [np.where(absent, _word(""), word) for word in words]
    return words


def _decimal(values: NDArray[np.unsignedinteger[Any]], high: int) -> list[NDArray[np.uint32]]:
    """Words for numbers up to `high`."""
    table, inner = _digits()
    words: list[NDArray[np.uint32]] = []
    while high or not words:
        more = values // _BASE
        four = (values - more * _BASE).astype(np.intp)
        words.append(table[np.where(more, four, four + _BASE)])
        table, values, high = inner, more, high // _BASE
    return words[::-1]


def _word(text: str) -> np.uint32:
    return np.uint32(np.frombuffer(text.encode("ascii").ljust(_SIZE, b"\0"), np.uint32)[0])


@functools.cache
def _digits() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Words for four digits, with leading zeros, then (from _BASE on) without.

    Returns:
        Two tables, for the last word of a number, which has a digit even if it is 0, and for
        those before.
    """
    number = np.arange(_BASE, dtype=np.uint32)
    powers = np.array([1000, 100, 10, 1], np.uint32)
    full = (number[:, None] // powers % 10 + ord("0")).astype(np.uint8)
    bare = np.where(number[:, None] >= powers, full, 0).astype(np.uint8)
    inner = np.concatenate((full, bare)).view(np.uint32).ravel()
    last = inner.copy()
    last[_BASE] = _word("0")
    return last, inner


def joined(*parts: Words) -> str:
    """The text of all rows, end to end.

    Args:
        parts: of each row, in order; the words of one of them at least are one a row.
    """
    words = [word for part in parts for word in part]
    count = next(len(word) for word in words if isinstance(word, np.ndarray))
    rows = np.empty((count, len(words)), np.uint32)
    # What is the same in all rows is written row by row, the rest column by column.
    rows[:] = [0 if isinstance(word, np.ndarray) else word for word in words]
    for place, word in enumerate(words):
        if isinstance(word, np.ndarray):
            rows[:, place] = word
    text = rows.view(np.uint8).ravel()
    return str(text[text != 0].data, "ascii")
