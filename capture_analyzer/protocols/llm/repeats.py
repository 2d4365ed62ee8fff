"""Events of one answer that differ in their text alone: most do, and are read all at once."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Final

from capture_analyzer.protocols.llm.adapters import MAX_JSON_OCTETS, classify
from capture_analyzer.protocols.llm.facts import EventFacts

_TEXT: Final = re.compile(rb'"([^"\\\x00-\x1f]+)"')
"""A JSON string without escapes."""

_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]+').fullmatch
_PROBE: Final = b"###"
_decode: Final = json.JSONDecoder().raw_decode


class Repeats:
    """Events of one answer that differ from one of its earlier events in their text alone.

    Most events of an answer do: the same JSON around another token. Where all bytes outside of
    one string are the same, and that string is known to count as generated text, nothing else
    can differ.
    """

    MOST_TRIES: Final = 12
    """Texts tried to find the one that counts, in all: in some answers no two events are alike."""

    def __init__(self) -> None:
        self._type = ""
        self._before: bytes | None = None
        self._behind = b""
        self._others = 0  # characters of text elsewhere in the event
        self._tries = self.MOST_TRIES
        # What is around the text in a framed event, and how long such an event may be.
        self._frame: tuple[bytes, bytes, int] | None = None

    def characters(self, event_type: str, data: bytes) -> int:
        """Characters of generated text in an event that is like the one learnt; 0 if it isn't."""
        before, behind = self._before, self._behind
        if (
            before is None
            or not len(before) + len(behind) < len(data) <= MAX_JSON_OCTETS
            or event_type != self._type
            or not data.startswith(before)
            or not data.endswith(behind)
        ):
            return 0
        size = _characters(data[len(before) : len(data) - len(behind)])
        return self._others + size if size else 0

    def learn(self, event_type: str, data: bytes, facts: EventFacts) -> bool:
        """Take the next events to be like this one, which was read to these facts.

        Returns:
            Whether it was found what others like it look like.
        """
        if facts.kind != "content" or self._tries <= 0:
            return False
        texts = []
        for found in _TEXT.finditer(data):
            start, end = found.span(1)
            if end - start > 4 * facts.generated_chars:  # octets of the longest characters
                continue
            size = _characters(found[1])
            if 0 < size <= facts.generated_chars:
                texts.append((size, start, end))
        # Most likely all that is generated is one text.
        texts.sort(key=lambda text: text[0] != facts.generated_chars)
        for size, start, end in texts:
            if self._tries <= 0:
                break
            self._tries -= 1
            changed = classify(event_type, data[:end] + _PROBE + data[end:])
            if changed == facts._replace(generated_chars=facts.generated_chars + len(_PROBE)):
                self._type, self._before, self._behind = event_type, data[:start], data[end:]
                self._others = facts.generated_chars - size
                self._frame = None
                return True
        return False

    def learn_frame(self, head: bytes, tail: bytes) -> None:
        """The event learnt last stood between these, with which events are framed."""
        if self._before is not None:
            most = len(head) + MAX_JSON_OCTETS + len(tail)
            self._frame = head + self._before, self._behind + tail, most

    def framed(self, events: Sequence[bytes], first: int) -> tuple[list[int], list[int]]:
        """Those of framed events, from one on, that are like the one learnt.

        Args:
            events: as they are framed.
            first: index of the first that is looked at.

        Returns:
            Of each up to the first that is not: octets of data, characters of generated text.
        """
        if self._frame is None:
            return [], []
        before, behind, most = self._frame
        start, stop = len(before), -len(behind)
        texts = []
        for event in itertools.islice(events, first, None):
            if not (event.startswith(before) and event.endswith(behind)) or len(event) > most:
                break
            texts.append(event[start:stop])
        if not texts:
            return [], []
        assert self._before is not None
        around, others = len(self._before) + len(self._behind), self._others
        joined = b"".join(texts)
        sizes = list(map(len, texts))
        if joined.isascii() and _PLAIN(joined) and 0 not in sizes:
            characters = sizes
        else:
            characters = list(itertools.takewhile(bool, map(_characters, texts)))
            del sizes[len(characters) :]
        return [around + size for size in sizes], [others + size for size in characters]


def _characters(text: bytes) -> int:
    """Characters of what is between the quotes of a JSON string; 0 if it can't be there."""
    if _PLAIN(text):
        if text.isascii():
            return len(text)
        try:
            return len(text.decode())
        except UnicodeDecodeError:
            return 0
    try:
        string = (b'"%s"' % text).decode("utf-8", "surrogatepass")
        value, end = _decode(string)
    except ValueError:
        return 0
    return len(value) if end == len(string) else 0
