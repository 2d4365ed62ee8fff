"""Server-sent events by the rules of the WHATWG HTML standard."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_analyzer.protocols import sse
from capture_analyzer.protocols.sse import ServerSentEvent, SseParser, read_events, split_events


def events(*pieces: bytes) -> list[tuple[str, bytes]]:
    parser = SseParser()
    return [(e.type, e.data) for piece in pieces for e in parser.feed(piece)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end(end: bytes) -> None:
    assert events(b"data: a" + end + end + b"data: b" + end + end) == [
        ("message", b"a"),
        ("message", b"b"),
    ]


def test_data_lines_are_joined_and_one_space_is_stripped() -> None:
    assert events(b"data:  a\ndata:b\ndata\nevent: x\n\n") == [("x", b" a\nb\n")]


def test_comments_ids_and_retry_make_no_event() -> None:
    parser = SseParser()
    assert parser.feed(b": keep-alive\n\nid: 1\n\nretry: 250\n\nretry: x\n\n") == []
    assert parser.comments == 1
    assert parser.retry_ms == 250


def test_an_event_without_data_is_not_dispatched_and_its_type_is_forgotten() -> None:
    assert events(b"event: a\n\ndata: 1\n\n") == [("message", b"1")]
    assert events(b"data:\n\n") == []


def test_a_leading_byte_order_mark_is_no_content() -> None:
    assert events(b"\xef\xbb\xbfdata: 1\n\n") == [("message", b"1")]
    assert events(b"data: 1\n\n\xef\xbb\xbfdata: 2\n\n") == [("message", b"1")]


def test_an_event_cut_off_before_its_blank_line_is_discarded() -> None:
    assert events(b"data: 1\n") == []


def test_start_and_end_are_content_offsets() -> None:
    parser = SseParser()
    assert parser.feed(b": c\n\ndata: ") == []
    assert parser.feed(b"1\n\nda") == [ServerSentEvent("message", b"1", 5, 14, False)]
    assert parser.feed(b"ta: 2\r\n\r\n") == [ServerSentEvent("message", b"2", 14, 25, False)]


def test_a_carriage_return_at_the_end_of_a_piece_already_ends_the_line() -> None:
    parser = SseParser()
    assert [e.data for e in parser.feed(b"data: 1\r\r")] == [b"1"]
    assert parser.feed(b"\n") == []  # belongs to the CR: no second blank line
    assert [e.data for e in parser.feed(b"data: 2\r\n\r\n")] == [b"2"]


def test_what_a_gap_cut_up_is_no_event() -> None:
    parser = SseParser()
    assert parser.feed(b"data: 1\n\ndata: 2\n")[0].data == b"1"
    parser.lose()
    assert [e.data for e in parser.feed(b"data: end of 3\n\ndata: 4\n\n")] == [b"4"]


def test_an_event_that_begins_behind_a_gap_is_whole() -> None:
    parser = SseParser()
    parser.feed(b"data: 1\n")
    parser.lose(begins=True)
    assert [e.data for e in parser.feed(b"data: 3\n\ndata: 4\n\n")] == [b"3", b"4"]


def test_an_endless_event_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_OCTETS", 10)
    parser = SseParser()
    (event,) = parser.feed(b"data: 12345678\ndata: 12345678\n\n")
    assert event.cut
    assert len(event.data) <= 11


@given(
    st.lists(
        st.sampled_from([b"data: x", b"data:", b"event: e", b": c", b"id: 1", b"", b"y"]),
        max_size=30,
    ),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(0, 200), max_size=10),
)
def test_the_events_do_not_depend_on_the_pieces(
    lines: list[bytes], end: bytes, cuts: list[int]
) -> None:
    stream = b"".join(line + end for line in lines)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    parser = SseParser()
    pieces = [stream[a:b] for a, b in itertools.pairwise(bounds)]
    whole = SseParser().feed(stream)
    assert [(e.type, e.data, e.start) for piece in pieces for e in parser.feed(piece)] == [
        (e.type, e.data, e.start) for e in whole
    ]


PARTS = [b"\n", b"\n\n", b"data:", b"data: ", b"event: x", b":c", b"ab", b"\xef\xbb\xbf", b"x" * 20]


@given(
    st.lists(st.sampled_from([*PARTS, b"\r\n", b"id: 1"]), max_size=14),
    st.sampled_from([(True, True), (False, True), (False, False)]),
)
def test_all_events_at_once(parts: list[bytes], kind: tuple[bool, bool]) -> None:
    run = b"".join(parts)
    at_start, begins = kind
    parser = SseParser()
    if not at_start:
        parser.lose(begins=begins)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sse, "MAX_EVENT_OCTETS", 30)
        assert read_events(run, at_start=at_start, begins=begins) == parser.feed(run)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_events_that_are_alike(end: bytes) -> None:
    texts = [b"Hello", b" you", b"", b"a" * 5000, b'x", "y": "', b"later"]
    framed = [b'event: e%sdata: {"t": "%s"}%s' % (end, text, 2 * end) for text in texts]
    run = b"data: first%s" % (2 * end) + b"".join(framed)
    events = split_events(run, at_start=True)
    assert events is not None
    assert events.read() is not None
    one = events.read()
    assert one is not None
    around = events.frame(one.data)
    assert around == (b"event: e%sdata: " % end, b"")
    before, behind = around[0] + b'{"t": "', b'"}' + around[1]
    found = events.alike(before, behind)
    assert found == texts[1:4]
    bounds = events.skip(list(map(len, found)), len(before) + len(behind))
    starts = [one.start + sum(map(len, framed[:number])) for number in range(5)]
    assert bounds == starts[1:5]
    assert events.alike(before, behind) == []
    other = events.read()
    assert other is not None
    assert other.start == starts[4]
    assert events.alike(before, behind) == [b"later"]
    events.skip([5], len(before) + len(behind))
    assert events.alike(before, behind) == []
    assert events.read() is None


@pytest.mark.parametrize(
    ("lines", "around"),
    [
        (b"data: x", (b"data: ", b"")),
        (b"data:x\nid: 1", (b"data:", b"\nid: 1")),
        (b"id: 1\ndata: x", (b"id: 1\ndata: ", b"")),
        (b"data: x\ndata: y", None),
        (b"data\ndata: x", None),
    ],
)
def test_what_stands_around_data(lines: bytes, around: tuple[bytes, bytes] | None) -> None:
    events = split_events(lines + b"\n\n", at_start=False)
    assert events is not None
    event = events.read()
    assert event is not None
    assert events.frame(event.data) == around
