"""Statistics of many lists at once are those of each list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_analyzer.pipeline.lists import ascending, medians, places, quantiles, starts_of

LISTS = st.lists(st.lists(st.integers(-(2**40), 2**40), max_size=9), min_size=1, max_size=9)


def laid_out(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([value for one in lists for value in one], np.int64)
    return values, np.array([len(one) for one in lists], np.int64)


@given(LISTS, st.floats(0, 1))
def test_each_list_is_taken_by_itself(lists: list[list[int]], share: float) -> None:
    values, counts = laid_out(lists)
    in_order = ascending(values, counts)
    assert in_order.tolist() == [value for one in lists for value in sorted(one)]
    for one, median, quantile in zip(
        lists, medians(in_order, counts), quantiles(in_order, counts, share), strict=True
    ):
        if not one:
            assert np.isnan(median)
            assert np.isnan(quantile)
            continue
        assert median == np.median(one)
        assert quantile == np.quantile(one, share)


def test_values_too_far_apart_for_one_number() -> None:
    lists = [[2**62, -(2**62), 5], [7, -(2**61)]]
    values, counts = laid_out(lists)
    assert ascending(values, counts).tolist() == [-(2**62), 5, 2**62, -(2**61), 7]


@pytest.mark.parametrize("counts", [[2, 0, 3], [0], []])
def test_places_follow_each_other(counts: list[int]) -> None:
    firsts = [10 * number for number in range(len(counts))]
    expected = [
        first + step for first, count in zip(firsts, counts, strict=True) for step in range(count)
    ]
    found = places(np.array(firsts, np.int64), np.array(counts, np.int64))
    assert found.tolist() == expected
    assert starts_of(np.array(counts, np.int64)).tolist() == [
        sum(counts[:number]) for number in range(len(counts))
    ]
