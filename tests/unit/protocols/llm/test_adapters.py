"""Kinds of events, by API family."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_analyzer.protocols.llm import (
    EventFacts,
    Known,
    Repeats,
    RequestFacts,
    request_facts,
)
from capture_analyzer.protocols.llm.adapters import classify


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
    known = Known()
    for _ in range(2):  # answers
        repeats = Repeats(known)
        for text in texts:
            data = template(text).encode("utf-8", "surrogatepass")
            assert repeats.read(event_type, data) == classify(event_type, data)
            assert repeats.read("other", data) == classify("other", data)


OWN = [
    {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1772546831},
    {"id": "chatcmpl-2", "object": "chat.completion.chunk", "created": 1772546832},
    {"id": "stop", "object": "stop", "created": 5},
    {"id": 'a"b', "object": "x", "created": 5},
    {"id": "content", "created": 5, "object": "x"},
    {},
]
MEMBERS: list[dict[str, Any]] = [
    {"model": "m", "choices": [{"delta": {"role": "assistant"}, "finish_reason": None}]},
    {"model": "m", "choices": [{"delta": {"content": "Hi"}, "finish_reason": None}]},
    {"model": "m", "choices": [{"delta": {"content": "stop"}, "finish_reason": None}]},
    {"model": "m", "choices": [{"delta": {"content": "5"}, "finish_reason": "length"}]},
    {"model": "m", "choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"model": "m", "choices": [], "usage": {"completion_tokens": 5, "prompt_tokens": 7}},
    {"id": "twice", "choices": []},
    {"type": "ping"},
    {},
]


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(OWN), st.sampled_from(MEMBERS)), max_size=6), max_size=4
    ),
    st.sampled_from([(", ", ": "), (",", ":")]),
)
def test_what_other_answers_said_changes_nothing(
    answers: list[list[tuple[dict[str, Any], dict[str, Any]]]], separators: tuple[str, str]
) -> None:
    known = Known()
    for answer in answers:
        repeats = Repeats(known)
        for own, members in answer:
            data = json.dumps(own | members, separators=separators).encode()
            assert repeats.read("message", data) == classify("message", data)
            cut = data.removeprefix(b"{")
            assert repeats.read("message", cut) == classify("message", cut)


def test_what_is_the_answers_own_does_not_hinder(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def watched(event_type: str, data: bytes) -> EventFacts:
        asked.append(data)
        return classify(event_type, data)

    monkeypatch.setattr("capture_analyzer.protocols.llm.repeats.classify", watched)
    known = Known()
    for number, own in enumerate(OWN[:2]):
        repeats = Repeats(known)
        for members in MEMBERS[:5]:
            repeats.read("message", json.dumps(own | members, separators=(",", ":")).encode())
        assert (len(asked) > 0) is (number == 0)
        asked.clear()


def test_repeats_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    repeats = Repeats(Known())
    one, other = (json.dumps(chunk({"content": text})).encode() for text in ("Hello", " wörld"))
    assert repeats.read("message", one).generated_chars == 5
    role, short, broken, raw = (
        json.dumps(chunk({"role": "x"})).encode(),
        json.dumps(chunk({"content": "x"})).encode(),
        other.replace(b"\\u00f6", b'","x":"'),
        other.replace(b"\\u00f6", "ö".encode()),
    )
    read: list[bytes] = []
    monkeypatch.setattr(
        "capture_analyzer.protocols.llm.repeats.classify",
        lambda _, data: [read.append(data), EventFacts("other")][1],
    )
    assert repeats.read("message", one).generated_chars == 5
    assert repeats.read("message", short).generated_chars == 1
    assert repeats.read("message", other).generated_chars == 6, "an escape"
    assert repeats.read("message", raw).generated_chars == 6
    assert read == []
    assert repeats.read("message", broken).kind == "other"
    assert repeats.read("message", role).kind == "other"
    assert read == [broken, role]


def test_answers_without_repeats_cost_little() -> None:
    repeats = Repeats(Known())
    for number in range(100):
        data = json.dumps(chunk({"content": "Hello"}, number=str(number))).encode()
        repeats.read("message", data)
    assert repeats._tries <= 0
