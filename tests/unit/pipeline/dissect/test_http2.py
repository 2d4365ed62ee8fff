"""HTTP/2 connections: rows of messages, events in their contents, gaps, and what is hostile."""

from __future__ import annotations

import random
from typing import Any

import hpack
import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given
from hypothesis import strategies as st

from capture_analyzer.model.messages import Message
from capture_analyzer.pipeline.dissect.answers import Answers
from capture_analyzer.pipeline.dissect.contents import read_contents
from capture_analyzer.pipeline.dissect.frames import FrameRows
from capture_analyzer.pipeline.dissect.http2 import DissectedHttp2, FieldRows, dissect_http2
from capture_analyzer.pipeline.redact import Redactor
from capture_analyzer.protocols.http1.source import Source
from capture_analyzer.protocols.llm import Known

MS = 1_000_000
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
EVENT_STREAM = ("content-type", "text/event-stream")


class Side:
    """Writes frames; `marks` remembers where each begins and ends."""

    def __init__(self, start: bytes = b"") -> None:
        self.encoder = hpack.Encoder()
        self.data = start
        self.marks: list[tuple[int, int]] = []
        self.frame(SettingsFrame(0))

    def frame(self, frame: Frame) -> Side:
        begin = len(self.data)
        self.data += frame.serialize()
        self.marks.append((begin, len(self.data)))
        return self

    def headers(
        self, stream: int, *fields: tuple[str, str], end: bool = False, parts: int = 1
    ) -> Side:
        block = self.encoder.encode(fields)
        cut = -(-len(block) // parts)
        first = HeadersFrame(stream, block[:cut])
        first.flags.add("END_STREAM") if end else None
        frames: list[Frame] = [first]
        frames += [
            ContinuationFrame(stream, block[at : at + cut]) for at in range(cut, len(block), cut)
        ]
        frames[-1].flags.add("END_HEADERS")
        for frame in frames:
            self.frame(frame)
        return self

    def content(self, stream: int, data: bytes, *, end: bool = False, padding: int = 0) -> Side:
        frame = DataFrame(stream, data, pad_length=padding)
        if padding:
            frame.flags.add("PADDED")
        if end:
            frame.flags.add("END_STREAM")
        return self.frame(frame)

    def request(self, stream: int, path: str, *fields: tuple[str, str], end: bool = True) -> Side:
        return self.headers(
            stream,
            (":method", "GET" if end else "POST"),
            (":scheme", "https"),
            (":authority", "api.example"),
            (":path", path),
            *fields,
            end=end,
        )

    def response(
        self, stream: int, status: int = 200, *fields: tuple[str, str], **more: Any
    ) -> Side:
        return self.headers(stream, (":status", str(status)), *fields, **more)


def dissected(
    client: Any, server: Any, *, redact: str = "none"
) -> tuple[list[Message], list[Message], DissectedHttp2]:
    """Requests, responses and the rest."""
    redactor = Redactor(redact)
    found = dissect_http2(Source(client), Source(server), FieldRows(redactor), FrameRows())
    answers = Answers()
    read_contents(Source(client), Source(server), found.contents, answers, Known())
    answers.place()
    return (
        [row for row in found.messages if row.from_client],
        [row for row in found.messages if not row.from_client],
        found,
    )


def both(stream_of: Any, client: Side, server: Side, **more: Any) -> tuple[Any, Any, Any]:
    return dissected(
        stream_of(client.data, from_client=True, seen_ns=[0]), stream_of(server.data, **more)
    )


def test_streams_at_the_same_time(stream_of: Any) -> None:
    client, server = Side(PREFACE), Side()
    for stream in (1, 3, 5):
        client.request(stream, f"/{stream}", ("x-a", "b"))
    for stream in (5, 1, 3):
        server.response(stream, 200 + stream, ("content-length", "6"))
    for stream in (3, 5, 1):
        server.content(stream, b"abc")
    for stream in (1, 3, 5):
        server.content(stream, b"def", end=True)
    cuts = [begin for begin, _ in server.marks[1:]]
    requests, responses, found = both(stream_of, client, server, cuts=cuts)
    assert [(m.stream_id, m.method, m.target, m.authority) for m in requests] == [
        (1, "GET", "/1", "api.example"),
        (3, "GET", "/3", "api.example"),
        (5, "GET", "/5", "api.example"),
    ]
    assert found.server_name == "api.example"
    assert found.anomalies == []
    by_stream = {m.stream_id: m for m in responses}
    for stream, first, last in ((1, 3, 8), (3, 4, 9), (5, 2, 10)):
        row = by_stream[stream]
        assert row.status == 200 + stream
        assert (row.content_bytes, row.complete) == (6, True)
        assert (row.first_packet_no, row.last_packet_no) == (first, last)
        assert (row.start_ns, row.head_ns, row.end_ns) == (first * MS, first * MS, last * MS)
        own = [
            end - begin
            for (begin, end), of in zip(server.marks[1:], (5, 1, 3, 3, 5, 1, 1, 3, 5), strict=True)
            if of == stream
        ]
        assert row.length == sum(own)  # without the frames of others in between
    assert [(f.name, f.value, f.trailer) for f in by_stream[1].fields] == [
        ("content-length", "6", False)
    ]


def test_interim_response_and_trailers(stream_of: Any) -> None:
    client, server = Side(PREFACE).request(1, "/"), Side()
    server.response(1, 103, ("link", "</a>"))
    server.response(1, 200, ("server", "x"))
    server.content(1, b"text", padding=9)
    server.headers(1, ("checksum", "1"), end=True)
    cuts = [begin for begin, _ in server.marks[1:]]
    _, (row,), _ = both(stream_of, client, server, cuts=cuts)
    assert (row.status, row.content_bytes, row.complete) == (200, 4, True)
    assert (row.start_ns, row.end_ns) == (3 * MS, 5 * MS)
    assert [(f.name, f.trailer) for f in row.fields] == [("server", False), ("checksum", True)]
    (interim,) = row.interim
    assert (interim.status, interim.start_ns, interim.end_ns) == (103, 2 * MS, 2 * MS)
    assert [f.name for f in interim.fields] == ["link"]
    assert interim.length == server.marks[1][1] - server.marks[1][0]


def test_a_header_section_in_many_frames(stream_of: Any) -> None:
    client = Side(PREFACE).headers(
        1, (":method", "GET"), (":path", "/"), ("x-long", "v" * 900), end=True, parts=7
    )
    cuts = [begin for begin, _ in client.marks[1:]]
    requests, _, _ = dissected(
        stream_of(client.data, cuts, from_client=True), stream_of(Side().data)
    )
    (row,) = requests
    assert (row.method, row.complete) == ("GET", True)
    assert row.seen_ns == 2 * MS  # the first frame
    assert row.head_ns == 8 * MS  # the last one
    assert row.fields[0].value == "v" * 900


def test_resets(stream_of: Any) -> None:
    client, server = Side(PREFACE), Side()
    client.request(1, "/cancelled").request(3, "/broken").request(5, "/refused")
    client.frame(RstStreamFrame(1, 8))
    server.response(3).content(3, b"half")
    server.frame(RstStreamFrame(3, 2)).frame(RstStreamFrame(5, 7))
    server.frame(GoAwayFrame(0, last_stream_id=3, error_code=0))
    client_cuts = [begin for begin, _ in client.marks[1:]]
    server_cuts = [begin for begin, _ in server.marks[1:]]
    requests, responses, found = dissected(
        stream_of(client.data, client_cuts, from_client=True), stream_of(server.data, server_cuts)
    )
    assert [(m.stream_id, m.reset_code) for m in requests] == [(1, 8), (3, None), (5, None)]
    assert requests[0].reset_ns == len(client.marks) * MS
    broken = next(m for m in responses if m.stream_id == 3)
    assert (broken.reset_code, broken.complete, broken.end_ns) == (2, False, None)
    assert broken.reset_ns == 4 * MS
    assert found.anomalies == []


EVENTS = [b'data: {"choices":[{"delta":{"content":"w%d"}}]}\n\n' % n for n in range(6)]


def streamed(*, pieces: list[bytes], fields: tuple[tuple[str, str], ...] = ()) -> Side:
    """An event stream on stream 1, a DATA frame for each piece, others in between."""
    server = Side().response(1, 200, EVENT_STREAM, *fields).response(3)
    for piece in pieces:
        server.content(1, piece, padding=5).content(3, b"noise\n\ndata: no\n\n")
    return server.content(1, b"data: [DONE]\n\n", end=True)


def test_events_in_data_frames(stream_of: Any) -> None:
    client = Side(PREFACE)
    client.request(1, "/v1/chat", end=True).request(3, "/other")
    # An event in two frames, two in one.
    pieces = [EVENTS[0], EVENTS[1][:20], EVENTS[1][20:], EVENTS[2] + EVENTS[3]]
    server = streamed(pieces=pieces)
    cuts = [begin for begin, _ in server.marks[1:]]
    _, responses, _ = both(stream_of, client, server, cuts=cuts)
    facts = next(m for m in responses if m.stream_id == 1).stream
    assert facts
    frames = [n for n, (begin, _) in enumerate(server.marks) if server.data[begin + 3] == 0]
    packets = [n + 1 for n in frames[::2]]  # of stream 1
    assert [event.packet_no for event in facts.events] == [
        packets[0],
        packets[2],
        packets[3],
        packets[3],
        packets[4],
    ]
    assert [event.kind for event in facts.events] == [*["content"] * 4, "end"]
    assert facts.ended
    assert next(m for m in responses if m.stream_id == 3).stream is None


@pytest.mark.parametrize("whole_frame", [True, False])
def test_events_behind_a_gap(whole_frame: bool, stream_of: Any) -> None:
    """Whether a whole frame is lost or a part of one, nothing is joined across the gap."""
    client = Side(PREFACE).request(1, "/v1/chat").request(3, "/other")
    server = streamed(pieces=EVENTS)
    number = [n for n, (begin, _) in enumerate(server.marks) if server.data[begin + 3] == 0][4]
    begin, end = server.marks[number]
    if not whole_frame:
        begin += 25
        end -= 10
    _, responses, found = both(stream_of, client, server, cuts=[begin, end], gone=[1])
    facts = next(m for m in responses if m.stream_id == 1).stream
    assert facts
    texts = [event.generated_chars for event in facts.events]
    assert texts[:2] == [2, 2]
    assert 4 <= len(facts.events) <= 6
    assert facts.ended
    if whole_frame:
        assert [a.code for a in found.anomalies] == ["http2-frames-lost"]


def test_a_connection_seen_from_its_middle(stream_of: Any) -> None:
    client, server = Side(PREFACE).request(1, "/first", ("x-key", "k")), Side()
    begin = len(client.data)
    client.request(3, "/second", ("x-key", "k"))
    cut = client.data[begin:]
    stream = stream_of(cut, from_client=True)
    stream.begins_mid_stream = True
    requests, _, _ = dissected(stream, stream_of(server.response(3, end=True).data))
    (row,) = requests
    assert row.stream_id == 3
    # The path is literal; the fields that are in the table from before are not known.
    assert row.target == "/second"
    assert {f.certainty for f in row.fields} <= {"certain", "unknown"}
    assert any(f.certainty == "unknown" for f in row.fields)
    assert all(f.value == "…" for f in row.fields if f.certainty == "unknown")


def test_redaction(stream_of: Any) -> None:
    client = Side(PREFACE).request(1, "/think?key=abcdef", ("authorization", "Bearer abc"))
    requests, _, found = dissected(
        stream_of(client.data, from_client=True), stream_of(Side().data), redact="default"
    )
    assert requests[0].target == "/think?key=…6"
    assert requests[0].fields[0].value == "…10"
    assert "Bearer" not in repr(found.messages)


def test_what_is_on_the_connection_makes_no_message(stream_of: Any) -> None:
    server = Side().frame(PingFrame(0, b"12345678")).frame(WindowUpdateFrame(0, 9))
    server.frame(WindowUpdateFrame(5, 9))
    _, responses, found = both(stream_of, Side(PREFACE), server)
    assert responses == []
    assert found.anomalies == []


def test_hpack_that_breaks_the_rules(stream_of: Any) -> None:
    server = Side()
    bad = HeadersFrame(1, b"\xff\xff\xff\xff\xff\xff\xff\xff")
    bad.flags.add("END_HEADERS")
    server.frame(bad)
    server.response(3, 204, end=True)
    _, responses, found = both(stream_of, Side(PREFACE), server)
    assert [a.code for a in found.anomalies] == ["hpack-malformed"]
    assert found.anomalies[0].origin == "peer"
    assert [m.stream_id for m in responses][-1] == 3


def sample() -> tuple[bytes, bytes]:
    client, server = Side(PREFACE), Side()
    for stream in range(1, 20, 2):
        client.request(stream, f"/{stream}?a=b", ("x-a", "b" * stream), end=bool(stream % 4 == 1))
        if stream % 4 == 3:
            client.content(stream, b'{"model":"m","stream":true}', end=True)
    server = streamed(pieces=EVENTS)
    for stream in range(5, 20, 2):
        server.response(stream, 200, ("x-b", "c" * stream)).content(stream, b"d" * 90, end=True)
    server.frame(RstStreamFrame(3, 5)).frame(GoAwayFrame(0, last_stream_id=9))
    return client.data, server.data


CLIENT, SERVER = sample()


@given(st.integers(0, 1 << 32), st.integers(1, 40))
def test_damage_ends_in_rows_and_anomalies(stream_of: Any, seed: int, damage: int) -> None:
    """Bytes changed, cut out and put in at random: no exception, times and offsets in order."""
    chance = random.Random(seed)
    streams = []
    for data, from_client in ((CLIENT, True), (SERVER, False)):
        bytes_ = bytearray(data)
        for _ in range(damage):
            at = chance.randrange(len(bytes_))
            kind = chance.randrange(3)
            if kind == 0:
                bytes_[at] = chance.randrange(256)
            elif kind == 1:
                del bytes_[at : at + chance.randrange(1, 30)]
            else:
                bytes_[at:at] = chance.randbytes(chance.randrange(1, 30))
        cuts = sorted(chance.sample(range(1, len(bytes_)), min(9, len(bytes_) - 1)))
        gone = [n for n in range(10) if chance.random() < 0.2]
        streams.append(stream_of(bytes(bytes_), cuts, gone=gone, from_client=from_client))
    requests, responses, _ = dissected(*streams)
    for row in (*requests, *responses):
        assert row.offset >= 0
        assert row.length >= 0
        assert row.content_bytes >= 0
        assert row.seen_ns <= row.last_ns
        if row.end_ns is not None:
            assert row.start_ns <= row.end_ns


@given(st.binary(max_size=3000), st.binary(max_size=3000))
def test_noise(stream_of: Any, client: bytes, server: bytes) -> None:
    dissected(stream_of(client, from_client=True), stream_of(server))


def test_header_blocks_cannot_fill_memory(stream_of: Any) -> None:
    """CONTINUATION frames without end (RFC 9113, section 10.5.1)."""
    server = Side()
    opening = HeadersFrame(1, b"\x00")
    more = ContinuationFrame(1, b"\x40\x01a\x7f\x80\x7f" + b"v" * 16_000)
    flood = server.data + opening.serialize() + more.serialize() * 200
    _, responses, found = both(stream_of, Side(PREFACE), _raw(flood))
    assert "http2-block-too-large" in [a.code for a in found.anomalies]
    assert sum(len(repr(m)) for m in responses) < 100_000


def _raw(data: bytes) -> Side:
    side = Side()
    side.data = data
    return side
