"""The declaration of columns, and the frames that people get."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from capture_analyzer.model.analysis import TABLES
from capture_analyzer.model.column import NO_TIME, column, concatenate, describe, to_frame

KINDS = ("none", "some")


@dataclasses.dataclass(slots=True)
class Row:
    name: str = column("A name.")
    wait_ns: int | None = column("How long.", unit="ns", default=None)


@dataclasses.dataclass(slots=True)
class Arrays:
    time_ns: NDArray[np.int64] = column("When.", unit="ns")
    kind: NDArray[np.uint8] = column("Index into KINDS.", names=KINDS)
    source: NDArray[np.int32] = column("Index into addresses.", names="addresses")
    addresses: list[str] = dataclasses.field(default_factory=list)


def arrays() -> Arrays:
    return Arrays(
        time_ns=np.array([5, NO_TIME, 2**60 + 1]),
        kind=np.array([1, 0, 1], np.uint8),
        source=np.array([1, -1, 0], np.int32),
        addresses=["192.0.2.1", "192.0.2.2"],
    )


def test_describe_leaves_out_what_is_no_column():
    assert [(c.name, c.unit) for c in describe(Arrays)] == [
        ("time_ns", "ns"),
        ("kind", ""),
        ("source", ""),
    ]
    assert describe(Row)[1].type == "int | None"


def test_frame_of_rows_keeps_integers_beside_missing_ones():
    frame = to_frame(Row, [Row("a", 2**60 + 1), Row("b")])
    assert frame["wait_ns"].dtype == "Int64"
    assert frame["wait_ns"][0] == 2**60 + 1
    assert frame["wait_ns"][1] is pd.NA


def test_frame_of_arrays_shows_names_and_missing_times():
    frame = to_frame(Arrays, arrays())
    assert list(frame) == ["time_ns", "kind", "source"]
    assert frame["time_ns"].isna().tolist() == [False, True, False]
    assert frame["time_ns"][2] == 2**60 + 1
    assert frame["kind"].tolist() == ["some", "none", "some"]
    assert frame["source"][0] == "192.0.2.2"
    assert frame["source"].isna().tolist() == [False, True, False]


def test_frame_of_no_rows_has_the_columns():
    assert list(to_frame(Row, [])) == ["name", "wait_ns"]


def test_concatenate_joins_columns():
    @dataclasses.dataclass
    class One:
        value: NDArray[np.int64] = column("A value.", default_factory=lambda: np.empty(0, np.int64))

    joined = concatenate(One, [One(np.array([1])), One(np.array([2, 3]))])
    assert joined.value.tolist() == [1, 2, 3]
    assert len(concatenate(One, []).value) == 0


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_a_frame(table, captures):
    from capture_analyzer import analyze

    path = captures / "llm-incident.pcap"
    frame = analyze(path).frame(table)
    assert list(frame) == [c.name for c in describe(TABLES[table])]


def test_unknown_table(captures):
    from capture_analyzer import analyze

    with pytest.raises(KeyError, match="no table 'packet'; tables: files"):
        analyze(captures / "slow-server.pcap").frame("packet")
