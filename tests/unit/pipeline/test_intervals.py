"""Spans in groups, against loops that are too simple to be wrong."""

from __future__ import annotations

import bisect
import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from capture_analyzer.pipeline.intervals import (
    bisect_right,
    group_bounds,
    overlaps,
    running_maximum,
    subtract,
    union,
)

SPANS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 12)), max_size=15)


def columns(
    spans: list[tuple[int, int, int]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(spans, np.int64).reshape(-1, 3)
    return table[:, 0].astype(np.int32), table[:, 1], table[:, 1] + table[:, 2]


@given(SPANS)
def test_running_maximum(spans: list[tuple[int, int, int]]) -> None:
    groups, values, _ = columns(sorted(spans, key=lambda span: span[0]))
    expected = [
        max(values[j] for j in range(i + 1) if groups[j] == groups[i]) for i in range(len(values))
    ]
    assert running_maximum(groups, values).tolist() == expected


@given(SPANS, SPANS)
def test_overlaps(spans: list[tuple[int, int, int]], wanted: list[tuple[int, int, int]]) -> None:
    groups, begins, ends = columns(sorted(spans, key=lambda span: span[:2]))
    wanted_groups, wanted_begins, wanted_ends = columns(wanted)
    pairs = overlaps(groups, begins, ends, wanted_groups, wanted_begins, wanted_ends)
    expected = {
        (i, j)
        for i in range(len(wanted))
        for j in range(len(spans))
        if wanted_groups[i] == groups[j]
        and begins[j] < wanted_ends[i]
        and ends[j] > wanted_begins[i]
    }
    found = list(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == expected


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(-1, 10))
def test_bisect_right(values: list[int], wanted: int) -> None:
    ordered = np.array(sorted(values), np.int64)
    middle = len(values) // 2
    low, high = np.array([0, middle]), np.array([middle, len(values)])
    found = bisect_right(ordered, low, high, np.array([wanted, wanted]))
    expected = [
        int(np.searchsorted(ordered[:middle], wanted, "right")),
        middle + int(np.searchsorted(ordered[middle:], wanted, "right")),
    ]
    assert found.tolist() == expected


@given(st.lists(st.lists(st.integers(0, 40), min_size=2, max_size=9), max_size=4))
def test_subtract(rows: list[list[int]]) -> None:
    # Of each group: its span, then cuts inside it that do not overlap.
    spans, cuts, expected = [], [], []
    for group, points in enumerate(rows):
        points.sort()
        begin, end, inner = points[0], points[-1], points[1:-1]
        pairs = list(zip(inner[::2], inner[1::2], strict=False))
        spans.append((group, begin, end - begin))
        cuts += [(group, a, b - a) for a, b in pairs]
        covered = {t for a, b in pairs for t in range(a, b)}
        expected += [(group, t) for t in range(begin, end) if t not in covered]
    groups, begins, ends = subtract(*columns(spans), *columns(cuts))
    assert np.all(ends > begins)
    rest = [
        (int(group), t)
        for group, a, b in zip(groups, begins.tolist(), ends.tolist(), strict=True)
        for t in range(a, b)
    ]
    assert rest == expected


@given(SPANS)
def test_union(spans: list[tuple[int, int, int]]) -> None:
    groups, begins, ends = columns(spans)
    found = list(zip(*(column.tolist() for column in union(groups, begins, ends)), strict=True))
    assert found == sorted(found)
    for (group, _, end), (other, begin, _) in itertools.pairwise(found):
        assert other > group or begin > end
    expected = {(g, t) for g, b, e in zip(groups, begins, ends, strict=True) for t in range(b, e)}
    assert {(g, t) for g, b, e in found for t in range(b, e)} == expected


@given(
    st.lists(st.integers(0, 9), max_size=20),
    st.lists(st.integers(0, 12), max_size=9),
    st.sampled_from([1, 1000]),
)
def test_group_bounds(groups: list[int], wanted: list[int], factor: int) -> None:
    ordered = [factor * group for group in sorted(groups)]
    sought = [factor * group for group in wanted]
    low, high = group_bounds(np.array(ordered, np.int32), np.array(sought, np.int64))
    for group, begin, end in zip(sought, low.tolist(), high.tolist(), strict=True):
        assert end - begin == ordered.count(group)
        assert ordered[begin:end] == [group] * (end - begin)


@given(st.lists(st.lists(st.integers(0, 40), max_size=40), min_size=1, max_size=12), st.data())
def test_bisect_right_of_lists_of_any_length(lists: list[list[int]], data: st.DataObject) -> None:
    ordered = [sorted(one) for one in lists]
    bounds = np.cumsum([0, *map(len, ordered)])
    sought = data.draw(st.lists(st.integers(-1, 41), min_size=len(lists), max_size=len(lists)))
    found = bisect_right(
        np.array([value for one in ordered for value in one], np.int64),
        bounds[:-1],
        bounds[1:],
        np.array(sought),
    )
    assert (found - bounds[:-1]).tolist() == [
        bisect.bisect_right(one, value) for one, value in zip(ordered, sought, strict=True)
    ]
