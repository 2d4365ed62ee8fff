"""Choosing the adapter for an event."""

from __future__ import annotations

import json
from typing import Any, Final

from capture_analyzer.protocols.llm import anthropic, generic, openai
from capture_analyzer.protocols.llm.facts import EventFacts, RequestFacts, first_int

MAX_JSON_OCTETS: Final = 4 << 20  # an event or request beyond this is not looked into


_OTHER: Final = EventFacts("other")
_decode: Final = json.JSONDecoder().raw_decode


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
            return EventFacts(*facts[:-1], marked=True)
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
