"""Kinds of events, by API family."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_analyzer.protocols.llm import (
    EventFacts,
    Repeats,
    RequestFacts,
    classify,
    request_facts,
)


def facts(data: object, event_type: str = "message") -> EventFacts:
    return classify(event_type, data if isinstance(data, bytes) else json.dumps(data).encode())


def chunk(delta: dict[str, object], **more: object) -> dict[str, object]:
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
        **more,
    }


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (chunk({"role": "assistant", "content": ""}), EventFacts("role")),
        (chunk({"content": "Hello"}), EventFacts("content", 5)),
        (chunk({"reasoning_content": "Hm"}), EventFacts("content", 2)),
        (
            chunk({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}),
            EventFacts("content", 3),
        ),
        (
            {"choices": [{"delta": {}, "finish_reason": "stop"}]},
            EventFacts("other", finish="stop"),
        ),
        (
            {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 60}},
            EventFacts("usage", 0, 7, 60),
        ),
        (b"[DONE]", EventFacts("end", ends=True)),
        ({"choices": [{"text": "abc"}]}, EventFacts("content", 3)),
        ({"error": {"message": "secret text", "type": "server_error"}}, None),
    ],
)
def test_chat_completions(data: object, expected: EventFacts | None) -> None:
    got = facts(data)
    assert got == (expected or EventFacts("error", error_code="server_error"))._replace(
        marked=expected is not None
    )
    assert "secret" not in repr(got)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"type": "message_start", "message": {"usage": {"input_tokens": 9}}}, ("role", False)),
        ({"type": "ping"}, ("ping", False)),
        ({"type": "content_block_start", "content_block": {"text": ""}}, ("other", False)),
        (
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}},
            ("content", False),
        ),
        (
            {"type": "content_block_delta", "delta": {"type": "signature_delta"}},
            ("other", False),
        ),
        (
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 15},
            },
            ("usage", False),
        ),
        ({"type": "message_stop"}, ("end", True)),
        ({"type": "error", "error": {"type": "overloaded_error"}}, ("error", False)),
    ],
)
def test_anthropic_messages(data: dict[str, object], expected: tuple[str, bool]) -> None:
    got = facts(data, str(data["type"]))
    assert (got.kind, got.ends) == expected


@pytest.mark.parametrize(
    ("data", "kind", "ends"),
    [
        ({"type": "response.created", "response": {}}, "role", False),
        ({"type": "response.output_text.delta", "delta": "Hi"}, "content", False),
        ({"type": "response.output_text.done", "text": "Hi"}, "other", False),
        ({"type": "response.completed", "response": {"usage": {}}}, "end", True),
        ({"type": "response.failed", "response": {"error": {"code": "x"}}}, "error", True),
    ],
)
def test_responses(data: dict[str, object], kind: str, ends: bool) -> None:
    got = facts(data, str(data["type"]))
    assert (got.kind, got.ends) == (kind, ends)


@pytest.mark.parametrize(
    ("event_type", "data", "kind"),
    [
        ("message", b"just text", "content"),
        ("ping", b"x", "ping"),
        ("done", b"x", "end"),
        ("message", {"token": {"text": "a"}}, "content"),
        ("message", {"response": "a", "done": False}, "content"),
        ("message", {"response": "", "done": True}, "end"),
        ("message", {"error": "no"}, "error"),
        ("message", {"status": "x"}, "other"),
        ("message", b"[1, 2]", "content"),
        ("message", b'{"a": ' * 100_000, "content"),
    ],
)
def test_other_servers(event_type: str, data: object, kind: str) -> None:
    assert facts(data, event_type).kind == kind


def test_request_facts() -> None:
    body = {"model": "m", "stream": True, "max_tokens": 5, "messages": [{"content": "secret"}]}
    assert request_facts(json.dumps(body).encode()) == RequestFacts("m", True, 5)
    assert request_facts(b'{"stream": true}') == RequestFacts(None, True, None)
    assert request_facts(b'{"max_tokens": 5}') is None
    assert request_facts(b"model=1") is None
    assert request_facts(b'{"model": tru') is None


TEMPLATES = [
    lambda text: json.dumps(chunk({"content": text}, id="x")),
    lambda text: json.dumps(chunk({"content": text, "role": "assistant"}), ensure_ascii=False),
    lambda text: json.dumps({"choices": [{"text": text, "finish_reason": text}]}),
    lambda text: json.dumps({"choices": [{"delta": {"content": text}}, {"delta": {"text": "b"}}]}),
    lambda text: json.dumps({"type": "content_block_delta", "delta": {"text": text}}),
    lambda text: json.dumps({"type": "response.output_text.delta", "delta": text}),
    lambda text: json.dumps({"type": text, "text": text, "content": text}),
    lambda text: json.dumps({"text": text, "error": None, "done": text}),
    lambda text: f'{{"choices": [{{"text": "{text}"}}]}}',  # not always JSON
    lambda text: f'plain "{text}" text',
    lambda text: text,
]
EVENT_TYPES = st.sampled_from(["message", "ping", "content_block_delta"])
TEXTS = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["ping", "end", "done", "[DONE]", "stop", "a", 'x", "y": "', "\\", "{}", ""]),
)


@given(st.sampled_from(TEMPLATES), st.lists(TEXTS, min_size=2, max_size=6), EVENT_TYPES)
def test_events_that_repeat_are_read_as_all_others(
    template: Callable[[str], str], texts: list[str], event_type: str
) -> None:
    repeats = Repeats()
    last = EventFacts("other")
    for text in texts:
        data = template(text).encode("utf-8", "surrogatepass")
        expected = classify(event_type, data)
        chars = repeats.characters(event_type, data)
        if chars:
            learnt = last._replace(generated_chars=chars)
            assert learnt == expected
            continue
        repeats.learn(event_type, data, expected)
        if repeats.characters(event_type, data):
            last = expected
            assert repeats.characters("other", data) == 0


def test_repeats_are_found() -> None:
    repeats = Repeats()
    one, other = (json.dumps(chunk({"content": text})).encode() for text in ("Hello", " wörld"))
    repeats.learn("message", one, classify("message", one))
    assert repeats.characters("message", one) == 5
    assert repeats.characters("message", json.dumps(chunk({"content": "x"})).encode()) == 1
    assert repeats.characters("message", other) == 6, "an escape"
    broken = other.replace(b"\\u00f6", b'","x":"')
    assert repeats.characters("message", broken) == 0, "another member"
    raw = other.replace(b"\\u00f6", "ö".encode())
    assert repeats.characters("message", raw) == 6
    assert repeats.characters("message", json.dumps(chunk({"role": "x"})).encode()) == 0


def test_answers_without_repeats_cost_little() -> None:
    repeats = Repeats()
    for number in range(100):
        data = json.dumps(chunk({"content": "Hello"}, id=str(number))).encode()
        repeats.learn("message", data, classify("message", data))
    assert repeats._tries <= 0
