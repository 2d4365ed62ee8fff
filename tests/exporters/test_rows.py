"""Rows of text out of whole columns: the same as what formatting each row gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_analyzer.exporters.rows import choice, chosen, fixed, joined, numbers
from capture_analyzer.model.column import NO_TIME

EDGES = [0, 1, 9, 10, 9_999, 10_000, 10_001, 99_999_999, 100_000_000, 2**31 - 1, 2**31, 2**32 - 1]
EDGES += [2**32, 10**12 - 1, 10**12, 10**16, 2**63 - 1]
SIGNED = st.integers(-(2**63) + 1, 2**63 - 1) | st.sampled_from([*EDGES, *(-x for x in EDGES)])


def lines(*parts: object) -> list[str]:
    return joined(*parts, fixed("\n")).splitlines()  # type: ignore[arg-type]


@given(st.lists(SIGNED, min_size=1))
def test_each_number_is_written_in_decimal(values: list[int]) -> None:
    assert lines(numbers(np.array(values, np.int64))) == list(map(str, values))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.uint64])
def test_any_integer_type_reaches_to_its_ends(dtype: type[np.integer]) -> None:
    info = np.iinfo(dtype)
    values = np.array([info.min, 0, info.max], dtype)
    assert lines(numbers(values)) == [str(info.min), "0", str(info.max)]


def test_what_is_not_known_is_null_and_what_is_absent_is_empty() -> None:
    values = np.array([NO_TIME, 123_456, NO_TIME, -7], np.int64)
    assert lines(numbers(values)) == ["null", "123456", "null", "-7"]
    absent = np.array([False, True, True, False])
    assert lines(numbers(values, absent)) == ["null", "", "", "-7"]


def test_nothing_but_null() -> None:
    assert lines(numbers(np.array([NO_TIME]))) == ["null"]


def test_fixed_and_chosen_texts_of_any_length() -> None:
    texts = ["", "a", "four", "fives", "twelve chars"]
    parts = fixed("begin:"), chosen(np.array([4, 0, 3, 2, 1, -1]), choice(texts)), fixed(";")
    assert lines(*parts) == [f"begin:{texts[code]};" for code in (4, 0, 3, 2, 1, -1)]


def test_texts_may_all_be_empty() -> None:
    assert lines(numbers(np.array([5, 6])), chosen(np.zeros(2, np.uint8), choice([""]))) == [
        "5",
        "6",
    ]


def test_no_rows_are_no_text() -> None:
    assert joined(fixed("["), numbers(np.zeros(0, np.int64)), fixed("]")) == ""
