"""Events of servers that follow none of the known APIs."""

from __future__ import annotations

from typing import Any, Final

from capture_analyzer.protocols.llm.facts import EventFacts, short_word, text_length

_PING_TYPES: Final = frozenset(("ping", "heartbeat", "keepalive", "keep-alive"))
_END_TYPES: Final = frozenset(("done", "end", "complete", "completed", "stop"))
_TEXT_MEMBERS: Final = ("text", "content", "token", "response", "delta", "generated_text")


def plain_text(event_type: str, data: bytes) -> EventFacts:
    """An event whose data is not JSON: generated text, unless its type says otherwise."""
    named = event_type.lower()
    if named in _PING_TYPES:
        return EventFacts("ping")
    if named in _END_TYPES:
        return EventFacts("end", ends=True)
    if named == "error":
        return EventFacts("error")
    return (
        EventFacts("content", len(data.decode("utf-8", "replace"))) if data else EventFacts("other")
    )


def json_object(event_type: str, content: dict[str, Any]) -> EventFacts:
    """An event whose data is a JSON object of an unknown shape."""
    named = event_type.lower()
    if named in _PING_TYPES or content.get("type") in _PING_TYPES:
        return EventFacts("ping")
    error = content.get("error")
    if named == "error" or error:
        code = error.get("code") or error.get("type") if isinstance(error, dict) else None
        return EventFacts("error", error_code=short_word(code))
    chars = 0
    for name in _TEXT_MEMBERS:
        value = content.get(name)
        if isinstance(value, dict):  # text-generation-inference: {"token": {"text": …}}
            value = value.get("text")
        chars = text_length(value)
        if chars:
            break
    ended = content.get("done") is True or named in _END_TYPES
    if chars:
        return EventFacts("content", chars, ends=ended)
    return EventFacts("end", ends=True) if ended else EventFacts("other")
