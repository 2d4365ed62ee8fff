"""Events that differ from an earlier one in their text alone: most do, and are read all at once."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from capture_analyzer.protocols.llm.adapters import MAX_JSON_OCTETS, classify
from capture_analyzer.protocols.llm.facts import EventFacts

MOST_KNOWN: Final = 512
"""Events remembered for other answers; an API has a dozen, each model and server its own."""

MOST_SHAPES: Final = 8
"""Shapes remembered likewise. Each is tried on what has none of its own answer's."""

_LONG: Final = 1 << 10  # octets of an event; longer ones are not remembered
_MOST_LEARNT: Final = 1 << 20  # octets of an event that is taken apart; those of tokens have few
_LASTING: Final = frozenset(("role", "ping", "end", "other"))
"""Kinds of events that are the same in every answer: they hold no text and count nothing."""

_OWN: Final = re.compile(
    rb'\{("id":"[ !#-\[\]-~]{1,128}","object":"[a-z._]{1,64}","created":[1-9][0-9]{0,14},)(?=")'
)
"""Members that events of chat completions begin with. They are the answer's own, and nothing
that an adapter says depends on them."""

_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]+').fullmatch
_PROBE: Final = b"###"
_decode: Final = json.JSONDecoder().raw_decode


class _Shape(NamedTuple):
    """An event of which one text is taken out.

    Attributes:
        type: its event type.
        before, behind: its data around the text.
        others: characters of generated text elsewhere in it.
        facts: what it says.
    """

    type: str
    before: bytes
    behind: bytes
    others: int
    facts: EventFacts

    def read(self, event_type: str, data: bytes) -> EventFacts | None:
        """What an event says that has this shape; None if it has another."""
        before, behind = self.before, self.behind
        if (
            not data.startswith(before)
            or not data.endswith(behind)
            or not len(before) + len(behind) < len(data) <= MAX_JSON_OCTETS
            or event_type != self.type
        ):
            return None
        size = _characters(data[len(before) : len(data) - len(behind)])
        return EventFacts("content", self.others + size, *self.facts[2:]) if size else None


class Known:
    """What events of one answer said that others repeat.

    Answers of an API differ in their text, identifiers, times and counts. All else, what opens
    and closes them and what stands around their text, comes again and again.
    """

    def __init__(self) -> None:
        self._facts: dict[tuple[str, bytes], EventFacts] = {}
        self._shapes: list[_Shape] = []  # those that were of use most recently come first

    def facts(self, event_type: str, rest: bytes) -> EventFacts | None:
        """What an event says without what is its answer's own; None if it isn't known."""
        return self._facts.get((event_type, rest))

    def shape(self, event_type: str, rest: bytes) -> tuple[_Shape, EventFacts] | None:
        """The shape of such an event, and what it says; None if it isn't known."""
        for number, shape in enumerate(self._shapes):
            if rest.startswith(shape.before):
                said = shape.read(event_type, rest)
                if said is not None:
                    self._shapes.insert(0, self._shapes.pop(number))
                    return shape, said
        return None

    def add_facts(self, event_type: str, rest: bytes, said: EventFacts) -> None:
        """Remember what an event says."""
        if said.kind in _LASTING and said.input_tokens is None and said.output_tokens is None:
            if len(self._facts) >= MOST_KNOWN:
                self._facts.clear()
            self._facts[event_type, rest] = said

    def add_shape(self, shape: _Shape) -> None:
        """Remember a shape without what is its answer's own."""
        self._shapes.insert(0, shape)
        del self._shapes[MOST_SHAPES:]


class Frame(NamedTuple):
    """What stands around the text of events of one shape.

    Attributes:
        before, behind: the octets, without the empty line that ends an event.
        data_octets: how many of them are of the event's data.
    """

    before: bytes
    behind: bytes
    data_octets: int


class Repeats:
    """Reads the events of an answer; those that differ in their text alone quickly.

    Most events of an answer do: the same JSON around another token. Where all bytes outside of
    one string are the same, and that string is known to count as generated text, nothing else
    can differ.

    Args:
        known: from other answers.

    Attributes:
        unframed: a shape was found since `learn_frame` was called.
        frame: what events look like that have it; None if that is not known.
    """

    MOST_TRIES: Final = 12
    """Texts tried to find the one that counts, in all: in some answers no two events are alike."""

    def __init__(self, known: Known) -> None:
        self.unframed = False
        self.frame: Frame | None = None
        self._known = known
        self._shape: _Shape | None = None
        self._tries = self.MOST_TRIES

    def read(self, event_type: str, data: bytes) -> EventFacts:
        """What an event says, as `adapters.classify` has it."""
        said = self._shape.read(event_type, data) if self._shape is not None else None
        if said is not None:
            return said
        is_object = data.lstrip().startswith(b"{")
        if not is_object or len(data) > _LONG:
            said = classify(event_type, data)
            if is_object:
                self._learn(event_type, data, said)
            return said
        known = self._known
        own = _OWN.match(data)
        rest = b"{" + data[own.end() :] if own else data
        said = known.facts(event_type, rest)
        if said is not None:
            return said
        found = known.shape(event_type, rest)
        if found is not None:
            shape, said = found
            if own:
                shape = shape._replace(before=own[0] + shape.before[1:])
            self._set(shape)
            return said
        said = classify(event_type, data)
        learnt = self._learn(event_type, data, said)
        if learnt is None:
            known.add_facts(event_type, rest, said)
        elif own is None:
            known.add_shape(learnt)
        elif len(learnt.before) > own.end():
            known.add_shape(learnt._replace(before=b"{" + learnt.before[own.end() :]))
        return said

    def _learn(self, event_type: str, data: bytes, said: EventFacts) -> _Shape | None:
        """Take the next events to be like this one, if it can be found what they look like."""
        if said.kind != "content" or said.output_tokens is not None or self._tries <= 0:
            return None
        if len(data) > _MOST_LEARNT:
            return None
        chars = said.generated_chars
        texts = []
        at = 0
        for number, text in enumerate(data.split(b'"')):
            # Every other one is a string; at least where none holds a quotation mark.
            if number & 1 and len(text) <= 4 * chars:  # octets of the longest characters
                size = _characters(text) if _PLAIN(text) else 0
                if 0 < size <= chars:
                    texts.append((size, at, at + len(text)))
            at += len(text) + 1
        # Most likely all that is generated is one text.
        texts.sort(key=lambda text: text[0] != chars)
        for size, start, end in texts[: self._tries]:
            self._tries -= 1
            changed = classify(event_type, data[:end] + _PROBE + data[end:])
            if changed == said._replace(generated_chars=chars + len(_PROBE)):
                shape = _Shape(event_type, data[:start], data[end:], chars - size, said)
                self._set(shape)
                return shape
        return None

    def _set(self, shape: _Shape) -> None:
        self._shape = shape
        self.unframed = True
        self.frame = None

    def learn_frame(self, around: tuple[bytes, bytes] | None) -> None:
        """Take in what stood around the data of the event whose shape was found last.

        Args:
            around: as in `Frame`; None if the data is in parts.
        """
        self.unframed = False
        shape = self._shape
        if around is not None and shape is not None:
            before, behind = around[0] + shape.before, shape.behind + around[1]
            self.frame = Frame(before, behind, len(shape.before) + len(shape.behind))

    def characters_of(self, texts: Sequence[bytes]) -> list[int]:
        """Characters of generated text in events that hold these between what `frame` says.

        Returns:
            Of each up to the first in which anything else can differ.
        """
        assert self._shape is not None
        assert self.frame is not None
        others, most = self._shape.others, MAX_JSON_OCTETS - self.frame.data_octets
        joined = b"".join(texts)
        characters = list(map(len, texts))
        if not (joined.isascii() and _PLAIN(joined) and 0 not in characters and len(joined) < most):
            short = itertools.takewhile(lambda text: len(text) <= most, texts)
            characters = list(itertools.takewhile(bool, map(_characters, short)))
        return [others + size for size in characters] if others else characters


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
