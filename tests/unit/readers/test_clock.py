from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.readers.pcapng.clock import LATEST_NS, ticks_per_second, to_ns

COUNTS = [0, 1, 2, 3, 999, 1023, 10**6 + 1, 2**31 - 1, 2**32 + 12345, 1_700_000_000_123_456_789]


@pytest.mark.parametrize("resolution", [*range(21), 127, *range(0x80, 0x80 + 65), 0xFF])
def test_every_resolution_is_exact(resolution):
    ticks = [*COUNTS, 2**63 + 7, 2**64 - 1]
    ns = to_ns(np.array(ticks, np.uint64), resolution, 0).tolist()
    for count, got in zip(ticks, ns, strict=True):
        exact = int(Fraction(count, ticks_per_second(resolution)) * 10**9)
        expected = exact if exact <= LATEST_NS else NO_TIME
        if got == NO_TIME and exact > LATEST_NS - 10**9:
            continue  # the limit is kept to a second
        assert got == expected, (count, resolution)


def test_what_a_resolution_byte_says():
    assert ticks_per_second(6) == 10**6
    assert ticks_per_second(0x80 | 20) == 2**20
    assert ticks_per_second(0) == 1


@pytest.mark.parametrize("offset", [5, -5, 0])
def test_offsets_are_whole_seconds(offset):
    got = to_ns(np.array([1, 10**9], np.uint64), 9, offset).tolist()
    assert got == [1 + offset * 10**9, 10**9 + offset * 10**9]


@pytest.mark.parametrize("offset", [2**62, -(2**63), 2**63 - 1, LATEST_NS // 10**9])
def test_absurd_offsets_give_no_time(offset):
    assert to_ns(np.array([10**18], np.uint64), 9, offset).tolist() == [NO_TIME]


def test_differences_of_valid_times_fit():
    latest = to_ns(np.array([LATEST_NS], np.uint64), 9, 0)
    earliest = to_ns(np.array([0], np.uint64), 9, -(LATEST_NS // 10**9))
    assert int(latest[0]) - int(earliest[0]) == int((latest - earliest)[0])
