"""Pieces of sentences that several detectors need."""

from __future__ import annotations

from collections.abc import Sequence

from capture_analyzer import wording


def time_range(lowest_ns: int, highest_ns: int) -> str:
    """Two durations in one unit, named once: "121 to 305 ms"; one where they read the same."""
    if highest_ns >= 999_500_000:
        low, high = wording.seconds(lowest_ns), wording.seconds(highest_ns)
    elif lowest_ns >= 9_950_000:
        low, high = (
            f"{lowest_ns / 1e6:.0f}{wording.NBSP}ms",
            f"{highest_ns / 1e6:.0f}{wording.NBSP}ms",
        )
    else:
        low, high = wording.duration(lowest_ns), wording.duration(highest_ns)
    if low == high:
        return high
    low_unit, high_unit = low.split(wording.NBSP)[-1], high.split(wording.NBSP)[-1]
    return f"{low.split(wording.NBSP)[0] if low_unit == high_unit else low} to {high}"


def amount(ns: int) -> str:
    """A duration in a sentence: seconds from 0.1 s, as people say them; else milliseconds."""
    return wording.seconds(ns) if ns >= 99_500_000 else wording.duration(ns)


def amounts(lowest_ns: int, highest_ns: int) -> str:
    """Two durations as `amount` says one: "0.70 s", "0.25 to 1.20 s", "57 ms to 0.70 s"."""
    low, high = amount(lowest_ns), amount(highest_ns)
    if low == high:
        return high
    value, unit = low.split(wording.NBSP)
    return f"{value if high.endswith(wording.NBSP + unit) else low} to {high}"


def upper_first(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def listed(parts: Sequence[str], most: int = 3) -> str:
    """Names in a sentence: "a", "a and b", "a, b and 5 more"."""
    shown = list(parts[:most]) if len(parts) > most else list(parts)
    if len(parts) > most:
        shown.append(f"{len(parts) - most:,} more")
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"
