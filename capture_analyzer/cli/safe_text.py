"""Text from a capture made harmless for a terminal, and fitted into columns.

Control characters could move the cursor, colour the screen or retype what was shown;
direction marks could reorder it (CVE-2021-42574). They are shown as escapes instead.
"""

from __future__ import annotations

import textwrap
import unicodedata

from capture_analyzer.wording import NBSP


def printable(text: str) -> str:
    """The text with every character that is not plainly visible written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == NBSP else _escape(character)
        for character in text
    )


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width(text: str) -> int:
    """How many columns a terminal gives to printable text."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, columns: int) -> str:
    """The text in exactly so many columns: cut with … or filled with spaces."""
    missing = columns - width(text)
    if missing >= 0:
        return text + " " * missing
    kept = ""
    room = columns - 1
    for character in text:
        room -= _width(character)
        if room < 0:
            break
        kept += character
    return fit(kept + "…", columns)


def right(text: str, columns: int) -> str:
    """The text at the right end of so many columns."""
    return " " * max(columns - width(text), 0) + text


def wrap(text: str, columns: int, most: int) -> list[str]:
    """The text in lines of at most so many columns; cut with … after `most` lines."""
    lines = textwrap.wrap(text, max(columns, 10), break_long_words=True, break_on_hyphens=False)
    if len(lines) > most:
        lines = [*lines[: most - 1], fit(" ".join(lines[most - 1 :]), columns).rstrip()]
    return lines or [""]
