"""Whole-array work on spans of time that belong to groups (connections, exchanges)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
Indices = NDArray[np.intp]


def running_maximum(groups: NDArray[np.signedinteger], values: Times) -> Times:
    """The greatest value so far within each run of equal groups."""
    result = values.copy()
    step = 1
    # Doubling: after k rounds each element has seen the 2^k before it in its run.
    while step < len(values):
        same = groups[step:] == groups[:-step]
        if not same.any():
            break
        np.maximum(result[step:], np.where(same, result[:-step], result[step:]), out=result[step:])
        step *= 2
    return result


def bisect_right(values: Times, low: Indices, high: Indices, wanted: Times) -> Indices:
    """For each element, where `wanted` goes in the sorted slice ``values[low:high]``.

    Equal values lie before it.
    """
    low, high = low.copy(), high.copy()
    while True:
        active = np.flatnonzero(low < high)
        if not len(active):
            return low
        middle = (low[active] + high[active]) >> 1
        beyond = values[middle] <= wanted[active]
        low[active[beyond]] = middle[beyond] + 1
        high[active[~beyond]] = middle[~beyond]


def overlaps(
    groups: NDArray[np.int32],
    begins: Times,
    ends: Times,
    wanted_groups: NDArray[np.int32],
    wanted_begins: Times,
    wanted_ends: Times,
) -> tuple[Indices, Indices]:
    """Pairs of spans of the same group that share more than an instant.

    Args:
        groups: of spans that are sorted by group, then begin.
        begins: where they begin.
        ends: where they end.
        wanted_groups: of other spans, in any order.
        wanted_begins: where they begin.
        wanted_ends: where they end.

    Returns:
        Indices of pairs: into the wanted spans, and into the others.
    """
    low = np.searchsorted(groups, wanted_groups, "left")
    high = np.searchsorted(groups, wanted_groups, "right")
    # begin < wanted end, and the latest end so far > wanted begin.
    stop = bisect_right(begins, low, high, wanted_ends - 1)
    start = bisect_right(running_maximum(groups, ends), low, high, wanted_begins)
    counts = np.maximum(stop - start, 0)
    wanted = np.repeat(np.arange(len(wanted_groups)), counts)
    offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    found = np.repeat(start, counts) + offsets
    real = ends[found] > wanted_begins[wanted]
    return wanted[real], found[real]


def subtract(
    groups: NDArray[np.signedinteger],
    begins: Times,
    ends: Times,
    cut_groups: NDArray[np.signedinteger],
    cut_begins: Times,
    cut_ends: Times,
) -> tuple[NDArray[np.signedinteger], Times, Times]:
    """What is left of one span a group when cuts inside it are taken out.

    Args:
        groups: of spans, at most one a group.
        begins: where they begin.
        ends: where they end.
        cut_groups: of cuts, which lie within the span of their group and do not overlap.
        cut_begins: where they begin.
        cut_ends: where they end.

    Returns:
        Groups, begins and ends of the rest, sorted by group, then time; empty pieces left out.
    """
    all_groups = np.concatenate((groups, cut_groups))
    rest_begins = np.concatenate((begins, cut_ends))
    rest_ends = np.concatenate((ends, cut_begins))
    by_begin = np.lexsort((rest_begins, all_groups))
    by_end = np.lexsort((rest_ends, all_groups))
    rest_begins, rest_ends = rest_begins[by_begin], rest_ends[by_end]
    kept = rest_ends > rest_begins
    return all_groups[by_begin][kept], rest_begins[kept], rest_ends[kept]


def union(
    groups: NDArray[np.signedinteger], begins: Times, ends: Times
) -> tuple[NDArray[np.signedinteger], Times, Times]:
    """Spans that cover the same instants of each group and neither overlap nor touch."""
    order = np.lexsort((begins, groups))
    groups, begins, ends = groups[order], begins[order], ends[order]
    reach = running_maximum(groups, ends)
    new = np.ones(len(groups), np.bool_)
    new[1:] = (groups[1:] != groups[:-1]) | (begins[1:] > reach[:-1])
    first = np.flatnonzero(new)
    last = np.append(first[1:] - 1, len(groups) - 1)[: len(first)]
    return groups[first], begins[first], reach[last]
