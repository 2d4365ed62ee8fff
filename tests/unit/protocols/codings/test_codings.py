"""Measuring decoded content."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib

import brotli
import pytest
import zstandard

from capture_analyzer.protocols import codings
from capture_analyzer.protocols.codings import CodingError, decoded_length

TEXT = "".join(random.Random(4).choices("abcdefgh \n", k=300_000)).encode()


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def bare_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-15)
    return encoder.compress(data) + encoder.flush()


CODED = {
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "br": brotli.compress(TEXT, quality=3),
    "zstd": zstandard.compress(TEXT),
    "identity": TEXT,
}


@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("size", [1, 7, 1448, 10**6])
def test_length_is_that_of_the_text(name, size):
    assert decoded_length([name], pieces(CODED[name], size)) == len(TEXT)


def test_bare_deflate_is_accepted():
    assert decoded_length(["deflate"], pieces(bare_deflate(TEXT), 100)) == len(TEXT)


def test_gzip_members_are_added_up():
    assert decoded_length(["gzip"], [gzip.compress(TEXT) + gzip.compress(b"more")]) == (
        len(TEXT) + 4
    )


def test_zstd_frames_are_added_up():
    data = zstandard.compress(TEXT) + zstandard.compress(b"more")
    assert decoded_length(["zstd"], pieces(data, 999)) == len(TEXT) + 4


def test_codings_are_undone_in_reverse_order():
    data = brotli.compress(gzip.compress(TEXT))
    assert decoded_length(["gzip", "br"], [data]) == len(TEXT)
    with pytest.raises(CodingError):
        decoded_length(["br", "gzip"], [data])


def test_unknown_coding_is_not_measured():
    assert decoded_length(["dcz"], [b"xxxx"]) is None
    assert decoded_length(["gzip", "compress"], [gzip.compress(TEXT)]) is None
    assert decoded_length(["identity"] * 4, [b"x"]) is None


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_what_is_not_coded_raises(name):
    with pytest.raises(CodingError):
        decoded_length([name], [b"\xff\xfethis is plain text" * 40])


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_cut_content_is_measured_as_far_as_it_goes(name):
    data = CODED[name]
    length = decoded_length([name], pieces(data[: len(data) // 2], 1000))
    assert 0 < length < len(TEXT)


def bomb(name: str) -> bytes:
    zeros = bytes(1 << 20)
    size = 80
    if name == "br":
        encoder = brotli.Compressor(quality=1)
        return b"".join(encoder.process(zeros) for _ in range(size)) + encoder.finish()
    if name == "zstd":
        return zstandard.ZstdCompressor().compress(zeros * size)
    encoder = zlib.compressobj(9, wbits=31 if name == "gzip" else 15)
    return b"".join(encoder.compress(zeros) for _ in range(size)) + encoder.flush()


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_bomb_is_given_up_in_bounded_memory(name):
    data = bomb(name)
    assert len(data) < 1 << 20
    tracemalloc.start()
    try:
        assert decoded_length([name], [data]) is None
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_cap_is_not_hit_below_it(monkeypatch):
    monkeypatch.setattr(codings, "MAX_DECODED", len(TEXT))
    assert decoded_length(["gzip"], [CODED["gzip"]]) == len(TEXT)
    monkeypatch.setattr(codings, "MAX_DECODED", len(TEXT) - 1)
    assert decoded_length(["gzip"], [CODED["gzip"]]) is None
