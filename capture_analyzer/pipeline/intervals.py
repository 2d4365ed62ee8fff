"""Whole-array work on spans of time that belong to groups (connections, exchanges)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
Indices = NDArray[np.intp]


def running_maximum(groups: NDArray[np.signedinteger], values: Times) -> Times:
    """The greatest value so far within each run of equal groups."""
    result = values.copy()
    if not ((values[1:] < values[:-1]) & (groups[1:] == groups[:-1])).any():
        return result
    step = 1
    # Doubling: after k rounds each element has seen the 2^k before it in its run.
    while step < len(values):
        same = groups[step:] == groups[:-step]
        if not same.any():
            break
        np.maximum(result[step:], np.where(same, result[:-step], result[step:]), out=result[step:])
        step *= 2
    return result


def group_bounds(
    groups: NDArray[np.signedinteger], wanted: NDArray[np.signedinteger]
) -> tuple[Indices, Indices]:
    """Where the run of each wanted group begins and ends among ascending groups.

    Args:
        groups: ascending, 0 or greater.
        wanted: groups in any order, 0 or greater.
    """
    if not len(groups) or not len(wanted):
        return np.zeros(len(wanted), np.intp), np.zeros(len(wanted), np.intp)
    top = int(max(groups[-1], wanted.max()))
    if top < len(wanted) + len(groups):  # look each group up once
        bounds = np.zeros(top + 2, np.intp)
        np.cumsum(np.bincount(groups, minlength=top + 1), out=bounds[1:])
        return bounds[wanted], bounds[wanted + 1]
    wanted = wanted.astype(groups.dtype)  # else all groups are converted
    return np.searchsorted(groups, wanted, "left"), np.searchsorted(groups, wanted, "right")


def bisect_right(values: Times, low: Indices, high: Indices, wanted: Times) -> Indices:
    """For each element, where `wanted` goes in the sorted slice ``values[low:high]``.

    Equal values lie before it.
    """
    low = low.astype(np.intp)
    size = high - low
    longest = int(size.max()) if len(size) else 0
    step = 1 << longest.bit_length() >> 1 if longest > 0 else 0
    last = len(values) - 1
    found = low - 1  # the last value that is known not to be beyond what is wanted
    while step:
        long = size >= step
        if 2 * np.count_nonzero(long) < len(long):  # in the others the step leads out
            some = np.flatnonzero(long)
            probe = found[some] + step
            before = (probe < high[some]) & (values[np.minimum(probe, last)] <= wanted[some])
            found[some[before]] += step
        else:
            probe = found + step
            before = (probe < high) & (values[np.minimum(probe, last)] <= wanted)
            found += step * before
        step >>= 1
    return found + 1


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
    low, high = group_bounds(groups, wanted_groups)
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
