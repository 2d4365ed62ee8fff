"""Server-sent events: the stream format of the WHATWG HTML standard, section 9.2.6.

An incremental parser that says of each event where in the content its blank line ended:
from there the caller knows when a client could first have acted on it.
"""

from __future__ import annotations

import itertools
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


class Events:
    """Complete events of a stretch of content that lacks nothing, read one after another.

    Args:
        run: the stretch. An event that does not end in it is none of them.
        line_end: what ends all of its lines.
        at: where the first event begins.
        mark: octets of a byte order mark in front of it, which count as its own.
    """

    __slots__ = ("_at", "_line_end", "_mark", "_run", "_start", "_stop")

    def __init__(self, run: bytes, line_end: bytes, at: int, mark: int) -> None:
        self._run = run
        self._line_end = line_end
        self._at = at
        self._mark = mark
        self._start = self._stop = 0  # of the lines of the event read last

    def read(self) -> ServerSentEvent | None:
        """The next event; None behind the last. What has no data is no event."""
        run, line_end = self._run, self._line_end
        size = len(line_end)
        while True:
            start = self._at
            feed = run.find(b"\n", start)
            while feed >= 0 and not run.startswith(line_end, feed + 1):
                feed = run.find(b"\n", feed + 1)
            if feed < 0:
                return None
            stop = feed + 1 - size
            self._at = end = feed + 1 + size
            if start < stop and run.startswith(line_end, start):
                start += size  # an empty line more
            self._start, self._stop = start, stop
            lines = run[start:stop]
            if lines.startswith(b"data:") and line_end not in lines:
                data = lines[6:] if lines.startswith(b" ", 5) else lines[5:]
                kind, cut = "message", len(data) > MAX_EVENT_OCTETS
                if cut:
                    data = data[:MAX_EVENT_OCTETS]
            else:
                kind, data, cut = _fields(lines, line_end)
            if data:
                if start == self._mark:
                    start = 0
                return ServerSentEvent(kind, data, start, end, cut)

    def frame(self, data: bytes) -> tuple[bytes, bytes] | None:
        """What stands around the data of the event read last; None if that is in parts."""
        run, line_end, start, stop = self._run, self._line_end, self._start, self._stop
        line = start
        while not run.startswith(b"data:", line):
            line = run.find(line_end, line, stop) + len(line_end)
            if line < len(line_end):
                return None
        begin = line + (6 if run.startswith(b" ", line + 5) else 5)
        end = begin + len(data)
        if not run.startswith(data, begin) or not (end == stop or run.startswith(line_end, end)):
            return None
        return run[start:begin], run[end:stop]

    def alike(self, before: bytes, behind: bytes) -> list[bytes]:
        """What the next events hold between these, as far as they begin and end with them.

        Args:
            before: what each begins with; nothing of it is an empty line.
            behind: what each ends with, likewise.

        Returns:
            Of each event up to the first that is another, or holds the first octet of `behind`.
        """
        run, at = self._run, self._at
        if not run.startswith(before, at):
            return []
        found: list[bytes] = []
        at += len(before)
        first, ending = behind[:1], behind + 2 * self._line_end
        between = ending + before
        find, follows = run.find, run.startswith
        stop = find(first, at)
        while follows(between, stop):
            found.append(run[at:stop])
            at = stop + len(between)
            stop = find(first, at)
        if stop >= 0 and follows(ending, stop):
            found.append(run[at:stop])
        return found

    def skip(self, sizes: list[int], around: int) -> list[int]:
        """Pass over events that `alike` found.

        Args:
            sizes: how much each holds.
            around: octets of what stands around that.

        Returns:
            Where each begins, and where the last ends.
        """
        around += 2 * len(self._line_end)
        bounds = list(itertools.accumulate([around + size for size in sizes], initial=self._at))
        self._at = bounds[-1]
        return bounds


def split_events(run: bytes, *, at_start: bool, begins: bool = True) -> Events | None:
    """The events of a stretch of content that lacks nothing.

    Args:
        run: the stretch. An event that does not end in it is none of them.
        at_start: it is the beginning of the content.
        begins: it begins with an event; else in the middle of one, which is skipped.

    Returns:
        The events; None where not all lines end in the same way.
    """
    line_end = b"\n"
    if b"\r" in run:
        line_end = b"\r\n"
        if not run.count(line_end) == run.count(b"\r") == run.count(b"\n"):
            return None
    mark = at = 0
    if not begins:  # up to the first empty line
        at = len(line_end)
        if not run.startswith(line_end):
            found = run.find(2 * line_end)
            at = found + 2 * len(line_end) if found >= 0 else len(run)
    elif at_start and run.startswith(_BOM):
        at = mark = len(_BOM)
    return Events(run, line_end, at, mark)


def read_events(run: bytes, *, at_start: bool, begins: bool = True) -> list[ServerSentEvent]:
    """The events of a stretch of content that lacks nothing, as `SseParser` finds them.

    Args:
        run: the stretch. An event that does not end in it is none of them.
        at_start: it is the beginning of the content.
        begins: it begins with an event; else in the middle of one, which is skipped.
    """
    events = split_events(run, at_start=at_start, begins=begins)
    if events is not None:
        return list(iter(events.read, None))
    parser = SseParser()
    if not at_start:
        parser.lose(begins=begins)
    return parser.feed(run)


def _fields(lines: bytes, line_end: bytes) -> tuple[str, bytes, bool]:
    """(type, data, whether that was cut) of the lines of an event."""
    kind = ""
    parts: list[bytes] = []
    size = 0
    cut = False
    for line in lines.split(line_end):
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
