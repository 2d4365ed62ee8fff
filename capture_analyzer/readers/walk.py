"""Walking a container whose records say how long they are: where does each record begin?

One record leads to the next, which makes this the serial part of reading. A loop in Python
costs some tenths of a microsecond a record. Here many chains walk in step instead: places
that look like the beginning of a record are found all over the file, and one array operation
moves every chain on by a record. Where each chain arrives exactly at the beginning of the
next one, the places are proven right; where one does not (a place only looked right), the
walk goes on one by one until it meets the records of a chain again. The result is always
that of the plain walk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.wire.windows import Bytes, Offsets, Windows

LOCKSTEP_BYTES: Final = 4 << 20
"""A smaller file is walked one by one: it takes some milliseconds."""

CHAIN_BYTES: Final = 128 << 10
"""At least this much for a chain, so that finding its beginning is worth while."""

MAX_CHAINS: Final = 2048
"""More would only make the arrays of one step leave the processor's cache."""

SEARCH_BYTES: Final = 2048
"""How far a record's beginning is looked for: more than a full Ethernet frame takes."""

_AREAS_AT_ONCE: Final = 64  # areas that are searched, so few that they stay in the cache

FEW: Final = 24
"""With so few chains left one step for all costs as much as walking them one by one."""


class Records(Protocol):
    """How the records of a container follow each other."""

    def following(self, at: int) -> int:
        """Where the next record begins; -1 if the one at `at` is not whole or not valid."""
        ...

    def heads(self, at: Offsets) -> Bytes:
        """The headers of records that begin at these places (each inside the buffer)."""
        ...

    def all_following(self, at: Offsets, heads: Bytes) -> Offsets:
        """Where the next records begin, likewise for many, by their headers."""
        ...

    def candidates(self, windows: Bytes, count: int) -> NDArray[np.bool_]:
        """Where in windows of bytes a record may begin: a cheap test that may err.

        Args:
            windows: (n, at least count + 16) bytes.
            count: places to test in each window.

        Returns:
            An array of shape (n, count).
        """
        ...

    def plausible(self, at: Offsets) -> NDArray[np.bool_]:
        """Which places look like the beginning of a packet: a test that seldom errs."""
        ...


@quick_dataclass
class Found:
    """The records of a container.

    Attributes:
        offsets: where they begin, ascending.
        heads: their headers.
        end: where the walk ended: the buffer's end, or the record that is not whole or not
            valid.
    """

    offsets: Offsets
    heads: Bytes
    end: int


def walk(windows: Windows, records: Records, start: int, report: Callable[[int], None]) -> Found:
    """Find all records from `start` on.

    Args:
        windows: of the container.
        records: how its records follow each other.
        start: where the first one begins.
        report: told now and then about how many bytes have been walked over.
    """
    size = len(windows)
    if size - start < LOCKSTEP_BYTES:
        offsets, end = _one_by_one(records, start, size)
        return Found(offsets, records.heads(offsets), end)
    starts = _beginnings(windows, records, start)
    chains = _Chains(records, starts, size)
    chains.run(report)
    return chains.joined()


def _one_by_one(records: Records, at: int, limit: int) -> tuple[Offsets, int]:
    """The plain walk from `at`, up to the first place at or past `limit`."""
    found: list[int] = []
    while at < limit:
        following = records.following(at)
        if following < 0:
            break
        found.append(at)
        at = following
    return np.array(found, np.int64), at


def _beginnings(windows: Windows, records: Records, start: int) -> Offsets:
    """`start` and probable beginnings of records all over the buffer, ascending."""
    size = len(windows)
    spacing = max(CHAIN_BYTES, (size - start) // MAX_CHAINS)
    seeds = np.arange(start + spacing, size - spacing // 2, spacing, dtype=np.int64)
    found = [np.empty(0, np.intp)]  # places in all areas, end to end
    for begin in range(0, len(seeds), _AREAS_AT_ONCE):
        areas = windows.at(seeds[begin : begin + _AREAS_AT_ONCE], SEARCH_BYTES + 16)
        places = np.flatnonzero(records.candidates(areas, SEARCH_BYTES))
        found.append(places + begin * SEARCH_BYTES)
    row, column = np.divmod(np.concatenate(found), SEARCH_BYTES)
    at = seeds[row] + column
    good = np.ones(len(at), np.bool_)
    place = at
    for _ in range(3):  # itself, and the two records that would follow, look right
        good &= records.plausible(place)
        place = np.where(good, place, start)
        place = records.all_following(place, records.heads(place))
        good &= (place >= 0) & (place < size)
        place = np.where(good, place, start)
    at = at[good]
    _, first = np.unique(row[good], return_index=True)
    return np.concatenate((np.array([start], np.int64), at[first]))


class _Chains:
    """Chains of records that are walked in step, each up to the beginning of the next."""

    def __init__(self, records: Records, starts: Offsets, size: int) -> None:
        self._records = records
        self._starts = starts
        self._size = size
        self._limits = np.append(starts[1:], size)
        self._ends = starts.copy()  # where each chain has arrived
        self._stopped = np.zeros(len(starts), np.bool_)  # at a record that is no good
        self._counts = np.zeros(len(starts), np.int64)  # records of each
        # Of each step the chains that found a record, where it is and its header. Step by step
        # all are at the same record of theirs: in step s at number s.
        self._steps: list[tuple[NDArray[np.intp], Offsets, Bytes]] = []
        # What is left of a chain: its number, how many records it had, and the others.
        self._tails: list[tuple[int, int, Offsets]] = []

    def run(self, report: Callable[[int], None]) -> None:
        """Walk all chains to their ends."""
        alive = np.arange(len(self._starts))
        at, limits = self._starts, self._limits
        while len(alive) > FEW:
            heads = self._records.heads(at)
            following = self._records.all_following(at, heads)
            going = (following >= 0) & (following < limits)
            if going.all():
                self._steps.append((alive, at, heads))
                at = following
            else:
                whole = following >= 0
                self._counts[alive] = len(self._steps) + whole
                self._stopped[alive[~whole]] = True
                self._ends[alive] = np.where(whole, following, at)
                self._steps.append((alive[whole], at[whole], heads[whole]))
                alive, at, limits = alive[going], following[going], limits[going]
            if not len(self._steps) % 64:
                self._ends[alive] = at
                report(int((self._ends - self._starts).sum()))
        for chain, place in zip(alive.tolist(), at.tolist(), strict=True):
            found, end = _one_by_one(self._records, place, int(self._limits[chain]))
            self._tails.append((chain, len(self._steps), found))
            self._counts[chain] = len(self._steps) + len(found)
            self._ends[chain] = end
            self._stopped[chain] = end < self._limits[chain]

    def joined(self) -> Found:
        """The records of all chains that prove right, and where the walk ended."""
        bounds = np.concatenate(([0], np.cumsum(self._counts)))
        offsets, heads = self._laid_out(bounds)
        if not self._stopped[:-1].any() and np.array_equal(self._ends[:-1], self._starts[1:]):
            return Found(offsets, heads, int(self._ends[-1]))
        pieces: list[Offsets] = []
        at = int(self._starts[0])
        while at < self._size:
            chain = int(np.searchsorted(self._starts, at, "right")) - 1
            own = offsets[bounds[chain] : bounds[chain + 1]]
            place = int(np.searchsorted(own, at))
            if place < len(own) and own[place] == at:  # we meet the chain's own records
                pieces.append(own[place:])
                at = int(self._ends[chain])
                if self._stopped[chain]:
                    break
                continue
            following = self._records.following(at)
            if following < 0:
                break
            pieces.append(np.array([at], np.int64))
            at = following
        offsets = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
        return Found(offsets, self._records.heads(offsets), at)

    def _laid_out(self, bounds: NDArray[np.int64]) -> tuple[Offsets, Bytes]:
        """The records of all chains and their headers; what the steps hold is given up.

        Args:
            bounds: the records of chain c go to ``bounds[c]:bounds[c + 1]``.
        """
        offsets = np.empty(int(bounds[-1]), np.int64)
        width = self._records.heads(offsets[:0]).shape[1]
        heads = np.empty(len(offsets), f"V{width}")  # one element each, which is copied at once
        for chain, before, found in self._tails:
            first = int(bounds[chain]) + before
            offsets[first : first + len(found)] = found
            heads[first : first + len(found)] = self._records.heads(found).view(heads.dtype)[:, 0]
        while self._steps:
            chains, at, of_step = self._steps.pop()
            place = bounds[chains] + len(self._steps)
            offsets[place] = at
            heads[place] = of_step.view(heads.dtype)[:, 0]
        return offsets, heads.view(np.uint8).reshape(-1, width)
