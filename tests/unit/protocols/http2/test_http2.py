"""Frames and messages, cut in every way, with gaps and from the middle."""

from __future__ import annotations

import dataclasses
import itertools

import hpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.protocols.http2 import (
    PREFACE,
    Direction,
    Frame,
    Http2Message,
    Lost,
    looks_like_frames,
    read_direction,
    read_frames,
)


def stream(*chunks: bytes | tuple[int, bytes], mid: bool = False) -> ByteStream:
    """A stream of chunks end to end; (offset, bytes) leaves a gap before it."""
    placed: list[tuple[int, bytes]] = []
    at = 0
    for chunk in chunks:
        at, data = chunk if isinstance(chunk, tuple) else (at, chunk)
        placed.append((at, data))
        at += len(data)
    count = len(placed)
    times = np.arange(count, dtype=np.int64)
    return ByteStream(
        connection_no=0,
        from_client=True,
        starts=np.array([a for a, _ in placed], np.int64),
        lengths=np.array([len(d) for _, d in placed], np.int64),
        packet_nos=np.arange(1, count + 1, dtype=np.int32),
        seen_ns=times,
        in_order_ns=times,
        usable_ns=times,
        buffer_nos=np.arange(count, dtype=np.uint16),
        buffer_offsets=np.zeros(count, np.int64),
        buffers=[d for _, d in placed],
        end=at,
        begins_mid_stream=mid,
    )


def frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream_id.to_bytes(4, "big")
    return head + payload


def headers(encoder: hpack.Encoder, stream_id: int, flags: int, **fields: str) -> bytes:
    named = [
        (":" + k if k in ("status", "method", "path") else k.replace("_", "-"), v)
        for k, v in fields.items()
    ]
    return frame(1, flags | 4, stream_id, encoder.encode(named))


def messages(direction: Direction) -> list[Http2Message]:
    return direction.messages


def test_interim_final_content_trailers() -> None:
    encoder = hpack.Encoder()
    response = (
        headers(encoder, 1, 0, status="103", link="x")
        + headers(encoder, 1, 0, status="200", content_type="text/plain")
        + frame(0, 0, 1, b"hello")
        + frame(0, 8, 1, b"\x03world" + bytes(3))
        + headers(encoder, 1, 1, grpc_status="0")
    )
    direction = read_direction(stream(response), keep=lambda message: True)
    (message,) = messages(direction)
    assert (message.content_octets, message.ended, message.data_frames) == (10, True, 2)
    assert [interim.fields for interim in message.interim] == [
        [(b":status", b"103"), (b"link", b"x")]
    ]
    assert message.interim[0].end == message.offset
    assert message.fields[0] == (b":status", b"200")
    assert message.trailers == [(b"grpc-status", b"0")]
    assert message.end == len(response)
    assert message.pieces is not None
    assert [response[at : at + size] for at, size in message.pieces] == [b"hello", b"world"]
    assert direction.problems == []


def test_trailers_only_response_is_a_header_section() -> None:
    encoder = hpack.Encoder()
    data = headers(encoder, 1, 1, status="200", grpc_status="5")
    (message,) = messages(read_direction(stream(data)))
    assert (b"grpc-status", b"5") in message.fields
    assert message.ended
    assert message.trailers == []


def test_header_block_over_continuations_with_padding_and_priority() -> None:
    block = hpack.Encoder().encode([(":method", "GET"), (":path", "/x"), ("a", "b" * 50)])
    data = (
        frame(1, 1 | 8 | 32, 3, b"\x02" + bytes(5) + block[:5] + bytes(2))
        + frame(9, 0, 3, block[5:9])
        + frame(9, 4, 3, block[9:])
    )
    (message,) = messages(read_direction(stream(data)))
    assert message.fields[1] == (b":path", b"/x")
    assert message.ended
    assert message.head_end == len(data)


def test_preface_is_passed_over() -> None:
    data = PREFACE + frame(4, 0, 0, bytes.fromhex("000100001000000300000064"))
    direction = read_direction(stream(data[:10], data[10:]), start=len(PREFACE))
    assert direction.problems == []


def test_reset_and_goaway() -> None:
    encoder = hpack.Encoder()
    first = headers(encoder, 1, 0, method="GET", path="/")
    data = first + frame(3, 0, 1, b"\0\0\0\x08") + frame(7, 0, 0, b"\0\0\0\x01\0\0\0\x0b")
    direction = read_direction(stream(data))
    (message,) = messages(direction)
    assert (message.reset_code, message.reset_offset) == (8, len(first))
    assert direction.resets[0][:2] == (1, 8)
    assert direction.goaways[0][:2] == (1, 11)


def test_a_gap_inside_data_costs_only_its_bytes() -> None:
    encoder = hpack.Encoder()
    head = headers(encoder, 1, 0, status="200")
    data = head + frame(0, 1, 1, bytes(100)) + headers(encoder, 3, 1, status="204")
    cut = len(head) + 30
    direction = read_direction(stream(data[:cut], (cut + 40, data[cut + 40 :])))
    assert [(m.stream_id, m.missing_octets, m.ended) for m in messages(direction)] == [
        (1, 40, True),
        (3, 0, True),
    ]
    assert direction.problems == []


def test_a_gap_over_a_header_block_makes_old_table_entries_unknown() -> None:
    encoder = hpack.Encoder()
    first = headers(encoder, 1, 1, status="200", server="a")
    lost = headers(encoder, 3, 1, status="200", etag="lost")
    third = headers(encoder, 5, 1, status="200", server="a")
    direction = read_direction(stream(first, (len(first + lost), third)))
    assert [m.stream_id for m in messages(direction)] == [1, 5]
    assert messages(direction)[1].fields == [(b":status", b"200"), (None, None)]
    assert direction.problems == [("http2-frames-lost", len(first))]


def test_joins_in_the_middle_of_a_connection() -> None:
    encoder = hpack.Encoder()
    headers(encoder, 1, 1, status="200", server="old")
    data = headers(encoder, 3, 0, status="200", server="old") + frame(0, 1, 3, b"x" * 20)
    direction = read_direction(stream(b"tail of a frame" + data, mid=True))
    (message,) = messages(direction)
    assert message.fields == [(b":status", b"200"), (None, None)]
    assert message.content_octets == 20


def test_what_is_no_frame_is_passed_over_as_malformed() -> None:
    encoder = hpack.Encoder()
    good = headers(encoder, 1, 1, status="200")
    bad = frame(4, 0, 7, bytes(6))  # SETTINGS on a stream
    direction = read_direction(stream(good + bad, headers(encoder, 3, 1, status="204")))
    assert ("http2-malformed", len(good)) in direction.problems
    assert [m.stream_id for m in messages(direction)] == [1, 3]


def test_data_cut_by_the_end_of_the_capture() -> None:
    encoder = hpack.Encoder()
    data = headers(encoder, 1, 0, status="200") + frame(0, 1, 1, bytes(100))[:50]
    (message,) = messages(read_direction(stream(data)))
    assert (message.content_octets, message.missing_octets) == (100, 59)


def test_unknown_frame_types_are_passed_over() -> None:
    data = frame(0x42, 0xFF, 9, b"grease") + headers(hpack.Encoder(), 1, 1, status="200")
    assert [type(f) for f in read_frames(stream(data))] == [Frame, Frame]


@pytest.mark.parametrize(
    "text", [b"GET / HTTP/1.1\r\n\r\n", b"", bytes(8), b"\x16\x03\x01\x00\x05hello" * 9]
)
def test_other_bytes_do_not_look_like_frames(text: bytes) -> None:
    assert looks_like_frames(text) == -1


@given(st.lists(st.integers(0, 400), max_size=12), st.booleans())
def test_frames_do_not_depend_on_the_chunks(cuts: list[int], padded: bool) -> None:
    encoder = hpack.Encoder()
    data = (
        headers(encoder, 1, 0, status="200", server="a" * 40)
        + frame(0, 8 if padded else 0, 1, b"\x05" + b"b" * 90)
        + frame(6, 0, 0, bytes(8))
        + headers(encoder, 3, 1, status="200", server="a" * 40)
        + frame(8, 0, 1, b"\0\0\0\x09")
    )
    bounds = sorted({0, len(data), *(c for c in cuts if c < len(data))})
    parts = [data[a:b] for a, b in itertools.pairwise(bounds)]
    whole = read_direction(stream(data), keep=lambda message: True)
    assert read_direction(stream(*parts), keep=lambda message: True) == whole
    assert read_direction(solid(data), keep=lambda message: True) == whole
    assert len(whole.messages) == 2


def solid(data: bytes) -> ByteStream:
    """A stream whose bytes are known to lie in one buffer, as those of opened records do."""
    return dataclasses.replace(stream(data), buffers=(data,), solid=True)


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.builds(
                frame,
                st.integers(0, 10),
                st.integers(0, 63),
                st.integers(0, 3),
                st.binary(max_size=20),
            ),
        ),
        max_size=8,
    )
)
def test_frames_in_one_buffer_are_the_same(parts: list[bytes]) -> None:
    data = b"".join(parts)
    one = read_direction(stream(data), keep=lambda message: True)
    assert read_direction(solid(data), keep=lambda message: True) == one


@given(st.lists(st.binary(max_size=200), max_size=8), st.booleans())
def test_any_bytes_are_read_to_the_end(chunks: list[bytes], mid: bool) -> None:
    total = sum(map(len, chunks))
    for item in read_frames(stream(*chunks, mid=mid)):
        assert 0 <= item.offset <= total
        if isinstance(item, Lost):
            assert item.end <= total
    read_direction(stream(*chunks, mid=mid))
