"""Which packets and round trips of a long connection a report draws."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def thinned(remarkable: NDArray[np.uint8], flight: Ints, window: Ints, most: int) -> NDArray[Any]:
    """Places of the packets to keep, at most `most`, ascending.

    Kept are both ends and the remarkable ones (2: sent again, late, without a window, SYN, FIN
    and RST, what opened, filled or ended a stretch, and what findings name; 1: with SACK blocks).
    Of the rest, from each run of equal length the first one, the one with most in flight and the
    one with the smallest window. Where even the remarkable ones are too many, of those of the
    last grade that has room every few.
    """
    count = len(remarkable)
    if count <= most:
        return np.arange(count)
    keep = np.zeros(count, np.bool_)
    keep[[0, -1]] = True
    for grade in (2, 1):
        more = np.flatnonzero((remarkable == grade) & ~keep)
        room = most - int(keep.sum())
        if len(more) >= room:
            keep[more[np.arange(room) * len(more) // max(room, 1)]] = True
            return np.flatnonzero(keep)
        keep[more] = True
    rest = np.flatnonzero(~keep)
    runs = (most - int(keep.sum())) // 3
    if runs:
        starts = np.arange(runs) * len(rest) // runs
        for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(rest)], strict=True):
            run = rest[begin:end]
            keep[run[0]] = True
            keep[run[np.argmax(flight[run])]] = True
            keep[run[np.argmin(window[run])]] = True
    return np.flatnonzero(keep)


def extremes(values: Ints, most: int) -> NDArray[np.intp]:
    """Places of at most `most` values: both ends, smallest and largest of runs of equal length."""
    count = len(values)
    if count <= most:
        return np.arange(count)
    runs = (most - 2) // 2
    bounds = (np.arange(runs + 1) * count // runs).tolist()
    keep = np.zeros(count, np.bool_)
    keep[[0, -1]] = True
    for begin, end in itertools.pairwise(bounds):
        keep[begin + int(np.argmin(values[begin:end]))] = True
        keep[begin + int(np.argmax(values[begin:end]))] = True
    return np.flatnonzero(keep)
