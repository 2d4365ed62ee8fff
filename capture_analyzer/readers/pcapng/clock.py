"""Time stamps of pcapng: counts of a stated unit -> nanoseconds since 1970, exactly."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME

NS: Final = 1_000_000_000

LATEST_NS: Final = 1 << 62
"""Instants beyond this (the year 2116) or before its negative are no time of a capture, and
differences of what remains fit into 64 bits."""


def ticks_per_second(resolution: int) -> int:
    """What an if_tsresol byte says: 10^n, or 2^n where the highest bit is set."""
    exponent: int = resolution & 0x7F
    base = 2 if resolution & 0x80 else 10
    return int(base**exponent)


def to_ns(ticks: NDArray[np.uint64], resolution: int, offset_s: int) -> NDArray[np.int64]:
    """Convert time stamps, rounding down to whole nanoseconds.

    Args:
        ticks: counts since 1970, or since `offset_s` after it.
        resolution: the interface's if_tsresol byte.
        offset_s: its if_tsoffset, in seconds.

    Returns:
        Nanoseconds since 1970; NO_TIME for instants past LATEST_NS.
    """
    exponent = resolution & 0x7F
    if resolution & 0x80:
        ns, valid = _binary(ticks, exponent)
    elif exponent <= 9:
        scale = 10 ** (9 - exponent)
        valid = ticks <= np.uint64(LATEST_NS // scale)
        ns = (ticks * np.uint64(scale)).astype(np.int64)
    else:
        divisor = 10 ** (exponent - 9)
        if divisor >= 1 << 64:
            ns = np.zeros(len(ticks), np.int64)
        else:
            ns = (ticks // np.uint64(divisor)).astype(np.int64)
        valid = np.ones(len(ticks), np.bool_)
    if offset_s:
        if abs(offset_s) * NS > LATEST_NS:
            return np.full(len(ticks), NO_TIME)
        ns = ns + np.int64(offset_s * NS)  # no overflow: both are at most 2^62
        valid &= (ns <= LATEST_NS) & (ns >= -LATEST_NS)
    ns[~valid] = NO_TIME
    return ns


def _binary(
    ticks: NDArray[np.uint64], exponent: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Units of 2^-exponent seconds."""
    if exponent > 43:  # the product below would not fit: exact numbers of any size, one by one
        exact = [(count * NS) >> exponent for count in ticks.tolist()]
        ns = np.array(exact, np.int64)  # below 2^64 ticks: at most 2^50
        return ns, np.ones(len(ticks), np.bool_)
    whole = ticks >> np.uint64(exponent)
    fraction = ticks & np.uint64((1 << exponent) - 1)
    # fraction * 10^9 / 2^exponent, as fraction * 5^9 / 2^(exponent - 9)
    scaled = fraction * np.uint64(5**9)
    if exponent >= 9:
        scaled >>= np.uint64(exponent - 9)
    else:
        scaled <<= np.uint64(9 - exponent)
    valid = whole < np.uint64(LATEST_NS // NS)
    return (whole * np.uint64(NS) + scaled).astype(np.int64), valid
