"""How numbers are written wherever a person reads them: summaries, report, terminal.

About three significant figures, a non-breaking space before the unit, comma for thousands,
never more digits than mean something. Exact figures are for sums only.
"""

from __future__ import annotations

from typing import Final

NBSP: Final = "\u00a0"
MINUS: Final = "\u2212"


def duration(ns: int) -> str:
    """A duration to about three figures: 0.29 ms, 4.1 ms, 57 ms, 712 ms, 1.35 s, 2 min 5 s."""
    if ns < 0:
        return MINUS + duration(-ns)
    if ns == 0:
        return f"0{NBSP}ms"
    if ns < 995_000:
        return f"{ns / 1e6:.2f}{NBSP}ms" if ns >= 5_000 else f"{ns / 1e3:.2g}{NBSP}µs"
    if ns < 9_950_000:
        return f"{ns / 1e6:.1f}{NBSP}ms"
    if ns < 999_500_000:
        return f"{ns / 1e6:.0f}{NBSP}ms"
    if ns < 9_995_000_000:
        return f"{ns / 1e9:.2f}{NBSP}s"
    if ns < 59_950_000_000:
        return f"{ns / 1e9:.1f}{NBSP}s"
    seconds = round(ns / 1e9)
    if seconds < 3600:
        return f"{seconds // 60}{NBSP}min {seconds % 60}{NBSP}s"
    return f"{seconds // 3600}{NBSP}h {seconds % 3600 // 60}{NBSP}min"


def seconds(ns: int) -> str:
    """A duration in seconds, for sentences that compare several: 0.70 s, 12.6 s."""
    return f"{ns / 1e9:.2f}{NBSP}s" if abs(ns) < 9_995_000_000 else f"{ns / 1e9:,.1f}{NBSP}s"


def exact_ms(ns: int) -> str:
    """A duration to the microsecond, for figures that are summed: 2,251.395 ms."""
    return f"{ns / 1e6:,.3f}{NBSP}ms"


def size(count: int) -> str:
    """A number of bytes, decimal: 312 B, 5.1 KB, 300 KB, 1.2 MB."""
    if count < 1000:
        return f"{count}{NBSP}B"
    value = float(count)
    for unit in ("KB", "MB", "GB", "TB"):
        value /= 1000
        if value < 9.95:
            return f"{value:.1f}{NBSP}{unit}"
        if value < 999.5 or unit == "TB":
            return f"{value:,.0f}{NBSP}{unit}"
    raise AssertionError("unreachable")


def share(part: int, whole: int) -> str:
    """A share in whole per cent; "< 1 %" below one, "–" of nothing."""
    if whole <= 0:
        return "–"
    percent = 100 * part / whole
    return f"<{NBSP}1{NBSP}%" if 0 < percent < 1 else f"{percent:.0f}{NBSP}%"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """A count with its noun: "1 packet", "1,263 packets"."""
    noun = singular if number == 1 else plural or singular + "s"
    return f"{number:,} {noun}"


_WORDS: Final = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
)


def count_word(number: int) -> str:
    """A small count as a word in a sentence: "two", "ten", "11"."""
    return _WORDS[number] if 0 <= number < len(_WORDS) else f"{number:,}"


def instant(ns: int) -> str:
    """An instant counted from the capture's start: +3.160 s."""
    return f"{'+' if ns >= 0 else MINUS}{abs(ns) / 1e9:.3f}{NBSP}s"
