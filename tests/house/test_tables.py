"""Every column of every table has a sentence, and a unit where its name has one."""

from __future__ import annotations

import pytest

from capture_analyzer.model.analysis import TABLES
from capture_analyzer.model.column import ColumnDoc, describe

UNITS = {"_ns": "ns", "_bytes": "bytes"}

NOT_COLUMNS = {"packets.addresses", "packets.sack_left", "packets.sack_right"}
"""Fields of a column table that its columns index into: not one element a row."""

COLUMNS = [
    pytest.param(column, id=f"{table}.{column.name}")
    for table, schema in TABLES.items()
    for column in describe(schema)
    if f"{table}.{column.name}" not in NOT_COLUMNS
]


@pytest.mark.parametrize("column", COLUMNS)
def test_column_is_documented(column: ColumnDoc) -> None:
    assert column.doc, "no sentence"
    assert column.doc.endswith((".", ".)", '."')), f"not a sentence: {column.doc!r}"
    assert (
        column.doc[0].upper() == column.doc[0] or not column.doc[0].isalpha() or " " in column.doc
    )


@pytest.mark.parametrize("column", COLUMNS)
def test_column_has_the_unit_of_its_name(column: ColumnDoc) -> None:
    for suffix, unit in UNITS.items():
        assert (column.unit == unit) == column.name.endswith(suffix) or (
            # A quantity whose name is a word of its own may have the unit all the same.
            column.unit == unit and not column.name.endswith(tuple(UNITS))
        ), f"{column.name} has unit {column.unit!r}"
