"""Our HPACK decoder against the hpack library as the encoder."""

from __future__ import annotations

import hpack
from hypothesis import given
from hypothesis import strategies as st

from capture_analyzer.protocols.hpack import Decoder

field = st.tuples(
    st.sampled_from([b":path", b":status", b"content-type", b"x-a", b"cookie", b"n" * 200]),
    st.one_of(st.sampled_from([b"", b"200", b"gzip", b"text/html"]), st.binary(max_size=80)),
)
block = st.tuples(
    st.lists(field, max_size=12),
    st.booleans(),
    st.one_of(st.none(), st.sampled_from([0, 64, 200, 4096])),
)


@given(st.lists(block, max_size=20))
def test_any_blocks_decode_to_what_was_encoded(
    blocks: list[tuple[list[tuple[bytes, bytes]], bool, int | None]],
) -> None:
    encoder, decoder = hpack.Encoder(), Decoder()
    for fields, huffman, table_size in blocks:
        if table_size is not None:
            encoder.header_table_size = table_size
        assert [tuple(f) for f in decoder.decode(encoder.encode(fields, huffman=huffman))] == fields


@given(st.lists(st.binary(max_size=60), max_size=10), st.booleans())
def test_no_input_raises_anything_but_its_own_error(blocks: list[bytes], mid_stream: bool) -> None:
    decoder = Decoder(mid_stream=mid_stream)
    for data in blocks:
        try:
            fields = decoder.decode(data)
        except ValueError:
            assert not decoder.complete
        else:
            assert len(fields) <= len(data)
