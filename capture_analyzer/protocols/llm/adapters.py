"""Choosing the adapter for an event."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from capture_analyzer.protocols.llm import anthropic, generic, openai
from capture_analyzer.protocols.llm.facts import EventFacts, RequestFacts, first_int

MAX_JSON_OCTETS: Final = 4 << 20  # an event or request beyond this is not looked into


_OTHER: Final = EventFacts("other")
_decode: Final = json.JSONDecoder().raw_decode

_TEXT: Final = re.compile(rb'"([^"\\\x00-\x1f]+)"')
"""A JSON string without escapes."""

_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]+').fullmatch
_PROBE: Final = b"###"


def classify(event_type: str, data: bytes) -> EventFacts:
    """The facts of a server-sent event, by whichever API family it belongs to.

    OpenAI chat completions, OpenAI responses, Anthropic messages, and a generic reading for
    the rest (text-generation servers, JSON with a text or token member, plain text).
    """
    stripped = data.strip()
    if stripped == b"[DONE]":
        return EventFacts("end", ends=True, marked=True)
    if not stripped.startswith(b"{") or len(stripped) > MAX_JSON_OCTETS:
        return generic.plain_text(event_type, stripped)
    try:
        content = _object(stripped)
    except (ValueError, RecursionError):
        return generic.plain_text(event_type, stripped)
    for adapter in (openai.chat, openai.responses, anthropic.messages):
        facts = adapter(event_type, content)
        if facts is not None:
            return facts._replace(marked=True)
    return generic.json_object(event_type, content)


def _object(text: bytes) -> dict[str, Any]:
    """The JSON object that a text beginning with "{" is, and nothing else.

    Raises:
        ValueError: it is none.
    """
    decoded = text.decode("utf-8", "surrogatepass")
    content: dict[str, Any]
    content, end = _decode(decoded)
    if end != len(decoded):
        raise ValueError("more than one JSON value")
    return content


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
        self._shortest = 0
        self._others = 0  # characters of text elsewhere in the event
        self._tries = self.MOST_TRIES

    def characters(self, event_type: str, data: bytes) -> int:
        """Characters of generated text in an event that is like the one learnt; 0 if it isn't."""
        before = self._before
        if (
            before is None
            or not self._shortest < len(data) <= MAX_JSON_OCTETS
            or event_type != self._type
            or not data.startswith(before)
            or not data.endswith(self._behind)
        ):
            return 0
        text = data[len(before) : len(data) - len(self._behind)]
        if not _PLAIN(text):
            return 0
        if text.isascii():
            return self._others + len(text)
        try:
            return self._others + len(text.decode())
        except UnicodeDecodeError:
            return 0

    def learn(self, event_type: str, data: bytes, facts: EventFacts) -> None:
        """Take the next events to be like this one, which was read to these facts."""
        if facts.kind != "content":
            return
        for found in _TEXT.finditer(data):
            if self._tries <= 0:
                return
            text = found[1]
            size = len(text) if text.isascii() else len(text.decode("utf-8", "replace"))
            if size > facts.generated_chars:
                continue
            self._tries -= 1
            before, behind = data[: found.start(1)], data[found.end(1) :]
            changed = classify(event_type, before + text + _PROBE + behind)
            if changed == facts._replace(generated_chars=facts.generated_chars + len(_PROBE)):
                self._type, self._before, self._behind = event_type, before, behind
                self._shortest = len(before) + len(behind)
                self._others = facts.generated_chars - size
                return


def request_facts(content: bytes) -> RequestFacts | None:
    """Model, stream flag and token limit of a request's JSON content; None if it isn't one."""
    if len(content) > MAX_JSON_OCTETS or not content.lstrip().startswith(b"{"):
        return None
    try:
        body = _object(content.strip())
    except (ValueError, RecursionError):
        return None
    model = body.get("model")
    stream = body.get("stream")
    limit = first_int(body, "max_completion_tokens", "max_output_tokens", "max_tokens")
    if not isinstance(model, str) and not isinstance(stream, bool):
        return None
    return RequestFacts(
        model=model[:100] if isinstance(model, str) else None,
        stream=stream if isinstance(stream, bool) else None,
        max_tokens=limit,
    )
