"""Wireshark display filters that show the evidence of a finding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_STREAMS: Final = 100  # more make a filter that nobody can paste


def frames(packet_nos: Iterable[int]) -> str:
    """Frames by number; "" for none. Neighbours become ranges: ``frame.number in {3, 7..9}``."""
    return _members("frame.number", sorted(set(packet_nos)))


def tcp_streams(numbers: Iterable[int | None]) -> str:
    """TCP streams by Wireshark's number, at most `MAX_STREAMS`; "" for none."""
    known = sorted({number for number in numbers if number is not None})
    return _members("tcp.stream", known[:MAX_STREAMS])


def _members(field: str, numbers: list[int]) -> str:
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f"{field} == {numbers[0]}"
    parts: list[str] = []
    first = last = numbers[0]
    for number in [*numbers[1:], numbers[-1]]:  # the last again: it ends the last run
        if number == last + 1:
            last = number
            continue
        if last - first < 2:  # a range of two is longer than its members
            parts += map(str, range(first, last + 1))
        else:
            parts.append(f"{first}..{last}")
        first = last = number
    return f"{field} in {{{', '.join(parts)}}}"
