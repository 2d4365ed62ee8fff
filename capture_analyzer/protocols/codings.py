"""Content codings (RFC 9110, section 8.4.1): how long content is when it is decoded.

Content is decoded to be measured, never kept, and never further than a cap: a few kilobytes
of a hostile coding decode to gigabytes. Every decoder is a generator that takes pieces of
coded content and yields pieces of at most `STEP` bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

MAX_DECODED: Final = 64 << 20
"""Decoded bytes after which a message is no longer measured: larger answers are not API
traffic, and a bomb costs no more than this."""

STEP: Final = 1 << 16
"""Decoded bytes that are in memory at a time."""

MAX_CODINGS: Final = 3
"""Codings on top of each other: two are rare, more only try a reader."""

MAX_ZSTD_WINDOW: Final = 8 << 20
"""Window that RFC 8878, section 3.1.1.1.2 (and RFC 9659 for HTTP) has decoders support."""

Pieces = Iterator[bytes]


class CodingError(ValueError):
    """Content does not follow its coding. The message holds no content."""


def decoded_length(codings: Sequence[str], pieces: Iterable[bytes]) -> int | None:
    """How long content is without its content codings.

    Content that ends before its coding does (a stream that is flushed and never finished) is
    measured as far as it goes.

    Args:
        codings: as Content-Encoding lists them: in the order in which they were applied.
        pieces: the coded content.

    Returns:
        The length in bytes; None if a coding isn't supported, or beyond `MAX_DECODED`.

    Raises:
        CodingError: the content does not follow a coding.
    """
    stream = decode(codings, pieces)
    if stream is None:
        return None
    total = 0
    for piece in stream:
        total += len(piece)
        if total > MAX_DECODED:
            return None
    return total


def decode(codings: Sequence[str], pieces: Iterable[bytes]) -> Iterator[bytes] | None:
    """Content without its content codings, piece by piece.

    Each piece that a coding makes readable is yielded before the next coded piece is asked
    for, so that a caller who notes what it hands in knows what made what readable. There is
    no cap: the caller stops asking.

    Args:
        codings: as Content-Encoding lists them: in the order in which they were applied.
        pieces: the coded content.

    Returns:
        The decoded pieces, which raise CodingError as they are asked for; None if a coding
        isn't supported.
    """
    decoders = [_DECODERS[name] for name in codings if name in _DECODERS]
    if len(decoders) < len(codings) or len(decoders) > MAX_CODINGS:
        return None
    stream: Pieces = iter(pieces)
    for decoder in reversed(decoders):
        stream = decoder(stream)
    return stream


def _identity(pieces: Pieces) -> Pieces:
    return pieces


def _gzip(pieces: Pieces) -> Pieces:
    """Gzip, one member or several (RFC 1952, section 2.2)."""
    return _inflate(pieces, 16 + zlib.MAX_WBITS)


def _deflate(pieces: Pieces) -> Pieces:
    """The zlib format (RFC 1950), or bare deflate, which some send instead (RFC 9110, 8.4.1.2)."""
    first = b""
    for piece in pieces:
        first += piece
        if len(first) >= 2:
            break
    is_zlib = len(first) >= 2 and first[0] & 0x0F == 8 and int.from_bytes(first[:2]) % 31 == 0
    yield from _inflate(_chain(first, pieces), zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)


def _inflate(pieces: Pieces, window_bits: int) -> Pieces:
    decoder = zlib.decompressobj(window_bits)
    for piece in pieces:
        coded = piece
        while coded:
            if decoder.eof:
                decoder = zlib.decompressobj(window_bits)
            try:
                decoded = decoder.decompress(coded, STEP)
            except zlib.error:
                raise CodingError("not in the deflate format") from None
            coded = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            if decoded:
                yield decoded
            if decoder.eof and window_bits <= zlib.MAX_WBITS:
                return  # only gzip has further members
    held_back = decoder.flush()
    if held_back:
        yield held_back


def _brotli(pieces: Pieces) -> Pieces:
    """Brotli (RFC 7932)."""
    import brotli

    decoder = brotli.Decompressor()
    for piece in pieces:
        coded = piece
        while True:
            try:
                decoded = decoder.process(coded, output_buffer_limit=STEP)
            except brotli.error:
                raise CodingError("not in the Brotli format") from None
            if not decoded:
                break
            yield decoded
            coded = b""  # there may be more output from the same input
        if decoder.is_finished():
            return


def _zstd(pieces: Pieces) -> Pieces:
    """Zstandard (RFC 8878)."""
    import zstandard

    decoder = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW)
    source: Any = _Source(pieces)
    with decoder.stream_reader(source, read_size=STEP, read_across_frames=True) as reader:
        while True:
            try:
                decoded = reader.read1(STEP)  # what is there, without waiting for more
            except zstandard.ZstdError:
                raise CodingError("not in the Zstandard format") from None
            if not decoded:
                return
            yield decoded


class _Source:
    """Pieces as a file that can only be read."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int) -> bytes:
        while not self._rest:  # an empty piece is no end
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._rest = piece
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


def _chain(first: bytes, rest: Pieces) -> Pieces:
    yield first
    yield from rest


_DECODERS: Final[dict[str, Callable[[Pieces], Pieces]]] = {
    "identity": _identity,
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
