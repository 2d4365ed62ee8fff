"""OpenAI's chat completions and responses streams, and the many servers that speak them."""

from __future__ import annotations

from typing import Any, Final

from capture_analyzer.protocols.llm.facts import EventFacts, first_int, short_word, text_length

_TEXT_MEMBERS: Final = ("content", "reasoning_content", "reasoning", "refusal", "text")


def chat(event_type: str, content: dict[str, Any]) -> EventFacts | None:
    """A chunk of a chat or text completion: ``choices`` with ``delta`` or ``text``."""
    choices = content.get("choices")
    if not isinstance(choices, list):
        return None
    usage = content.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    input_tokens = output_tokens = None
    if counts:
        input_tokens = first_int(counts, "prompt_tokens", "input_tokens")
        output_tokens = first_int(counts, "completion_tokens", "output_tokens")
    chars = 0
    finish = None
    role = False
    for choice in choices:
        if not isinstance(choice, dict):
            continue
        finish = short_word(choice.get("finish_reason")) or finish
        chars += text_length(choice.get("text"))
        delta = choice.get("delta")
        if isinstance(delta, dict):
            role = role or "role" in delta
            for name in _TEXT_MEMBERS:
                if name in delta:
                    chars += text_length(delta[name])
            if "tool_calls" in delta or "function_call" in delta:
                chars += _tool_chars(delta)
    if chars:
        return EventFacts("content", chars, input_tokens, output_tokens, finish=finish)
    error = content.get("error")
    if isinstance(error, dict):
        return _error(error)
    if counts and not finish:
        return EventFacts("usage", 0, input_tokens, output_tokens)
    if finish:
        # The marker [DONE] still follows: the answer is over, the stream is not.
        return EventFacts(
            "usage" if counts else "other", 0, input_tokens, output_tokens, finish=finish
        )
    return EventFacts("role" if role else "other")


def _tool_chars(delta: dict[str, Any]) -> int:
    """Characters of tool-call names and arguments, which are generated like text."""
    chars = 0
    calls = delta.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            chars += text_length(function.get("name")) + text_length(function.get("arguments"))
    call = delta.get("function_call")
    if isinstance(call, dict):
        chars += text_length(call.get("name")) + text_length(call.get("arguments"))
    return chars


def responses(event_type: str, content: dict[str, Any]) -> EventFacts | None:
    """An event of the responses API: ``type`` is "response.…"."""
    kind = content.get("type")
    if not isinstance(kind, str) or not kind.startswith("response."):
        return None
    if kind.endswith(".delta"):
        chars = text_length(content.get("delta"))
        return EventFacts("content", chars) if chars else EventFacts("other")
    if kind in ("response.completed", "response.incomplete", "response.failed"):
        response = content.get("response")
        response = response if isinstance(response, dict) else {}
        usage = response.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        error = response.get("error")
        return EventFacts(
            "error" if kind == "response.failed" else "end",
            0,
            first_int(counts, "input_tokens"),
            first_int(counts, "output_tokens"),
            ends=True,
            error_code=short_word(error.get("code")) if isinstance(error, dict) else None,
            finish=kind.removeprefix("response."),
        )
    if kind in ("response.created", "response.in_progress", "response.queued"):
        return EventFacts("role")
    return EventFacts("other")


def _error(error: dict[str, Any]) -> EventFacts:
    return EventFacts(
        "error", error_code=short_word(error.get("code")) or short_word(error.get("type"))
    )
