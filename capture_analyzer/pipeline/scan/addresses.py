"""The distinct addresses of a capture, numbered in order of first appearance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.room import stretches
from capture_analyzer.protocols.ip import ipv4_text, ipv6_text

Words = tuple[NDArray[np.unsignedinteger], ...]
"""Addresses as arrays of numbers: one array (IPv4) or two (IPv6: high and low half)."""

_FIRST_SLOT_BITS: Final = 13
"""A table of 8,192 slots to begin with; it grows so that at most a quarter is taken."""

_PROBES: Final = 8
"""Slots that an address may lie in."""

_MOST_SPARSE_SHIFT: Final = 6
"""When an address finds all of its slots taken, the table grows; but not when only one slot in
2^6 is taken: then somebody chose addresses that collide, and a dictionary takes them."""

_MULTIPLIERS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
"""Odd constants that spread bits (2^64 divided by the golden ratio; a prime)."""


class Addresses:
    """Gives addresses numbers, batch after batch; `finish` puts the numbers in order."""

    def __init__(self) -> None:
        self._tables = {1: _Table(1), 2: _Table(2)}

    def encode(
        self, source: Words, destination: Words, packets: NDArray[np.intp]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Provisional numbers for the addresses of a batch.

        Those of IPv4 are 0, 1, 2 ..., those of IPv6 -2, -3, -4 ...

        Args:
            source: their source addresses, all of one IP version.
            destination: their destination addresses, likewise.
            packets: index of each packet in the capture, ascending.
        """
        table = self._tables[len(source)]
        source, destination = _wide(source), _wide(destination)
        numbers = table.find(source), table.find(destination)
        missing = [np.flatnonzero(part < 0) for part in numbers]
        firsts = [
            index[table.firsts(tuple(word[index] for word in words))]
            for index, words in zip(missing, (source, destination), strict=True)
        ]
        if len(missing[0]) or len(missing[1]):
            # A place is a field of a packet; the lowest one is where an address first appears.
            places = np.concatenate([2 * packets[firsts[0]], 2 * packets[firsts[1]] + 1])
            table.add(
                tuple(
                    np.concatenate((left[firsts[0]], right[firsts[1]]))
                    for left, right in zip(source, destination, strict=True)
                ),
                places,
            )
            for part, index, words in zip(numbers, missing, (source, destination), strict=True):
                part[index] = table.find(tuple(word[index] for word in words))
        if len(source) == 2:
            return -2 - numbers[0], -2 - numbers[1]
        return numbers

    def finish(
        self, *columns: NDArray[np.int32], places: Sequence[range | NDArray[np.int64]] = ()
    ) -> list[str]:
        """The addresses as text, in order of first appearance.

        Args:
            columns: provisional numbers (-1 = none), which are changed to the final ones.
            places: where each of them stands, if batches did not come in order of their
                packets: twice the packet's index, one more for a destination.
        """
        short, long = self._tables[1], self._tables[2]
        count = len(short) + len(long)
        first = np.concatenate((short.places, long.places))
        for column, place in zip(columns, places, strict=False):
            for part in stretches(len(column)):
                # IPv4 has 0, 1, 2 ... and IPv6 -2, -3 ...; -1 stays.
                codes = column[part]
                number = np.where(codes < -1, len(short) - 2 - codes.astype(np.int64), codes)
                _lower(first, number, np.asarray(place[part], np.int64))
        order = np.argsort(first, kind="stable")
        rank = np.empty(count, np.int32)
        rank[order] = np.arange(count, dtype=np.int32)
        if len(long) or (rank[1:] < rank[:-1]).any():  # else they are in order as they are
            # Indexed by provisional numbers: those of IPv6 and -1 count from the end.
            final = np.concatenate((rank[: len(short)], rank[len(short) :][::-1], [np.int32(-1)]))
            for column in columns:
                for part in stretches(len(column)):
                    column[part] = final[column[part]]
        texts = [ipv4_text(key) for key in short.keys[0].tolist()]
        texts += [ipv6_text(*key) for key in zip(*(k.tolist() for k in long.keys), strict=True)]
        return [texts[index] for index in order.tolist()]


def _wide(words: Words) -> Words:
    """Words as wide as the tables have them, so that nothing converts them again."""
    return tuple(word.astype(np.uint64) for word in words)


def _lower(first: NDArray[np.int64], number: NDArray[np.int64], place: NDArray[np.int64]) -> None:
    """Lower each first place to those where its number stands."""
    known = np.flatnonzero(number >= 0)
    number, place = number[known], place[known]
    lowest = np.full(len(first), np.iinfo(np.int64).max)
    if (place[1:] >= place[:-1]).all():
        lowest[number[::-1]] = place[::-1]  # the last assignment stays
    else:
        np.minimum.at(lowest, number, place)
    np.minimum(first, lowest, out=first)


class _Table:
    """Distinct addresses, numbered as they come, with a hash table to find them.

    Attributes:
        keys: the addresses, by number.
        places: where each first appeared.
    """

    def __init__(self, words: int) -> None:
        self.keys: list[NDArray[np.uint64]] = [np.empty(0, np.uint64) for _ in range(words)]
        self.places = np.empty(0, np.int64)
        self._bits = _FIRST_SLOT_BITS
        self._clear()

    def __len__(self) -> int:
        return len(self.places)

    def _clear(self) -> None:
        size = (1 << self._bits) + _PROBES
        self._slot_keys = [np.zeros(size, np.uint64) for _ in self.keys]
        self._codes = np.full(size, -1, np.int32)  # -1 = free
        self._without_slot: dict[tuple[int, ...], int] = {}

    def find(self, words: Words) -> NDArray[np.int32]:
        """The number of each address; -1 for those that are not in the table."""
        slots = self._slots(words)
        codes, same = self._probe(slots, words)
        if same.all():
            return codes
        # Most addresses lie in the first of their slots; look on for the others.
        codes[~same & (codes >= 0)] = -2  # taken by another one
        for probe in range(1, _PROBES):
            searching = np.flatnonzero(codes == -2)
            if not len(searching):
                break
            some = tuple(word[searching] for word in words)
            found, same = self._probe(slots[searching] + probe, some)
            found[~same & (found >= 0)] = -2
            codes[searching] = found
        if self._without_slot:
            for row in np.flatnonzero(codes == -2).tolist():
                key = tuple(int(word[row]) for word in words)
                codes[row] = self._without_slot.get(key, -1)
        codes[codes == -2] = -1
        return codes

    def firsts(self, words: Words) -> NDArray[np.intp]:
        """Rows that hold every distinct address in them, its first row too; mostly few more."""
        count = len(words[0])
        slots = self._slots(words)
        rows = np.arange(count)
        chosen = np.zeros(1 << self._bits, np.intp)
        chosen[slots[::-1]] = rows[::-1]  # the last assignment stays
        first = chosen[slots]
        kept = first == rows
        for word in words:
            kept |= word[first] != word  # another address with the same slot
        return np.flatnonzero(kept)

    def _probe(
        self, slots: NDArray[np.int64], words: Words
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """What is in some slots, and whether it is these addresses."""
        codes = self._codes[slots]
        same = codes >= 0
        for keys, word in zip(self._slot_keys, words, strict=True):
            same &= keys[slots] == word
        return codes, same

    def add(self, words: Words, places: NDArray[np.int64]) -> None:
        """Number addresses that are not in the table; they may repeat in `words`."""
        order = np.lexsort((places, *words))
        ordered = [word[order] for word in words]
        new = np.zeros(len(order), np.bool_)
        new[:1] = True
        for word in ordered:
            new[1:] |= word[1:] != word[:-1]
        first = places[order][new]
        by_place = np.argsort(first)
        self.keys = [
            np.concatenate((key, word[new][by_place]))
            for key, word in zip(self.keys, ordered, strict=True)
        ]
        begin = len(self)
        self.places = np.concatenate((self.places, first[by_place]))
        while True:
            if len(self) << 2 <= 1 << self._bits:
                left = self._insert(begin)
                if not len(left):
                    return
                if len(self) << _MOST_SPARSE_SHIFT < 1 << self._bits:
                    break
            self._bits += 1
            self._clear()
            begin = 0
        keys = zip(*(key[left].tolist() for key in self.keys), strict=True)
        self._without_slot.update(zip(keys, left.tolist(), strict=True))

    def _insert(self, begin: int) -> NDArray[np.int32]:
        """Put the addresses from number `begin` on into slots; returns those that find none."""
        codes = np.arange(begin, len(self), dtype=np.int32)
        slots = self._slots(tuple(key[begin:] for key in self.keys))
        for _ in range(_PROBES):
            free = self._codes[slots] < 0
            self._codes[slots[free]] = codes[free]  # of several in one slot, one wins
            left = self._codes[slots] != codes
            won = codes[~left]
            for slot_keys, key in zip(self._slot_keys, self.keys, strict=True):
                slot_keys[slots[~left]] = key[won]
            codes, slots = codes[left], slots[left] + 1
            if not len(codes):
                break
        return codes

    def _slots(self, words: Words) -> NDArray[np.int64]:
        """The first slot of each address."""
        mixed = words[0] * np.uint64(_MULTIPLIERS[0])
        for word in words[1:]:
            mixed ^= word * np.uint64(_MULTIPLIERS[1])
        mixed >>= np.uint64(64 - self._bits)
        return mixed.view(np.int64)
