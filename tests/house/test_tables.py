"""Every column of every table has a sentence, and a unit where its name has one."""

from __future__ import annotations

import dataclasses

import pytest

from capture_analyzer.model.analysis import TABLES
from capture_analyzer.model.column import ColumnDoc, describe

UNITS = {"_ns": "ns", "_bytes": "bytes"}
NOT_COLUMNS = {
    "packets.addresses",
    "packets.sack_left",
    "packets.tunnels",
    "packets.sack_right",
    "packets.wireshark_labels",
    "packets.unfinished",
    "record_sizes.unfinished",
    "rtt_samples.unfinished",
    "sender_limits.unfinished",
    "repeats.unfinished",
    "stalls.unfinished",
    "windows.unfinished",
    "tcp_segments.sack_from",
    "tcp_segments.sack_to",
    "tcp_segments.unfinished",
}
"""Fields of a column table that its columns index into: not one element a row."""

COLUMNS = [
    pytest.param(column, id=f"{table}.{column.name}")
    for table, schema in TABLES.items()
    for column in describe(schema)
]


def test_every_field_is_declared_as_a_column() -> None:
    undeclared = {
        f"{table}.{field.name}"
        for table, schema in TABLES.items()
        for field in dataclasses.fields(schema)
        if field.name not in {column.name for column in describe(schema)}
    }
    assert undeclared == NOT_COLUMNS


@pytest.mark.parametrize("column", COLUMNS)
def test_column_is_documented(column: ColumnDoc) -> None:
    assert column.doc.endswith((".", ".)", '."')), f"not a sentence: {column.doc!r}"


@pytest.mark.parametrize("column", COLUMNS)
def test_column_has_the_unit_of_its_name(column: ColumnDoc) -> None:
    for suffix, unit in UNITS.items():
        if column.name.endswith(suffix):
            assert column.unit == unit
