"""Captured text on its way into the report: made visible, kept short, stored once."""

from __future__ import annotations

import re
from typing import Final

MAX_CHARACTERS: Final = 400  # a longer path or field value tells a reader nothing more

# Controls, and what reorders or hides the text around it: zero-width and bidirectional
# formatting characters (Unicode Standard Annex #9, section 2), line separators, byte order
# mark, and lone surrogates.
_INVISIBLE: Final = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with every invisible character written as its code point, cut where long."""
    rest = len(text) - MAX_CHARACTERS
    if rest > 0:
        text = text[:MAX_CHARACTERS]
    text = _INVISIBLE.sub(_code_point, text)
    return f"{text}… ({rest:,} more characters)" if rest > 0 else text


def _code_point(match: re.Match[str]) -> str:
    return f"⟨U+{ord(match[0]):04X}⟩"


class StringTable:
    """Distinct strings in order of first use; rows hold their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {None: 0}
        self.strings: list[str | None] = [None]

    def number(self, text: str | None) -> int:
        """The string's number; 0 stands for None."""
        number = self._numbers.get(text)
        if number is None:
            assert text is not None
            number = self._numbers[text] = len(self.strings)
            self.strings.append(visible(text))
        return number
