"""What every adapter has to say of an event, and careful reading of JSON members."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

EventKind = Literal["content", "role", "ping", "usage", "error", "end", "other"]
"""content: holds generated text, reasoning or tool arguments; role: opens the answer;
ping: keeps the stream alive; usage: reports token counts; error: reports a failure;
end: closes the answer; other: anything else."""


class EventFacts(NamedTuple):
    """What one event says.

    Attributes:
        kind: its kind.
        generated_chars: characters of generated text in it; 0 unless kind is "content".
        input_tokens, output_tokens: token counts as the API states them, cumulative.
        ends: no more events of the answer are due after it.
        error_code: the error's type or code, a short word of the API, never its message.
        finish: the reason the API gives for ending.
        marked: it is of an API that closes every answer with an end marker.
    """

    kind: EventKind
    generated_chars: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    ends: bool = False
    error_code: str | None = None
    finish: str | None = None
    marked: bool = False


class RequestFacts(NamedTuple):
    """What a request's JSON content asks for; never its text."""

    model: str | None
    stream: bool | None
    max_tokens: int | None


def first_int(content: dict[str, Any], *names: str) -> int | None:
    """The first of these members that is a whole number of sensible size."""
    for name in names:
        value = content.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53:
            return value
    return None


def text_length(value: object) -> int:
    """Characters of a text member; 0 if it is absent or anything else."""
    return len(value) if isinstance(value, str) else 0


def short_word(value: object) -> str | None:
    """A type or code as the API states it, kept only if it is one short word."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and 0 < len(value) <= 64 and value.replace("_", "").isalnum():
        return value
    return None
