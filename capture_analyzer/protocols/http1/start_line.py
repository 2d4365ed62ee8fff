"""Request lines and status lines (RFC 9112, sections 3 and 4), at a place or anywhere."""

from __future__ import annotations

import re
from typing import Final

from capture_analyzer.protocols.http1.source import Source

MAX_START_LINE: Final = 16_384
"""Longest start line that is looked for. Servers limit request lines to 8 KB or a little more
(RFC 9112, section 3, recommends to support 8000)."""

H2_PREFACE: Final = b"PRI * HTTP/2.0\r\n"
"""Begin of the connection preface of HTTP/2 (RFC 9113, section 3.4)."""

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_WINDOW: Final = 1 << 16  # bytes searched at a time

REQUEST_LINE: Final = re.compile(
    rb"(" + _TOKEN + rb"{1,32}) +([^\x00-\x20\x7f]+) +HTTP/(1\.[01])[ \t]*\r?\n"
)
STATUS_LINE: Final = re.compile(rb"HTTP/(1\.[01]) ([1-9][0-9]{2})(?:[ \t][^\r\n]*)?\r?\n")

_FIELD_OR_END: Final = re.compile(_TOKEN + rb"{1,256}[ \t]*:|\r?\n|\Z")
_METHODS: Final = (
    # RFC 9110, RFC 5789, RFC 4918, RFC 5323, and what UPnP adds
    rb"(?:GET|POST|HEAD|PUT|DELETE|OPTIONS|PATCH|CONNECT|TRACE|PROPFIND|PROPPATCH|MKCOL|COPY"
    rb"|MOVE|LOCK|UNLOCK|SEARCH|REPORT|M-SEARCH|NOTIFY|SUBSCRIBE|UNSUBSCRIBE)"
)
_TAIL_OF_REQUEST: Final = re.compile(_METHODS + rb" [^\x00-\x20\x7f]+\Z")
_END_OF_REQUEST: Final = re.compile(rb" HTTP/1\.[01]\r?\n")
_WHOLE_REQUEST: Final = re.compile(_TOKEN + rb"{1,32} +[^\x00-\x20\x7f]+\Z")


def begins_request(source: Source, offset: int) -> bool:
    """Whether a request line lies at `offset` (an empty line may precede it)."""
    return _at(source, offset, REQUEST_LINE)


def begins_response(source: Source, offset: int) -> bool:
    """Whether a status line lies at `offset`."""
    return _at(source, offset, STATUS_LINE)


def _at(source: Source, offset: int, pattern: re.Pattern[bytes]) -> bool:
    for size in (512, MAX_START_LINE):
        data = source.read(offset, offset + size).lstrip(b"\r\n")
        if pattern.match(data):
            return True
        if b"\n" in data or len(data) < size // 2:
            return False
    return False


def find_request(source: Source, offset: int, limit: int) -> int | None:
    """Offset of the first request line in [offset, limit), wherever it begins.

    Content in front of it need not end with a line end, so well-known methods tell where it
    begins; a line with another method is taken whole.
    """
    searched = -1  # up to where hits have been looked at
    captured = source.next_captured(offset)
    while captured is not None and captured < limit:
        at = captured
        data = source.read(at, at + _WINDOW + MAX_START_LINE)
        behind = 0
        hit = data.find(b" HTTP/1.", max(0, searched - at))
        while hit >= 0:
            end = _END_OF_REQUEST.match(data, hit)
            if end and _FIELD_OR_END.match(data, end.end()):
                low = max(behind, hit - MAX_START_LINE)
                begin = data.rfind(b"\n", low, hit) + 1
                line = data[begin or low : hit]
                # Without a line end in front, the line may have begun in what is missing.
                whole = begin > 0 or at + low == 0
                found = _TAIL_OF_REQUEST.search(line) or (whole and _WHOLE_REQUEST.match(line))
                if found:
                    start = at + (begin or low) + found.start()
                    return start if start < limit else None
            behind = hit + 8
            hit = data.find(b" HTTP/1.", behind)
        full = len(data) == _WINDOW + MAX_START_LINE
        searched = at + len(data) - 64 if full else -1
        captured = source.next_captured(at + (_WINDOW if full else max(len(data), 1)))
    return None


def find_response(source: Source, offset: int, limit: int) -> int | None:
    """Offset of the first status line in [offset, limit), wherever it begins."""
    captured = source.next_captured(offset)
    while captured is not None and captured < limit:
        at = captured
        data = source.read(at, at + _WINDOW + 512)
        hit = data.find(b"HTTP/1.")
        while 0 <= hit < _WINDOW:
            line = STATUS_LINE.match(data, hit, hit + 512)
            if line and _FIELD_OR_END.match(data, line.end()):
                return at + hit if at + hit < limit else None
            hit = data.find(b"HTTP/1.", hit + 7)
        captured = source.next_captured(at + (_WINDOW if len(data) > _WINDOW else len(data)))
    return None
