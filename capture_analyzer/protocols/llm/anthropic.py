"""Anthropic's messages stream: named events whose data repeats the name in ``type``."""

from __future__ import annotations

from typing import Any, Final

from capture_analyzer.protocols.llm.facts import EventFacts, first_int, short_word, text_length

_TYPES: Final = frozenset(
    (
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    )
)
_DELTA_MEMBERS: Final = ("text", "thinking", "partial_json")


def messages(event_type: str, content: dict[str, Any]) -> EventFacts | None:
    """An event of the messages API."""
    kind = content.get("type")
    if kind not in _TYPES:
        return None
    if kind == "content_block_delta":
        delta = content.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        chars = sum(text_length(delta.get(name)) for name in _DELTA_MEMBERS)
        return EventFacts("content", chars) if chars else EventFacts("other")
    if kind == "message_start":
        message = content.get("message")
        usage = message.get("usage") if isinstance(message, dict) else None
        counts = usage if isinstance(usage, dict) else {}
        return EventFacts("role", 0, first_int(counts, "input_tokens"), None)
    if kind == "message_delta":
        usage = content.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        delta = content.get("delta")
        finish = short_word(delta.get("stop_reason")) if isinstance(delta, dict) else None
        return EventFacts(
            "usage",
            0,
            first_int(counts, "input_tokens"),
            first_int(counts, "output_tokens"),
            finish=finish,
        )
    if kind == "message_stop":
        return EventFacts("end", ends=True)
    if kind == "ping":
        return EventFacts("ping")
    if kind == "error":
        error = content.get("error")
        code = short_word(error.get("type")) if isinstance(error, dict) else None
        return EventFacts("error", error_code=code)
    return EventFacts("other")
