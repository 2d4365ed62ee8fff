"""The distinct addresses of a capture, numbered in order of first appearance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.protocols.ip import ipv4_text, ipv6_text

Words = tuple[NDArray[np.unsignedinteger], ...]
"""Addresses as arrays of numbers: one array (IPv4) or two (IPv6: high and low half)."""

_SLOT_BITS: Final = 14
"""A table of 16,384 slots stays in the processor's cache; captures hold some thousand
addresses, and those without a slot still work, more slowly."""

_MULTIPLIERS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
"""Odd constants that spread bits (2^64 divided by the golden ratio; a prime)."""


class Addresses:
    """Gives addresses numbers, batch after batch; `finish` puts the numbers in order."""

    def __init__(self) -> None:
        self._tables = {1: _Table(1), 2: _Table(2)}
        self._texts: list[str] = []
        self._first: list[int] = []  # place of first appearance, by provisional number

    def encode(
        self, source: Words, destination: Words, packets: NDArray[np.intp]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Provisional numbers for the addresses of a batch.

        Args:
            source: their source addresses, all of one IP version.
            destination: their destination addresses, likewise.
            packets: index of each packet in the capture, ascending.
        """
        table = self._tables[len(source)]
        numbers = table.find(source), table.find(destination)
        if min(int(numbers[0].min()), int(numbers[1].min())) < 0:
            self._add(table, source, destination, packets, numbers)
        return numbers

    def _add(
        self,
        table: _Table,
        source: Words,
        destination: Words,
        packets: NDArray[np.intp],
        numbers: tuple[NDArray[np.int32], NDArray[np.int32]],
    ) -> None:
        """Number the addresses that the table's slots don't hold; fills in `numbers`."""
        missing = [np.flatnonzero(part < 0) for part in numbers]
        places = np.concatenate([2 * packets[missing[0]], 2 * packets[missing[1]] + 1])
        keys = np.empty((len(places), len(source)), np.uint64)
        for word, (left, right) in enumerate(zip(source, destination, strict=True)):
            keys[:, word] = np.concatenate((left[missing[0]], right[missing[1]]))
        order = np.argsort(places, kind="stable")
        distinct, first, inverse = np.unique(
            keys[order].view(f"V{8 * len(source)}").ravel() if len(source) > 1 else keys[order, 0],
            return_index=True,
            return_inverse=True,
        )
        codes = np.empty(len(distinct), np.int32)
        for index in np.argsort(first, kind="stable").tolist():
            row = order[first[index]]
            key = tuple(keys[row].tolist())
            code = table.known.get(key)
            if code is None:
                code = len(self._texts)
                self._texts.append(ipv4_text(*key) if len(key) == 1 else ipv6_text(*key))
                self._first.append(int(places[row]))
                table.add(key, code)
            codes[index] = code
        found = np.empty(len(order), np.int32)
        found[order] = codes[inverse.ravel()]
        numbers[0][missing[0]] = found[: len(missing[0])]
        numbers[1][missing[1]] = found[len(missing[0]) :]

    def finish(self, *columns: NDArray[np.int32]) -> list[str]:
        """The addresses as text, in order of first appearance.

        `columns` hold provisional numbers (-1 = none) and are changed to the final ones.
        Of equal places (never: a place is one field of one packet) the earlier number wins.
        """
        order = np.argsort(np.array(self._first, np.int64), kind="stable")
        if not np.array_equal(order, np.arange(len(order))):
            final = np.empty(len(order) + 1, np.int32)
            final[order] = np.arange(len(order))
            final[-1] = -1  # index -1 stays -1
            for column in columns:
                column[:] = final[column]
        return [self._texts[index] for index in order.tolist()]


class _Table:
    """A hash table with one slot a hash and no probing, beside a dictionary of everything."""

    def __init__(self, words: int) -> None:
        self._keys: list[NDArray[np.uint64]] = [
            np.zeros(1 << _SLOT_BITS, np.uint64) for _ in range(words)
        ]
        self._codes = np.full(1 << _SLOT_BITS, -1, np.int32)
        self.known: dict[tuple[int, ...], int] = {}

    def find(self, words: Words) -> NDArray[np.int32]:
        """The number of each address; -1 where no slot holds it."""
        slots = self._slots(words)
        codes = self._codes[slots]
        for keys, word in zip(self._keys, words, strict=True):
            other = keys[slots] != word
            if other.any():
                codes[other] = -1
        return codes

    def add(self, key: Sequence[int], code: int) -> None:
        self.known[tuple(key)] = code
        slot = int(self._slots(tuple(np.array([word], np.uint64) for word in key))[0])
        if self._codes[slot] < 0:
            self._codes[slot] = code
            for keys, word in zip(self._keys, key, strict=True):
                keys[slot] = word

    @staticmethod
    def _slots(words: Words) -> NDArray[np.uint64]:
        mixed = words[0].astype(np.uint64) * np.uint64(_MULTIPLIERS[0])
        for word, multiplier in zip(words[1:], _MULTIPLIERS[1:], strict=False):
            mixed ^= word * np.uint64(multiplier)
        return mixed >> np.uint64(64 - _SLOT_BITS)
