"""When each event of a streamed answer could be read: over chunks, codings, packets and gaps."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from capture_analyzer.model.messages import Message, StreamFacts
from capture_analyzer.pipeline.dissect.answers import Answers
from capture_analyzer.pipeline.dissect.contents import read_contents
from capture_analyzer.pipeline.redact import Redactor
from capture_analyzer.protocols.http1.connection import parse
from capture_analyzer.protocols.http1.head import FieldLines
from capture_analyzer.protocols.http1.source import Source
from capture_analyzer.protocols.llm import Known

MS = 1_000_000
WORDS = ["Hello", " ", "world", "", "größer", "x" * 300, "."]


def chat(word: str) -> bytes:
    data = {"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


EVENTS = [
    b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n',
    *[chat(word) for word in WORDS],
    b": keep-alive\n\n",
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"completion_tokens":7}}\n\n',
    b"data: [DONE]\n\n",
]


def deflated(wbits: int) -> Callable[[Sequence[bytes]], list[bytes]]:
    def code(parts: Sequence[bytes]) -> list[bytes]:
        coder = zlib.compressobj(wbits=wbits)
        out = [coder.compress(part) + coder.flush(zlib.Z_SYNC_FLUSH) for part in parts]
        return [*out, coder.flush()]

    return code


def brotlied(parts: Sequence[bytes]) -> list[bytes]:
    coder = brotli.Compressor(quality=4)
    out = [coder.process(part) + coder.flush() for part in parts]
    return [*out, coder.finish()]


def zstandarded(parts: Sequence[bytes]) -> list[bytes]:
    coder = zstandard.ZstdCompressor().compressobj()
    block = zstandard.COMPRESSOBJ_FLUSH_BLOCK
    out = [coder.compress(part) + coder.flush(block) for part in parts]
    return [*out, coder.flush()]


def ungzip(data: bytes) -> bytes:
    return zlib.decompressobj(31).decompress(data)


def unzstandard(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


def unbrotli(data: bytes) -> bytes:
    return bytes(brotli.Decompressor().process(data))


CODINGS: dict[str, tuple[Callable[[Sequence[bytes]], list[bytes]], Callable[[bytes], bytes]]] = {
    "": (list, bytes),
    "identity": (list, bytes),
    "gzip": (deflated(31), ungzip),
    "deflate": (deflated(15), lambda data: zlib.decompressobj().decompress(data)),
    "br": (brotlied, unbrotli),
    "zstd": (zstandarded, unzstandard),
}

ASK = json.dumps(
    {"model": "m-1", "stream": True, "max_tokens": 99, "messages": [{"content": "secret"}]}
).encode()
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(ASK), ASK)
)


def head(coding: str = "", length: int | None = None) -> bytes:
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    coded = f"Content-Encoding: {coding}\r\n" if coding else ""
    return (
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
        f"{coded}{framing}\r\n\r\n"
    ).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST = b"0\r\n\r\n"


def read(stream_of: Any, answer: bytes, cuts: Sequence[int] = (), **more: Any) -> list[Message]:
    """Messages of a connection with one request and this answer."""
    redactor = Redactor("default")
    client = Source(stream_of(REQUEST, from_client=True, seen_ns=[0]))
    server = Source(stream_of(answer, cuts, **more))
    parsed = parse(client, server, FieldLines(redactor))
    answers = Answers()
    read_contents(client, server, parsed.contents, answers, Known())
    answers.place()
    return parsed.messages


def facts(stream_of: Any, answer: bytes, cuts: Sequence[int] = (), **more: Any) -> StreamFacts:
    found = read(stream_of, answer, cuts, **more)[1].stream
    assert found is not None
    return found


KINDS = [*["role"], *["content"] * 3, "other", *["content"] * 3, "usage", "end"]


@pytest.mark.parametrize("coding", CODINGS)
def test_what_events_say(coding: str, stream_of: Any) -> None:
    body = b"".join(map(chunk, CODINGS[coding][0](EVENTS)[: len(EVENTS)])) + LAST
    messages = read(stream_of, head(coding) + body)
    told = messages[1].stream
    assert told
    assert [event.kind for event in told.events] == KINDS
    assert [event.generated_chars for event in told.events] == [0, *map(len, WORDS), 0, 0]
    assert told.events[1].size_bytes == len(EVENTS[1]) - len(b"data: \n\n")
    assert (told.ended, told.marker_known, told.finish) == (True, True, "stop")
    assert (told.output_tokens, told.undecoded, told.error_code) == (7, False, None)
    assert (messages[0].model, messages[0].max_tokens) == ("m-1", 99)


@given(st.sampled_from(sorted(CODINGS)), st.lists(st.integers(0, 4000), max_size=15), st.booleans())
def test_an_event_is_there_with_the_packet_that_completes_it(
    stream_of: Any, coding: str, cuts: list[int], chunked: bool
) -> None:
    code, undo = CODINGS[coding]
    parts = code(EVENTS)
    if chunked:
        answer = head(coding) + b"".join(chunk(part) for part in parts if part) + LAST
    else:
        answer = head(coding, len(b"".join(parts))) + b"".join(parts)
    cuts = sorted({cut for cut in cuts if 0 < cut < len(answer)})
    begins = [0, *cuts]
    ends = [*cuts, len(answer)]

    def content(prefix: bytes) -> bytes:
        """The content in the first bytes of the answer, without chunked coding."""
        body = prefix[len(head(coding)) if chunked else len(head(coding, len(b"".join(parts)))) :]
        if not chunked:
            return body
        found = b""
        while b"\r\n" in body:
            size, _, body = body.partition(b"\r\n")
            found += body[: int(size, 16)]
            body = body[int(size, 16) + 2 :]
        return found

    expected = []
    for number, end in enumerate(ends):
        count = undo(content(answer[:end])).count(b"\n\n")
        # The comment is no event.
        count -= count > 8
        expected += [number + 1] * (count - len(expected))
    told = facts(stream_of, answer, cuts)
    assert [event.packet_no for event in told.events] == expected
    assert [event.usable_ns for event in told.events] == [number * MS for number in expected]
    assert len(begins) == len(ends)


def test_the_three_times_of_an_event(stream_of: Any) -> None:
    """Its last byte is seen before a hole in front of it is filled."""
    answer = head() + b"".join(map(chunk, EVENTS[:3])) + LAST
    first = answer.index(b"data")
    second = answer.index(b"data", first + 1)
    third = answer.index(b"data", second + 1)
    times = [1 * MS, 2 * MS, 60 * MS, 4 * MS]
    told = facts(stream_of, answer, [first, second, third], seen_ns=times)
    assert [event.seen_ns // MS for event in told.events] == [2, 60, 4]
    assert [event.in_order_ns // MS for event in told.events] == [2, 60, 60]


def test_answers_of_several_streams_are_placed_together(stream_of: Any) -> None:
    answers = Answers()
    client = Source(stream_of(REQUEST, from_client=True, seen_ns=[0]))
    told = []
    for cut in (0, 1):
        # In the first stream the last packet begins early and holds nearly all events.
        answer = head() + b"".join(map(chunk, EVENTS)) + LAST
        server = Source(stream_of(answer, [len(head()) + 10 + cut * 500]))
        parsed = parse(client, server, FieldLines(Redactor("default")))
        read_contents(client, server, parsed.contents, answers, Known())
        told.append(parsed.messages[1].stream)
    answers.place()
    assert [[event.packet_no for event in one.events] for one in told] == [
        [2] * 10,
        [1] * 5 + [2] * 5,
    ]


def test_where_an_event_lies(stream_of: Any) -> None:
    answer = head() + chunk(EVENTS[1] + EVENTS[2][:9]) + chunk(EVENTS[2][9:]) + LAST
    told = facts(stream_of, answer)
    spans = [answer[event.offset : event.end_offset] for event in told.events]
    assert spans[0] == EVENTS[1]
    assert spans[1].startswith(EVENTS[2][:9])
    assert spans[1].endswith(EVENTS[2][9:])


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("fin", [True, False])
def test_an_answer_that_is_cut_off(coding: str, fin: bool, stream_of: Any) -> None:
    """Whether the server closed or the capture ended: the events so far count."""
    parts = CODINGS[coding][0](EVENTS)
    answer = head(coding) + b"".join(map(chunk, parts[:5]))
    for cut in (len(answer), len(answer) - 2):
        told = facts(stream_of, answer[:cut], fin=fin)
        assert [event.kind for event in told.events] == KINDS[:5]
        assert not told.ended
        assert told.marker_known
        assert not told.undecoded


def test_an_event_without_its_blank_line_is_none(stream_of: Any) -> None:
    told = facts(stream_of, head() + chunk(EVENTS[1]) + chunk(EVENTS[2][:-1]) + LAST)
    assert len(told.events) == 1


def test_events_behind_a_gap(stream_of: Any) -> None:
    """What a gap cuts up is left out, the rest is read; nothing is joined across it."""
    parts = [chunk(event) for event in EVENTS]
    answer = head() + b"".join(parts) + LAST
    begin = answer.index(parts[2]) + 40
    end = answer.index(parts[4]) + 30
    told = facts(stream_of, answer, [begin, end], gone=[1])
    assert [event.kind for event in told.events] == [*KINDS[:2], *KINDS[5:]]
    assert told.ended


def test_nothing_is_decoded_behind_a_gap(stream_of: Any) -> None:
    coded = CODINGS["gzip"][0](EVENTS)
    parts = [chunk(part) for part in coded if part]
    answer = head("gzip") + b"".join(parts) + LAST
    begin = answer.index(parts[3]) + 6
    told = facts(stream_of, answer, [begin, begin + 20], gone=[1])
    assert len(told.events) == 3
    assert not told.ended


def test_a_gap_that_hides_a_chunk_size(stream_of: Any) -> None:
    parts = [chunk(event) for event in EVENTS]
    answer = head() + b"".join(parts) + LAST
    begin = answer.index(parts[3])
    told = facts(stream_of, answer, [begin, begin + 5], gone=[1])
    assert [event.kind for event in told.events][:3] == KINDS[:3]
    assert told.ended


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b"not gzip at all"),
        ("br", b"\xff\xff\xff\xff"),
        ("zstd", b"\x00\x01\x02\x03\x04"),
        ("compress", b"data: x\n\n"),
        ("gzip, gzip, gzip, gzip", b"x"),
    ],
)
def test_codings_that_cannot_be_undone(coding: str, body: bytes, stream_of: Any) -> None:
    told = facts(stream_of, head(coding) + chunk(body) + LAST)
    assert told.undecoded
    assert told.events == []


def test_two_codings(stream_of: Any) -> None:
    once = b"".join(CODINGS["br"][0](EVENTS))
    twice = b"".join(CODINGS["gzip"][0]([once]))
    told = facts(stream_of, head("br, gzip") + chunk(twice) + LAST)
    assert [event.kind for event in told.events] == KINDS


def test_a_bomb_is_left_alone(stream_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capture_analyzer.protocols.codings.MAX_DECODED", 100_000)
    bomb = b"".join(CODINGS["gzip"][0]([b"data: " + b"0" * 1_000_000 + b"\n\n"]))
    told = facts(stream_of, head("gzip") + chunk(bomb) + LAST)
    assert told.undecoded
    assert told.events == []


def test_events_are_capped(stream_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capture_analyzer.pipeline.dissect.contents.MAX_EVENTS", 5)
    answer = head() + b"".join(map(chunk, [EVENTS[1]] * 20)) + LAST
    told = facts(stream_of, answer)
    assert told.undecoded
    assert len(told.events) == 5


@pytest.mark.parametrize(
    "other",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\ndata: x\n\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ndata: x\n\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_what_is_no_stream_of_events(other: bytes, stream_of: Any) -> None:
    messages = read(stream_of, other)
    assert messages[1].stream is None
    assert messages[0].model is None  # only requests for streams are looked into


def test_no_text_is_kept(stream_of: Any) -> None:
    messages = read(stream_of, head() + b"".join(map(chunk, EVENTS)) + LAST)
    kept = repr(messages)
    for text in ("Hello", "world", "größer", "secret"):
        assert text not in kept
