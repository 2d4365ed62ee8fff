"""Captured bytes as text that is safe to show: nothing in it acts on a terminal or a page."""

from __future__ import annotations

from typing import Final

MAX_TEXT: Final = 16_384
"""Longest captured string that is kept, in characters: longer targets and field values exist
only where someone tries how much a reader bears."""


def printable(raw: bytes) -> str:
    r"""Decode UTF-8, else Latin-1; what can't be printed becomes \xNN or \uNNNN.

    Control characters (of either kind), line separators and the marks that turn the writing
    direction are among what can't be printed. What is longer than `MAX_TEXT` ends in "…".
    """
    if len(raw) > MAX_TEXT:
        raw = raw[:MAX_TEXT] + b"\xe2\x80\xa6"
    if raw.isascii():
        text = raw.decode("ascii")
    else:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            text = raw.decode("latin-1")
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(ord(char)) for char in text)


def _escaped(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
