"""Compressed certificates, and chains that break the rules."""

from __future__ import annotations

import zlib

import brotli
import pytest
import zstandard

from capture_analyzer.pipeline.certificates import (
    MAX_DECOMPRESSED,
    Presented,
    decompress,
    read_chains,
)

CHAIN = b"\0" + (3000).to_bytes(3, "big") + b"c" * 3000


def packed(algorithm: int, content: bytes, length: int | None = None) -> bytes:
    """A CompressedCertificate message."""
    size = len(CHAIN) if length is None else length
    head = algorithm.to_bytes(2, "big") + size.to_bytes(3, "big")
    return head + len(content).to_bytes(3, "big") + content


@pytest.mark.parametrize(
    ("algorithm", "content"),
    [
        (1, zlib.compress(CHAIN)),
        (2, brotli.compress(CHAIN)),
        (3, zstandard.ZstdCompressor().compress(CHAIN)),
    ],
)
def test_every_algorithm(algorithm: int, content: bytes) -> None:
    assert decompress(packed(algorithm, content)) == CHAIN
    assert decompress(packed(algorithm, content[:-9])) is None
    assert decompress(packed(algorithm, content, len(CHAIN) - 1)) is None
    assert decompress(packed(algorithm, content, len(CHAIN) + 1)) is None


def test_what_is_not_unpacked() -> None:
    assert decompress(packed(9, zlib.compress(CHAIN))) is None
    assert decompress(packed(1, b"not compressed")) is None
    assert decompress(packed(1, zlib.compress(CHAIN)) + b"x") is None
    bomb = zlib.compress(bytes(MAX_DECOMPRESSED * 4))
    assert decompress(packed(1, bomb, MAX_DECOMPRESSED * 4)) is None
    assert decompress(packed(1, bomb, 100)) is None
    for size in range(8):
        assert decompress(packed(1, zlib.compress(CHAIN))[:size]) is None


def test_damage_is_an_anomaly() -> None:
    presented = Presented()
    assert not presented.add(3, b"\0\0\7broken", None, tls13=False)
    entry = b"\0\0\3bad"
    assert not presented.add(5, len(entry).to_bytes(3, "big") + entry, None, tls13=False)
    assert presented.add(6, len(entry).to_bytes(3, "big") + entry, b"\1\0\0\2no", tls13=False)
    read = read_chains(presented, 0)
    assert [(row.chain_no, row.length, row.name) for row in read.certificates] == [
        (1, 3, None),
        (2, 3, None),
    ]
    assert read.certificates[1].staple_response == "malformed"
    assert [(a.connection_no, a.origin) for a in read.anomalies] == [
        (3, "peer"),
        (5, "peer"),
        (6, "peer"),
    ]


def test_equal_chains_are_read_once() -> None:
    presented = Presented()
    body = b"\0\0\6\0\0\3bad"
    for number in (4, 2, 9):
        presented.add(number, body, None, tls13=False)
    read = read_chains(presented, 0)
    assert [row.connection_nos for row in read.certificates] == [[2, 4, 9]]
    assert len(read.anomalies) == 1
