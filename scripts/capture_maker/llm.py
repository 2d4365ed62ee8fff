"""Streamed answers of LLM APIs as server-sent events, and the requests for them.

What stands here is content and its timing; `chunked` and `framed` bring it into HTTP/1.1 and
HTTP/2. Texts that must never leave an analysis are in `NEEDLES`.
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from capture_maker import http, http2
from capture_maker.http import Write
from capture_maker.simulation import MS

ANSWER = (
    "The order was delayed because the warehouse reported a mismatch between the pick list and "
    "the stock count . I have asked for a recount and moved the delivery to Thursday ; the "
    "customer will get a message with the new date . Shall I also waive the shipping fee ?"
)
WORDS = ANSWER.split()

PROMPT = "needle-prompt-7Qx2: where is my parcel?"
ANSWER_NEEDLE = "needle-answer-7Qx2"
TOKEN = "sk-needle-token-7Qx2"
COOKIE = "needle-cookie-7Qx2"
QUERY = "needle-query-7Qx2"
NEEDLES = (
    *("needle-prompt-7Qx2", ANSWER_NEEDLE, TOKEN, COOKIE, QUERY),
    # of llm-incident
    *("sk-example-000000000000", "tool-key-000000", "C-1042", "order desk's assistant"),
    *("mismatch between", "asked for a recount", "Why is order", "what the tools said"),
)


@dataclasses.dataclass(slots=True)
class Event:
    """A server-sent event: its text with the blank line, its kind, the pause before it."""

    text: bytes
    kind: str
    after_ns: int = 0


def sse(data: object, name: str = "") -> bytes:
    """The text of an event."""
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + b"data: " + text.encode() + b"\n\n"


def _pauses(first_ns: int, gaps_ns: Sequence[int]) -> Iterator[int]:
    """Before the first word, the second ...; the last one is used on."""
    return itertools.chain([first_ns], gaps_ns, itertools.repeat(gaps_ns[-1]))


def chat_event(content: dict[str, object], finish: str | None = None, **more: object) -> bytes:
    """A chunk of a chat completion (OpenAI's API)."""
    return sse(
        {
            "id": "chatcmpl-7f3a",
            "object": "chat.completion.chunk",
            "created": 1772546831,
            "model": "example-large-2",
            "choices": [{"index": 0, "delta": content, "finish_reason": finish}],
            **more,
        }
    )


def chat(
    first_ns: int, gaps_ns: Sequence[int], words: Sequence[str], *, usage: bool = False
) -> list[Event]:
    """A chat completion: the role, a word an event, the end.

    Args:
        first_ns: from the role to the first word.
        gaps_ns: pauses before the second, third ... word; the last one is used on.
        words: the answer.
        usage: token counts before the end.
    """
    events = [Event(chat_event({"role": "assistant", "content": ""}), "role")]
    events += [
        Event(chat_event({"content": word + " "}), "content", pause)
        for word, pause in zip(words, _pauses(first_ns, gaps_ns), strict=False)
    ]
    events.append(Event(chat_event({}, "stop"), "other", 5 * MS))
    if usage:
        counts = {"prompt_tokens": 180, "completion_tokens": len(words), "total_tokens": 999}
        events.append(Event(sse({"choices": [], "usage": counts}), "usage", 1 * MS))
    events.append(Event(sse("[DONE]"), "end", 1 * MS))
    return events


def messages(first_ns: int, gaps_ns: Sequence[int], words: Sequence[str]) -> list[Event]:
    """An answer of Anthropic's messages API, with a ping before the first word."""
    start: dict[str, Any] = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "example-large-2",
        "content": [],
        "usage": {"input_tokens": 180, "output_tokens": 1},
    }
    block = {"type": "text", "text": ""}

    def made(name: str, **data: object) -> bytes:
        return sse({"type": name, **data}, name)

    events = [
        Event(made("message_start", message=start), "role"),
        Event(made("content_block_start", index=0, content_block=block), "other"),
        Event(made("ping"), "ping", 40 * MS),
    ]
    for word, pause in zip(words, _pauses(first_ns, gaps_ns), strict=False):
        delta = {"type": "text_delta", "text": word + " "}
        events.append(Event(made("content_block_delta", index=0, delta=delta), "content", pause))
    events.append(Event(made("content_block_stop", index=0), "other", 4 * MS))
    usage = {"output_tokens": len(words)}
    events.append(
        Event(made("message_delta", delta={"stop_reason": "end_turn"}, usage=usage), "usage")
    )
    events.append(Event(made("message_stop"), "end"))
    return events


def responses(first_ns: int, gaps_ns: Sequence[int], words: Sequence[str]) -> list[Event]:
    """An answer of OpenAI's responses API."""
    count = itertools.count()

    def made(name: str, **data: object) -> bytes:
        return sse({"type": name, "sequence_number": next(count), **data}, name)

    response = {"id": "resp_01", "object": "response", "status": "in_progress"}
    item = {"id": "msg_01", "type": "message", "role": "assistant", "content": []}
    events = [
        Event(made("response.created", response=response), "role"),
        Event(made("response.in_progress", response=response), "role", 2 * MS),
        Event(made("response.output_item.added", output_index=0, item=item), "other", 60 * MS),
    ]
    for word, pause in zip(words, _pauses(first_ns, gaps_ns), strict=False):
        delta = made("response.output_text.delta", item_id="msg_01", delta=word + " ")
        events.append(Event(delta, "content", pause))
    events.append(Event(made("response.output_text.done", item_id="msg_01"), "other", 3 * MS))
    done = {**response, "status": "completed"}
    done["usage"] = {"input_tokens": 180, "output_tokens": len(words)}  # type: ignore[assignment]
    events.append(Event(made("response.completed", response=done), "end"))
    return events


def gather(events: Sequence[Event], size: int) -> list[list[Event]]:
    """Events as a buffer of so many bytes lets them go: when it is full, and at the end."""
    groups: list[list[Event]] = [[]]
    held = 0
    for event in events:
        if held + len(event.text) > size:
            groups.append([])
            held = 0
        groups[-1].append(event)
        held += len(event.text)
    return groups


FIELDS = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    ("x-request-id", "req_51c2"),
)


def _writes(groups: Sequence[Sequence[Event]], *, coded: bool = False) -> list[Write]:
    """A write for each group of events, as late as its last one is made."""
    out = io.BytesIO()
    coder = gzip.GzipFile(fileobj=out, mode="wb", mtime=0)
    writes = []
    for group in groups:
        ends: list[tuple[int, str]] = []
        data = b""
        for event in group:
            if coded:
                coder.write(event.text)
                coder.flush()  # a sync flush: everything up to here can be decoded
                data += out.getvalue()
                out.seek(0)
                out.truncate()
            else:
                data += event.text
            ends.append((len(data), event.kind))
        writes.append(Write(data, sum(event.after_ns for event in group), tuple(ends)))
    if coded:
        coder.close()
        writes[-1].data += out.getvalue()
    return writes


def chunked(
    head_ns: int,
    groups: Sequence[Sequence[Event]],
    *fields: str,
    gzip: bool = False,
    whole: bool = True,
    abort: bool = False,
) -> http.Reply:
    """A stream over HTTP/1.1: a chunk and a write for each group of events.

    Args:
        head_ns: from the request to the head, which goes out with the first group.
        groups: the events.
        fields: more header fields.
        gzip: in content coding gzip, flushed after each event.
        whole: the content ends with the last chunk; else the server closes before.
        abort: it does not close but resets the connection.
    """
    lines = [f"{name.title()}: {value}" for name, value in FIELDS]
    coding = ["Content-Encoding: gzip"] if gzip else []
    head = http.response(
        "200 OK", b"", *lines, *fields, *coding, "Transfer-Encoding: chunked", length=False
    )
    writes = []
    for number, write in enumerate(_writes(groups, coded=gzip)):
        size = b"%x\r\n" % len(write.data)
        lead = size if number else head + size
        events = tuple((len(lead) + offset, kind) for offset, kind in write.events)
        writes.append(Write(lead + write.data + b"\r\n", write.after_ns, events))
    if whole:
        writes[-1].data += b"0\r\n\r\n"
    return http.Reply(
        head_ns, writes, kind="sse", complete=whole, close=not whole and not abort, abort=abort
    )


def framed(
    head_ns: int,
    groups: Sequence[Sequence[Event]],
    *fields: tuple[str, str],
) -> http2.Answer:
    """A stream over HTTP/2: a DATA frame for each group of events."""
    return http2.Answer(head_ns, 200, [*FIELDS, *fields], _writes(groups), kind="sse")


def alone(events: Sequence[Event]) -> list[list[Event]]:
    """Each event in a write of its own."""
    return [[event] for event in events]


def asking(prompt: str = PROMPT, **more: object) -> bytes:
    """The content of a request for a streamed answer."""
    body = {
        "model": "example-large-2",
        "stream": True,
        "max_tokens": 256,
        "messages": [{"role": "user", "content": prompt}],
        **more,
    }
    return json.dumps(body).encode()


REQUEST_FIELDS = (
    ("user-agent", "agent/3.2 python-httpx/0.27"),
    ("accept", "text/event-stream"),
    ("authorization", f"Bearer {TOKEN}"),
    ("content-type", "application/json"),
)


def post(target: str, host: str, content: bytes) -> bytes:
    """A request over HTTP/1.1."""
    fields = [f"{name.title()}: {value}" for name, value in REQUEST_FIELDS]
    return http.request("POST", target, host, *fields, content=content)
