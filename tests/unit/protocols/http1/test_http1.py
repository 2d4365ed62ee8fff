"""The passive parser of HTTP/1.x."""

from __future__ import annotations

import gzip
import random

import pytest

from capture_analyzer.protocols.http1 import direction
from capture_analyzer.protocols.http1.connection import parse
from capture_analyzer.protocols.http1.head import FieldLines
from capture_analyzer.protocols.http1.source import Source


class Everything:
    """Lets all text through."""

    def field(self, name: str, value: str) -> tuple[str, int]:
        return value, 0

    def keep_back(self, times: int) -> None:
        assert times == 0

    def target(self, text: str) -> str:
        return text

    def authority(self, text: str) -> str:
        return text


@pytest.fixture
def read(make_stream):
    """Parses two lists of pieces; bytes alone are one piece in one packet."""

    def run(client, server, **options):
        if isinstance(client, bytes):
            client = [(10, 1, client)] if client else []
        if isinstance(server, bytes):
            server = [(20, 2, server)] if server else []
        both = {}
        for side, pieces in (("client", client), ("server", server)):
            mine = {k.partition("_")[2]: v for k, v in options.items() if k.startswith(side)}
            both[side] = make_stream(pieces, from_client=side == "client", **mine)
        return parse(Source(both["client"]), Source(both["server"]), FieldLines(Everything()))

    return run


def split(parsed):
    requests = [m for m in parsed.messages if m.from_client]
    return requests, [m for m in parsed.messages if not m.from_client]


GET = b"GET /a?b=1 HTTP/1.1\r\nHost: api.example:8080\r\nAccept: */*\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello"


def test_request_and_response(read):
    parsed = read(GET, OK)
    (request,), (response,) = split(parsed)
    assert (request.method, request.target, request.authority) == (
        "GET",
        "/a?b=1",
        "api.example:8080",
    )
    assert parsed.server_name == "api.example"
    assert (request.offset, request.length, request.content_bytes) == (0, len(GET), 0)
    assert [(f.name, f.value) for f in request.fields] == [
        ("host", "api.example:8080"),
        ("accept", "*/*"),
    ]
    assert (response.status, response.content_bytes, response.length) == (200, 5, len(OK))
    assert response.protocol == "http/1.1"
    assert request.complete
    assert response.complete
    assert request.pair_no == response.pair_no == 0
    assert response.decoded_bytes is None
    assert parsed.problems == []


def test_times_and_packets(read):
    parsed = read(
        [(10, 1, GET[:30]), (15, 2, GET[30:])],
        [(40, 5, OK[:20]), (50, 7, OK[20:-3]), (90, 9, OK[-3:])],
    )
    (request,), (response,) = split(parsed)
    assert (request.seen_ns, request.head_ns, request.end_ns, request.last_ns) == (10, 15, 15, 15)
    assert (request.first_packet_no, request.head_packet_no, request.last_packet_no) == (1, 2, 2)
    assert (response.seen_ns, response.start_ns, response.head_ns) == (40, 40, 50)
    assert (response.end_ns, response.last_ns) == (90, 90)
    assert (response.first_packet_no, response.head_packet_no, response.last_packet_no) == (5, 7, 9)


def test_keep_alive_and_pipelining(read):
    second = GET.replace(b"/a", b"/second")
    parsed = read(GET + second + GET, OK + OK.replace(b"200", b"404") + OK)
    requests, responses = split(parsed)
    assert [r.target for r in requests] == ["/a?b=1", "/second?b=1", "/a?b=1"]
    assert [r.status for r in responses] == [200, 404, 200]
    assert [r.offset for r in responses] == [0, len(OK), 2 * len(OK)]
    assert [m.pair_no for m in requests] == [m.pair_no for m in responses] == [0, 1, 2]


@pytest.mark.parametrize(
    ("method", "status"), [(b"HEAD", b"200"), (b"GET", b"204"), (b"GET", b"304")]
)
def test_responses_without_content(read, method, status):
    server = OK[:-5].replace(b"200", status) + OK
    requests, responses = split(read(GET.replace(b"GET", method) + GET, server))
    assert [r.content_bytes for r in responses] == [0, 5]
    assert all(r.complete for r in responses)
    assert [r.pair_no for r in responses] == [r.pair_no for r in requests] == [0, 1]


def test_interim_responses_belong_to_the_final_one(read):
    post = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    (request,), (response,) = split(read(post, [(20, 2, early), (60, 4, OK)]))
    assert [m.status for m in response.interim] == [100, 103]
    assert response.status == 200
    assert response.start_ns == 60
    assert response.interim[0].start_ns == 20
    assert request.content_bytes == 3
    assert request.interim == []


def test_interim_without_final_stays_with_the_request(read):
    (request,), responses = split(read(GET, b"HTTP/1.1 100 Continue\r\n\r\n"))
    assert responses == []
    assert [m.status for m in request.interim] == [100]
    assert request.pair_no is None


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"
    b"5;ext=1\r\nhello\r\n6 \r\n world\r\n0\r\nX-T: 1\r\nX-U: 2\r\n\r\n"
)


def test_chunked_with_extensions_and_trailers(read):
    _, (response, after) = split(read(GET + GET, CHUNKED + OK))
    assert response.content_bytes == 11
    assert response.complete
    assert response.length == len(CHUNKED)
    trailers = [(f.name, f.value) for f in response.fields if f.trailer]
    assert trailers == [("x-t", "1"), ("x-u", "2")]
    assert after.status == 200


@pytest.mark.parametrize("size", range(1, 20))
def test_any_packet_boundaries(read, size):
    client = GET + GET
    server = b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + OK

    def pieces(data, first):
        return [(first + i, first + i, data[i : i + size]) for i in range(0, len(data), size)]

    whole, cut = read(client, server), read(pieces(client, 1), pieces(server, 1000))
    for one, other in zip(whole.messages, cut.messages, strict=True):
        for name in (
            "offset",
            "length",
            "status",
            "target",
            "content_bytes",
            "pair_no",
            "complete",
        ):
            assert getattr(one, name) == getattr(other, name)
        assert one.fields == other.fields
    assert cut.problems == []


def test_chunk_without_size_loses_the_message_but_not_the_next(read):
    broken = CHUNKED.replace(b"6 \r\n", b"zz\r\n")
    parsed = read(GET + GET, broken + OK)
    _, (response, after) = split(parsed)
    assert not response.complete
    assert (response.content_bytes, after.status, after.pair_no) == (5, 200, 1)
    assert {p.code for p in parsed.problems} == {"http-malformed"}


def test_close_ends_content(read):
    server = b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + b"x" * 100
    _, (response,) = split(read(GET, server, server_fin_ns=30))
    assert (response.protocol, response.content_bytes, response.complete) == ("http/1.0", 100, True)
    assert response.end_ns == 20
    _, (response,) = split(read(GET, server))
    assert not response.complete
    assert response.end_ns is None


@pytest.mark.parametrize(
    ("fields", "length", "clause"),
    [
        (b"Content-Length: 5\r\nContent-Length: 5\r\n", 5, None),
        (b"Content-Length: 5, 5\r\n", 5, None),
        (b"Content-Length: 5\r\nContent-Length: 6\r\n", 105, "several values"),
        (b"Content-Length: -5\r\n", 105, "no number"),
        (b"Content-Length: 0x5\r\n", 105, "no number"),
        (b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n", None, "both"),
    ],
)
def test_conflicting_lengths_of_a_response(read, fields, length, clause):
    server = b"HTTP/1.1 200 OK\r\n" + fields + b"\r\nhello" + OK * 2
    parsed = read(GET, server[: 21 + len(fields) + 103], server_fin_ns=99)
    problems = [p.clause for p in parsed.problems]
    if clause:
        assert any(clause in problem for problem in problems)
    else:
        assert not any("Content-Length" in problem for problem in problems)
        assert split(parsed)[1][0].content_bytes == length


def test_content_length_beside_chunked_is_overruled(read):
    server = CHUNKED.replace(b"Trailer: X-T", b"Content-Length: 3")
    parsed = read(GET, server)
    assert split(parsed)[1][0].content_bytes == 11
    assert [p.clause for p in parsed.problems] == ["both Transfer-Encoding and Content-Length"]


def test_request_with_two_lengths_is_not_believed(read):
    client = b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc" + GET
    parsed = read(client, OK + OK)
    requests, _ = split(parsed)
    assert [r.method for r in requests] == ["POST", "GET"]
    assert requests[0].content_bytes == 0
    assert any("several values" in p.clause for p in parsed.problems)


def test_gzip_is_measured(read):
    coded = gzip.compress(b"hello " * 1000)
    server = (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"".join(b"%x\r\n%s\r\n" % (1, coded[i : i + 1]) for i in range(len(coded)))
        + b"0\r\n\r\n"
    )
    _, (response,) = split(read(GET, server))
    assert (response.content_bytes, response.decoded_bytes) == (len(coded), 6000)


def test_content_that_is_not_coded_as_it_says(read):
    server = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain"
    parsed = read(GET, server)
    assert split(parsed)[1][0].decoded_bytes is None
    assert [p.code for p in parsed.problems] == ["http-coding"]


def test_upgrade_ends_http(read):
    client = GET.replace(b"Accept: */*", b"Connection: Upgrade\r\nUpgrade: websocket")
    server = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
    parsed = read(client + b"\x81\x05GET / HTTP/1.1\r\n\r\n", server + b"\x81\x05hello" + OK)
    (request,), (response,) = split(parsed)
    assert (response.status, response.upgrade) == (101, True)
    assert request.length == len(client)
    assert parsed.problems == []


def test_refused_upgrade_goes_on(read):
    client = GET.replace(b"Accept: */*", b"Connection: Upgrade\r\nUpgrade: h2c") + GET
    requests, responses = split(read(client, OK + OK))
    assert len(requests) == len(responses) == 2
    assert not any(m.upgrade for m in responses)


def test_connect(read):
    client = b"CONNECT api.example:443 HTTP/1.1\r\nHost: proxy\r\n\r\n"
    tunnelled = b"\x16\x03\x01\x02\x00\x01GET / HTTP/1.1\r\n\r\n"
    parsed = read(client + tunnelled, b"HTTP/1.1 200 Connected\r\n\r\n" + tunnelled)
    (request,), (response,) = split(parsed)
    assert (request.authority, request.target) == ("api.example:443", "api.example:443")
    assert response.upgrade
    refused = b"HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno"
    requests, responses = split(read(client + GET, refused + OK))
    assert [r.method for r in requests] == ["CONNECT", "GET"]
    assert [r.upgrade for r in responses] == [False, False]


def test_connect_whose_answer_is_missing_is_not_read_on(read):
    client = b"CONNECT api.example:443 HTTP/1.1\r\nHost: proxy\r\n\r\n"
    assert len(read(client + GET, b"").messages) == 1


def test_absolute_form_names_the_authority(read):
    parsed = read(b"GET http://u:p@api.example:81/x?y HTTP/1.1\r\nHost: other\r\n\r\n", OK)
    assert parsed.messages[0].authority == "u:p@api.example:81"
    assert parsed.server_name == "api.example"


def test_bare_line_feeds_are_tolerated_and_noted(read):
    parsed = read(GET.replace(b"\r\n", b"\n"), OK.replace(b"\r\n", b"\n"))
    assert len(parsed.messages) == 2
    assert parsed.messages[1].content_bytes == 5
    assert {p.clause for p in parsed.problems} == {"a line ends without CR"}


def test_folded_and_broken_field_lines(read):
    folded = b"X-Long: one\r\n  two\r\n\tthree\r\n"
    client = b"GET / HTTP/1.1\r\nHost: a\r\n" + folded + b"Bad Name: x\r\nnothing\r\n\r\n"
    parsed = read(client, OK)
    values = {f.name: f.value for f in parsed.messages[0].fields}
    assert values["x-long"] == "one two three"
    assert "nothing" not in values
    assert {p.clause for p in parsed.problems} == {"a field value is folded", "a line is no field"}


def test_field_values_can_do_nothing(read):
    server = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: \x1b[2J<script>\xe2\x82\xac\xff\r\n\r\n"
    (field,) = [f for f in read(GET, server).messages[1].fields if f.name == "x"]
    assert field.value.startswith("\\x1b[2J<script>")
    assert field.value.isprintable()


def test_empty_lines_in_front_of_a_request(read):
    parsed = read(b"\r\n\n" + GET + b"\r\n" + GET, OK + OK)
    assert [m.target for m in parsed.messages if m.from_client] == ["/a?b=1"] * 2
    assert parsed.problems == []


def test_gap_in_content_of_known_length_costs_nothing(read):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n"
    parsed = read(GET + GET, [(20, 2, head + b"x" * 1000), (0, 0, 1500), (40, 4, b"x" * 500 + OK)])
    _, (response, after) = split(parsed)
    assert (response.content_bytes, response.missing_bytes) == (3000, 1500)
    assert response.complete
    assert (after.offset, after.pair_no) == (len(head) + 3000, 1)
    assert parsed.problems == []


def test_gap_over_a_head(read):
    later = [(10, 1, GET), (30, 3, GET), (50, 5, GET)]
    parsed = read(
        later,
        [(20, 2, OK), (0, 0, 60), (60, 6, b"rest of the second answer" + OK)],
    )
    requests, responses = split(parsed)
    assert [r.pair_no for r in responses] == [0, 2]
    assert [r.pair_no for r in requests] == [0, None, 2]
    assert [p.code for p in parsed.problems] == ["http-gap"]


def test_gap_inside_a_head(read):
    parsed = read(GET + GET, [(20, 2, OK[:25]), (0, 0, 10), (40, 4, b"xx: y\r\n\r\nhello" + OK)])
    _, (response, after) = split(parsed)
    assert (response.status, response.head_ns, response.complete) == (200, None, False)
    assert after.complete


def test_half_a_field_before_a_gap_is_none(read):
    cut = b"GET /a HTTP/1.1\r\nHost: app.exam"
    parsed = read([(10, 1, cut), (0, 0, 40)], [(20, 2, OK)])
    request, _ = split(parsed)
    assert request[0].target == "/a"
    assert request[0].authority is None
    assert request[0].fields == []
    whole_line = b"GET /a HTTP/1.1\r\nHost: app.example\r\nAcce"
    parsed = read([(10, 1, whole_line), (0, 0, 40)], [(20, 2, OK)])
    request, _ = split(parsed)
    assert request[0].authority == "app.example"
    assert [field.name for field in request[0].fields] == ["host"]


def test_gap_in_chunked_content_finds_the_next_chunk(read):
    def chunk(data):
        return b"%x\r\n%s\r\n" % (len(data), data)

    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    before, lost = chunk(b"a" * 400), chunk(b"b" * 300) + chunk(b"c" * 300)
    after = chunk(b"d" * 200) + chunk(b"e" * 100) + b"0\r\n\r\n" + OK
    parsed = read(
        GET + GET,
        [(20, 2, head + before + lost[:50]), (0, 0, 400), (40, 4, lost[450:] + after)],
    )
    _, (response, following) = split(parsed)
    assert response.complete
    assert response.missing_bytes == 400
    assert following.offset == response.offset + response.length
    assert following.status == 200


def test_gap_between_chunks_ends_where_the_next_begins(read):
    def chunk(data):
        return b"%x\r\n%s\r\n" % (len(data), data)

    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\n"
    lost, after = chunk(b"b" * 300), chunk(b"d" * 200) + chunk(b"e" * 100) + b"0\r\n\r\n"
    parsed = read(GET, [(20, 2, head + chunk(b"a" * 400)), (0, 0, len(lost)), (40, 4, after)])
    (located,) = parsed.contents
    assert [length for _, length in located.pieces] == [400, 0, 200, 100]


def test_gap_that_hides_the_end_of_chunked_content(read):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    second = head + b"5\r\nworld\r\n3\r\nxyz\r\n0\r\n\r\n"
    parsed = read(
        [(10, 1, GET), (30, 3, GET)],
        [(20, 2, head + b"5\r\nhel"), (0, 0, 9), (40, 4, b"\r\n" + second)],
    )
    _, (first, response) = split(parsed)
    assert not first.complete
    assert (response.content_bytes, response.complete, response.pair_no) == (8, True, 1)


def test_start_in_the_middle(read):
    parsed = read(
        [(5, 1, b"rest of a body" + GET)],
        [(2, 9, b"x" * 3000 + OK), (20, 2, OK)],
        client_begins_mid_stream=True,
        server_begins_mid_stream=True,
    )
    requests, responses = split(parsed)
    assert [r.target for r in requests] == ["/a?b=1"]
    first, second, third = responses
    assert not first.start_certain
    assert (first.status, first.length, first.complete) == (None, 3000, True)
    assert second.pair_no is None  # seen before the request
    assert third.pair_no == 0
    assert parsed.problems == []


def test_response_to_an_uncaptured_head(read):
    server = OK[:-5] + OK
    _, responses = split(read(b"", server))
    assert [r.content_bytes for r in responses] == [0, 5]


def test_response_without_its_direction(read):
    requests, responses = split(read(GET, b""))
    assert len(requests) == 1
    assert responses == []
    assert requests[0].pair_no is None


def test_early_response(read):
    head = b"POST / HTTP/1.1\r\nContent-Length: 9000\r\n\r\n"
    client = [(10, 1, head + b"x" * 1000), (30, 3, b"x" * 1000)]
    server = OK.replace(b"200 OK", b"413 Too Large")
    (request,), (response,) = split(read(client, server, client_fin_ns=40))
    assert (response.status, response.pair_no) == (413, 0)
    assert (request.complete, request.end_ns) == (False, 30)


def test_content_cut_by_the_capture(read):
    _, (response,) = split(read(GET, OK[:-2]))
    assert (response.complete, response.end_ns, response.last_ns) == (False, None, 20)
    assert response.length == len(OK) - 2


def test_garbage_between_messages(read):
    parsed = read(GET + GET, OK + b"\x00\x01garbage" * 10 + OK)
    _, responses = split(parsed)
    assert [r.offset for r in responses] == [0, len(OK) + 90]
    assert [p.code for p in parsed.problems] == ["http-malformed"]


def test_text_that_looks_like_a_start_line_is_no_message(read):
    body = b"see HTTP/1.1 200 OK\r\nand GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    server = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    assert len(read(GET, server).messages) == 2


def test_head_that_never_ends(read, monkeypatch):
    monkeypatch.setattr("capture_analyzer.protocols.http1.head.MAX_HEAD_BYTES", 1 << 16)
    monkeypatch.setattr(direction, "MAX_HEAD_BYTES", 1 << 16)
    parsed = read(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 50_000, OK)
    assert any("too long" in p.clause for p in parsed.problems)
    assert len(parsed.messages[0].fields) <= 512


def test_losing_the_place_is_bounded(read):
    parsed = read(GET * 500, (OK + b"\x00garbage") * 500)
    assert len(split(parsed)[1]) <= direction.MAX_LOST + 1


@pytest.mark.parametrize("seed", range(6))
def test_damage_never_raises(make_stream, seed):
    rng = random.Random(seed)
    client = (GET + GET.replace(b"GET", b"HEAD")) * 3
    server = (OK + CHUNKED + b"HTTP/1.1 100 Continue\r\n\r\n" + OK) * 2
    for _ in range(150):
        streams = []
        for data, side in ((client, True), (server, False)):
            damaged = bytearray(data)
            for _ in range(rng.randrange(8)):
                damaged[rng.randrange(len(damaged))] = rng.choice(b"\r\n :0;\x00G/1")
            pieces, at, number = [], 0, 1
            while at < len(damaged):
                size = rng.randrange(1, 90)
                if rng.random() < 0.1:
                    pieces.append((0, 0, size))
                else:
                    pieces.append((number, number, bytes(damaged[at : at + size])))
                at += size
                number += 1
            streams.append(
                make_stream(
                    pieces,
                    from_client=side,
                    begins_mid_stream=rng.random() < 0.2,
                    fin_ns=rng.choice((None, 999)),
                )
            )
        for message in parse(*map(Source, streams), FieldLines(Everything())).messages:
            assert message.length >= 0
            assert 0 <= message.missing_bytes <= message.length
