"""Server-sent events: the stream format of the WHATWG HTML standard, section 9.2.6.

An incremental parser that says of each event where in the content its blank line ended:
from there the caller knows when a client could first have acted on it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MAX_EVENT_OCTETS: Final = 16 << 20
"""Most data kept of one event; what is longer is cut and marked. Real ones have a few KB."""

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    """A dispatched event.

    Attributes:
        type: its event type, "message" unless the stream named another.
        data: its data lines joined by line feeds.
        end: content offset just behind the line end that dispatched it.
        start: content offset where its first line began.
        cut: data beyond MAX_EVENT_OCTETS was left out.
    """

    type: str
    data: bytes
    start: int
    end: int
    cut: bool


def read_events(run: bytes, *, at_start: bool, begins: bool = True) -> list[ServerSentEvent]:
    """The events of a stretch of content that lacks nothing, all at once.

    They are those that `SseParser` finds; this takes a fraction of the time.

    Args:
        run: the stretch. An event that does not end in it is none of them.
        at_start: it is the beginning of the content.
        begins: it begins with an event; else in the middle of one, which is skipped.
    """
    if b"\r" in run:
        parser = SseParser()
        if not at_start:
            parser.lose(begins=begins)
        return parser.feed(run)
    events: list[ServerSentEvent] = []
    at = 0
    if not begins:
        # Up to the first empty line.
        at = 1 if run[:1] == b"\n" else run.find(b"\n\n") + 2
        if at == 1 and run[:1] != b"\n":
            return events
    bom = len(_BOM) if at_start and run.startswith(_BOM) else 0
    at += bom
    while True:
        stop = run.find(b"\n\n", at)
        if stop < 0:
            return events
        block = run[at:stop]
        end = stop + 2
        if block[:1] == b"\n":  # one more empty line in front of it
            block, at, bom = block[1:], at + 1, 0
        if bom:
            at, bom = at - bom, 0  # the first line has the mark in it
        if block[:5] == b"data:" and b"\n" not in block:
            data = block[6:] if block[5:6] == b" " else block[5:]
            kind, cut = "message", False
            if len(data) > MAX_EVENT_OCTETS:
                data, cut = data[:MAX_EVENT_OCTETS], True
        else:
            kind, data, cut = _fields(block)
        if data:
            events.append(ServerSentEvent(kind, data, at, end, cut))
        at = end


def _fields(block: bytes) -> tuple[str, bytes, bool]:
    """(type, data, whether that was cut) of the lines of an event."""
    kind = ""
    parts: list[bytes] = []
    size = 0
    cut = False
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            room = MAX_EVENT_OCTETS - size
            if len(value) > room:
                value, cut = value[: max(room, 0)], True
            parts.append(value)
            size += len(value) + 1
        elif name == b"event":
            kind = value.decode("utf-8", "replace")
    return kind or "message", b"\n".join(parts), cut


class SseParser:
    """Feeds on content in order, in pieces of any size; yields events as they complete.

    Attributes:
        comments: number of comment lines so far (servers send them to keep a stream alive).
        retry_ms: the last reconnection time the stream asked for; None = none.
    """

    def __init__(self) -> None:
        self.comments = 0
        self.retry_ms: int | None = None
        self._consumed = 0  # content octets seen so far
        self._partial: list[bytes] = []  # pieces of a line whose end has not come
        self._partial_size = 0
        self._after_cr = False  # a LF now belongs to the CR before it
        self._at_start = True  # a BOM may still come
        self._broken = False  # up to the next blank line
        self._reset_event()

    def _reset_event(self) -> None:
        self._type = ""
        self._data: list[bytes] = []
        self._size = 0
        self._cut = False
        self._event_start: int | None = None

    def feed(self, piece: bytes) -> list[ServerSentEvent]:
        """Take the next piece of content; the events whose blank line it completed."""
        events: list[ServerSentEvent] = []
        base = self._consumed
        self._consumed += len(piece)
        at = 0
        if self._after_cr and piece:
            self._after_cr = False
            if piece[0] == 0x0A:
                at = 1
        for found in _LINE_END.finditer(piece, at):
            line = piece[at : found.start()]
            line_start = base + at
            if self._partial:
                line_start -= self._partial_size
                self._partial.append(line)
                line = b"".join(self._partial)
                self._partial.clear()
                self._partial_size = 0
            at = found.end()
            event = self._line(line, line_start, base + at)
            if event is not None:
                events.append(event)
        if at < len(piece):
            self._partial.append(piece[at:])
            self._partial_size += len(piece) - at
        elif piece and piece[-1] == 0x0D:
            self._after_cr = True
        return events

    def lose(self, *, begins: bool = False) -> None:
        """Some of the content is missing: what it cut up is not dispatched.

        That is the event in front, and everything up to the next blank line.

        Args:
            begins: what comes next is known to be the beginning of an event.
        """
        self._partial.clear()
        self._partial_size = 0
        self._after_cr = self._at_start = False
        self._reset_event()
        self._broken = not begins

    def _line(self, line: bytes, start: int, end: int) -> ServerSentEvent | None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if self._broken:
            self._broken = bool(line)
            return None
        if not line:
            return self._dispatch(end)
        if self._event_start is None:
            self._event_start = start
        name, _, value = line.partition(b":")
        if not name:
            self.comments += 1
            return None
        value = value.removeprefix(b" ")
        if name == b"data":
            room = MAX_EVENT_OCTETS - self._size
            if len(value) > room:
                value, self._cut = value[: max(room, 0)], True
            self._data.append(value)
            self._size += len(value) + 1
        elif name == b"event":
            self._type = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 16:
            self.retry_ms = int(value)
        return None

    def _dispatch(self, end: int) -> ServerSentEvent | None:
        start = self._event_start
        event = None
        if self._data and start is not None:
            data = b"\n".join(self._data)
            if data:  # an empty data buffer dispatches nothing
                event = ServerSentEvent(self._type or "message", data, start, end, self._cut)
        self._reset_event()
        return event
