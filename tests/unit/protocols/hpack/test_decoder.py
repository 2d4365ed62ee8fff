"""HPACK against the examples of RFC 7541, appendix C, and against damage."""

from __future__ import annotations

import pytest

from capture_analyzer.protocols.hpack import Decoder, HeaderField, HpackError, huffman
from capture_analyzer.protocols.hpack.static_table import STATIC_TABLE

REQUESTS = [  # C.4: with Huffman coding
    (
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "www.example.com"),
        ],
    ),
    (
        "828684be5886a8eb10649cbf",
        [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "www.example.com"),
            ("cache-control", "no-cache"),
        ],
    ),
    (
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ],
    ),
]
RESPONSES = [  # C.6: a table of 256 octets, so that entries are evicted
    (
        (
            "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff"
            "6e919d29ad171863c78f0b97c8e9ae82ae43d3"
        ),
        [
            (":status", "302"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("location", "https://www.example.com"),
        ],
    ),
    (
        "4883640effc1c0bf",
        [
            (":status", "307"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("location", "https://www.example.com"),
        ],
    ),
    (
        (
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7"
            "b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007"
        ),
        [
            (":status", "200"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
            ("location", "https://www.example.com"),
            ("content-encoding", "gzip"),
            ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
        ],
    ),
]


def text(fields: list[HeaderField]) -> list[tuple[str | None, str | None]]:
    return [
        (name and name.decode(), value.decode() if value is not None else None)
        for name, value in fields
    ]


def test_requests_with_huffman_coding() -> None:
    decoder = Decoder()
    for block, fields in REQUESTS:
        assert text(decoder.decode(bytes.fromhex(block))) == fields


def test_responses_with_eviction() -> None:
    decoder = Decoder()
    decoder.allow_table_size(256)
    for block, fields in RESPONSES:
        assert text(decoder.decode(bytes.fromhex(block))) == fields


def test_literal_forms() -> None:  # C.2.1 to C.2.4
    decoder = Decoder()
    block = bytes.fromhex("400a637573746f6d2d6b65790d637573746f6d2d686561646572")
    assert text(decoder.decode(block)) == [("custom-key", "custom-header")]
    assert text(decoder.decode(b"\xbe")) == [("custom-key", "custom-header")]
    assert text(decoder.decode(bytes.fromhex("040c2f73616d706c652f70617468"))) == [
        (":path", "/sample/path")
    ]
    never_indexed = bytes.fromhex("100870617373776f726406736563726574")
    assert text(decoder.decode(never_indexed)) == [("password", "secret")]
    with pytest.raises(HpackError):
        decoder.decode(b"\xbf")


def test_a_repeated_block_means_something_else_after_an_insertion() -> None:
    decoder = Decoder()
    decoder.decode(b"\x40\x01a\x011")
    assert text(decoder.decode(b"\xbe")) == [("a", "1")]
    assert text(decoder.decode(b"\xbe")) == [("a", "1")]
    decoder.decode(b"\x40\x01b\x012")
    assert text(decoder.decode(b"\xbe")) == [("b", "2")]


def test_two_size_updates_may_open_a_block_but_not_follow_a_field() -> None:
    decoder = Decoder()
    decoder.decode(b"\x40\x01a\x011")
    assert text(decoder.decode(b"\x20\x3f\xe1\x1f\x82")) == [(":method", "GET")]
    with pytest.raises(HpackError):
        decoder.decode(b"\xbe")  # the first update emptied the table
    with pytest.raises(HpackError):
        Decoder().decode(b"\x82\x20")


def test_mid_stream_old_entries_are_unknown_and_new_ones_certain() -> None:
    decoder = Decoder(mid_stream=True)
    assert text(decoder.decode(b"\xbe\x82")) == [(None, None), (":method", "GET")]
    decoder.decode(b"\x40\x01a\x011")
    assert text(decoder.decode(b"\xbe\xbf")) == [("a", "1"), (None, None)]
    assert text(decoder.decode(b"\x7f\x01\x012")) == [(None, "2")]  # an old name, a new value


def test_lost_blocks_make_older_entries_unknown() -> None:
    decoder = Decoder()
    decoder.decode(b"\x40\x01a\x011")
    decoder.lose_blocks()
    assert not decoder.complete
    assert text(decoder.decode(b"\xbe")) == [(None, None)]


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",  # index 0
        b"\xff\xff\xff\xff\xff\xff\x7f",  # an absurd integer
        b"\x40\x05ab",  # a string past the end
        b"\x40",  # ends inside a field
        b"\x40\x81\xff\x00",  # padding longer than seven bits
        b"\x40\x84\xff\xff\xff\xff\x00",  # EOS in a string
        b"\x3f\xe2\xff\x03",  # a table above the limit
    ],
)
def test_malformed_blocks(block: bytes) -> None:
    decoder = Decoder()
    with pytest.raises(HpackError):
        decoder.decode(block)
    assert not decoder.complete


def test_huffman_padding() -> None:
    assert huffman.decode(b"\x1f") == b"a"
    for wrong in (b"\x1e", b"\x1f\xff"):
        with pytest.raises(ValueError, match="padding"):
            huffman.decode(wrong)


def test_static_table() -> None:
    assert len(STATIC_TABLE) == 61
    assert STATIC_TABLE[7] == (b":status", b"200")
    assert STATIC_TABLE[60] == (b"www-authenticate", b"")
