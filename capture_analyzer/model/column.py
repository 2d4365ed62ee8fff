"""How a table declares its columns: one sentence and a unit for each, beside its type.

A table is a dataclass. Its fields are its columns; the metadata that `column` attaches
documents them. Two storages share this one mechanism:

* *row tables*: a list of small dataclass objects, for tables with up to some 10^5 rows
  that hold text (connections, findings ...; exchanges have their numbers in columns beside);
* *column tables*: one object whose fields are NumPy arrays of equal length, for tables
  that grow with the number of packets (packets, tls_records, ledger ...).

`describe` reads the declaration back (documentation, tests); `to_frame` makes the pandas
frame that is the public face of either storage.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

NO_TIME: Final = np.iinfo(np.int64).min
"""Stands for "no such instant or duration" in an int64 time column (JSON: null)."""


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnDoc:
    """The declaration of one column."""

    name: str
    type: str
    unit: str
    doc: str


def column(
    doc: str,
    *,
    unit: str = "",
    names: Sequence[str] | str = (),
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
) -> Any:
    """Declare a column: `doc` is one sentence, `unit` an SI symbol ("ns", "bytes") or "".

    `names` is for a column of codes: what each stands for, by index, or the field of the table
    that holds that; the table's frame shows the names. Mutable defaults go through
    `default_factory`, as in `dataclasses.field`.
    """
    metadata = {"doc": doc, "unit": unit, "names": names}
    if default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=default_factory, metadata=metadata)
    if default is not dataclasses.MISSING:
        return dataclasses.field(default=default, metadata=metadata)
    return dataclasses.field(metadata=metadata)


def empty_array(dtype: type[np.generic]) -> Callable[[], NDArray[Any]]:
    """A default factory for a column of a column table: no rows, of this type."""
    return lambda: np.empty(0, dtype)


def constant(value: int, count: int, dtype: type[np.generic]) -> NDArray[Any]:
    """A column with one value everywhere. It takes no memory and can't be written to."""
    return np.broadcast_to(np.array(value, dtype), count)


def is_constant(values: NDArray[Any]) -> bool:
    """Whether a column was made by `constant`."""
    return values.strides == (0,)


def describe(table: type) -> list[ColumnDoc]:
    """The declared columns of a table, in order.

    A field that was not declared with `column` is none: columns refer to it.
    """
    return [
        ColumnDoc(
            name=field.name,
            type=field.type if isinstance(field.type, str) else field.type.__name__,
            unit=field.metadata.get("unit", ""),
            doc=field.metadata.get("doc", ""),
        )
        for field in _columns(table)
    ]


def to_frame(table: type, rows: object) -> pd.DataFrame:
    """The pandas frame of a row table (a sequence of `table`) or of a column table.

    What is not known is missing there, also where the table has NO_TIME for it, and columns of
    codes become categories with the codes' names.
    """
    import pandas as pd

    frame: dict[str, Any] = {}
    for field in _columns(table):
        if isinstance(rows, table):
            frame[field.name] = _series(rows, field)
            continue
        assert isinstance(rows, Sequence)
        values = [getattr(row, field.name) for row in rows]
        optional = field.type == "int | None"  # pandas would make floats of these
        frame[field.name] = pd.array(values, dtype="Int64") if optional else values
    return pd.DataFrame(frame)


def _series(rows: object, field: dataclasses.Field[Any]) -> Any:
    """A column of a column table as pandas shows it."""
    import pandas as pd

    values = getattr(rows, field.name)
    names = field.metadata["names"]
    if names:
        known = pd.Index(getattr(rows, names) if isinstance(names, str) else names)
        return pd.Categorical.from_codes(values.astype(np.int32), known)  # -1: missing
    if field.metadata["unit"] == "ns" and values.dtype == np.int64:
        return pd.arrays.IntegerArray(values, values == NO_TIME)
    return values


def _columns(table: type) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(table) if "doc" in field.metadata]


def rows_equal(ascending: NDArray[np.signedinteger], value: int) -> slice:
    """The rows of a column in ascending order that hold a value."""
    wanted = ascending.dtype.type(value)  # else all of the column is converted to int64 first
    first = int(ascending.searchsorted(wanted, "left"))
    return slice(first, int(ascending.searchsorted(wanted, "right")))


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The different values of a column, ascending.

    As `numpy.unique`, whose first call loads all that masked arrays need.
    """
    values = np.sort(values)
    new = np.ones(len(values), np.bool_)
    new[1:] = values[1:] != values[:-1]
    return values[new]


def concatenate(table: type[T], parts: Iterable[T]) -> T:
    """Join column tables end to end; with no parts, the table's empty value."""
    parts = list(parts)
    if not parts:
        return table()
    if len(parts) == 1:
        return parts[0]
    return table(
        **{
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in _columns(table)
        }
    )


_ROWS_AT_ONCE: Final = 5_000


def in_rows(*columns: NDArray[Any]) -> Iterator[tuple[Any, ...]]:
    """Rows of Python values of some columns of one length.

    A part at a time: as Python numbers all of a long column takes five times its memory.
    """
    for first in range(0, len(columns[0]), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        yield from zip(*(column[part].tolist() for column in columns), strict=True)
