"""Content of a message: what frames it (RFC 9112, section 6.3), and where it ends."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Final, Literal

from capture_analyzer.model.messages import Field
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.http1.head import FieldLines, Section, find_end
from capture_analyzer.protocols.http1.source import Source
from capture_analyzer.protocols.http1.start_line import find_response

Framing = Literal["none", "length", "chunked", "close", "tunnel", "unknown"]

MAX_CHUNK_LINE: Final = 4096
"""Longest chunk-size line with its extensions; few senders use any."""

MAX_PIECES: Final = 1 << 18
"""Pieces of chunked content remembered to decode it; content in more pieces isn't measured."""

_SEARCH_BYTES: Final = 1 << 20
"""How far behind a gap the next chunk is looked for: chunks are rarely longer."""

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")
_FIRST_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_BARE_CHUNK_LINE: Final = re.compile(rb"\r\n([0-9A-Fa-f]{1,8})\r\n")


@quick_dataclass
class Content:
    """Where content lies and how it ended.

    Attributes:
        end: offset behind the message.
        length: content bytes, without chunked coding.
        complete: it ended by its own framing.
        pieces: (offset, length) of its parts; one without length marks where an unknown part
            is missing. None if there are too many.
        trailers: reduced trailer fields.
        problem: a clause about what breaks the rules.
        lost: the end is not known; the next message has to be looked for.
    """

    end: int
    length: int = 0
    complete: bool = True
    pieces: list[tuple[int, int]] | None = None
    trailers: list[Field] = dataclasses.field(default_factory=list)
    problem: str | None = None
    lost: bool = False


def response_framing(
    status: int, method: str | None, section: Section
) -> tuple[Framing, int, str | None]:
    """How a response's content is framed: (kind, length, problem); RFC 9112, section 6.3."""
    if status == 101 or (method == "CONNECT" and 200 <= status < 300):
        return "tunnel", 0, None
    if method == "HEAD" or status < 200 or status in (204, 304):
        return "none", 0, None
    if section.transfer_codings:
        problem = "both Transfer-Encoding and Content-Length" if section.content_lengths else None
        if section.transfer_codings[-1] == "chunked":
            return "chunked", 0, problem
        return "close", 0, problem
    length, problem = _length(section)
    if length is None:
        return "close", 0, problem
    return "length", length, problem


def request_framing(method: str, section: Section) -> tuple[Framing, int, str | None]:
    """How a request's content is framed: (kind, length, problem); RFC 9112, section 6.3."""
    if method == "CONNECT":
        return "none", 0, None
    if section.transfer_codings:
        problem = "both Transfer-Encoding and Content-Length" if section.content_lengths else None
        if section.transfer_codings[-1] == "chunked":
            return "chunked", 0, problem
        return "unknown", 0, "a request's last transfer coding is not chunked"
    length, problem = _length(section)
    if problem:
        return "unknown", 0, problem
    return ("length", length, None) if length else ("none", 0, None)


def _length(section: Section) -> tuple[int | None, str | None]:
    """Content-Length; equal values may be repeated (RFC 9112, section 6.3, case 5)."""
    if not section.content_lengths:
        return None, None
    values = set(section.content_lengths)
    value = section.content_lengths[0]
    if len(values) > 1:
        return None, "Content-Length has several values"
    if not _NUMBER.fullmatch(value):
        return None, "Content-Length is no number"
    return int(value), None


def by_length(source: Source, start: int, length: int) -> Content:
    """Content of a known length."""
    end = start + length
    return Content(end, length, end <= source.end, [(start, length)])


def until_close(source: Source, start: int) -> Content:
    """Content that the end of the connection ends."""
    length = source.end - start
    complete = source.stream.fin_ns is not None and (
        source.stream.reset_ns is None or source.stream.fin_ns < source.stream.reset_ns
    )
    return Content(source.end, length, complete, [(start, length)])


def chunked(source: Source, start: int, lines: FieldLines, *, from_client: bool) -> Content:
    """Content in chunks (RFC 9112, section 7.1)."""
    content = Content(start, complete=False, pieces=[])
    pieces = content.pieces
    at = size_at = start
    length = 0
    if pieces is not None and source.solid:
        size_at, length = _regular_chunks(source, start, pieces)
        at = size_at
    while True:
        line = source.read(size_at, size_at + 20)
        match = _CHUNK_LINE.match(line)
        if match is None and len(line) == 20:
            line = source.read(size_at, size_at + MAX_CHUNK_LINE)
            match = _CHUNK_LINE.match(line)
        if match is None:
            found = _after_gap(source, size_at, len(line), from_client)
            if found is None:
                malformed = b"\n" in line or len(line) >= MAX_CHUNK_LINE
                content.problem = "a chunk has no size" if malformed else None
                content.lost = malformed or source.next_captured(size_at + len(line)) is not None
                content.end = max(size_at, at)
                if not content.lost:  # nothing was captured behind it, but more was sent
                    content.end = max(content.end, source.end)
                break
            if pieces is not None:
                pieces.append((size_at + len(line), 0))
            size_at = found
            continue
        size = int(match.group(1), 16)
        at = size_at + match.end()
        if size == 0:
            content.end, content.complete, content.trailers, content.problem = _trailers(
                source, at, lines
            )
            content.lost = not content.complete and content.end < source.captured_end
            break
        length += size
        if pieces is not None:
            pieces.append((at, size))
            if len(pieces) > MAX_PIECES:
                pieces = None
        at += size
        if at >= source.captured_end:
            length -= max(0, at - source.end)
            content.end = min(at, source.end)
            break
        ending = source.read(at, at + 2)
        if ending == b"\r\n" or len(ending) < 2:
            size_at = at + 2
        elif ending[:1] == b"\n":
            size_at = at + 1
            content.problem = "a line ends without CR"
        else:
            content.end, content.lost, content.problem = at, True, "a chunk overruns its size"
            break
    content.length = length
    content.pieces = pieces
    return content


def _regular_chunks(source: Source, start: int, pieces: list[tuple[int, int]]) -> tuple[int, int]:
    """Take the chunks from `start` on that are followed by another, in the usual form.

    Returns:
        Where the size of the next chunk is due, and how long the chunks are together.
    """
    solid, shift = source.solid, source.shift
    limit = source.captured_end + shift
    following, add = _BARE_CHUNK_LINE.match, pieces.append
    length = 0
    match = _FIRST_CHUNK_LINE.match(solid, start + shift, limit)
    if match is None:
        return start, 0
    for _ in range(MAX_PIECES):
        at, size = match.end(), int(match[1], 16)
        behind = following(solid, at + size, limit) if size else None
        if behind is None:
            break
        add((at - shift, size))
        length += size
        match = behind
    return match.start(1) - shift, length


def _after_gap(source: Source, offset: int, captured: int, from_client: bool) -> int | None:
    """Offset of the next chunk-size line, where a gap hides the one due at `offset`.

    It must chain: its chunk must be followed by another, or be the last. A status line in
    front of it means that this content is over. What was captured behind a gap may begin with
    it: segments and TLS records end where chunks do.
    """
    start = source.next_captured(offset + captured)
    if start is None or not source.missing(offset, start + 1):
        return None
    limit = start + _SEARCH_BYTES
    while start is not None and start < limit:
        data = source.read(start, limit)
        lines = itertools.chain([_FIRST_CHUNK_LINE.match(data)], _BARE_CHUNK_LINE.finditer(data))
        found = next(
            (
                start + match.start(1)
                for match in lines
                if match and _chains(source, start + match.end(), int(match.group(1), 16))
            ),
            None,
        )
        run_end = start + len(data)
        if not from_client and find_response(source, start, found or run_end) is not None:
            return None
        if found is not None:
            return found
        start = source.next_captured(run_end)
    return None


def _chains(source: Source, start: int, size: int) -> bool:
    """Whether a chunk of this size at `start` is followed by another, or the content's end."""
    following = source.read(start + size, start + size + 12)
    if size == 0:
        return following == b"\r\n" or following[:9] == b"\r\nHTTP/1."
    return _BARE_CHUNK_LINE.match(following) is not None


def _trailers(
    source: Source, at: int, lines: FieldLines
) -> tuple[int, bool, list[Field], str | None]:
    """(end, complete, fields, problem) of the trailer section at `at`."""
    ending = source.read(at, at + 2)
    if ending == b"\r\n":
        return at + 2, True, [], None
    if ending[:1] == b"\n":
        return at + 1, True, [], "a line ends without CR"
    if len(ending) < 2:
        return at + len(ending), False, [], None
    raw, ended = find_end(source, at)
    section = lines.section(raw, trailer=True)
    problem = section.problems[0] if section.problems else None
    return at + len(raw), ended, section.fields, problem
