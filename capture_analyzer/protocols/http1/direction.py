"""One direction of an HTTP/1.x connection: message after message, whatever stands between."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from capture_analyzer.model.messages import Message
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols import codings
from capture_analyzer.protocols.http1 import content as framing
from capture_analyzer.protocols.http1.content import Content, Framing
from capture_analyzer.protocols.http1.head import (
    MAX_HEAD_BYTES,
    FieldLines,
    Section,
    find_end,
)
from capture_analyzer.protocols.http1.source import Source
from capture_analyzer.protocols.http1.start_line import (
    REQUEST_LINE,
    STATUS_LINE,
    find_request,
    find_response,
)
from capture_analyzer.wire.text import printable

MAX_LOST: Final = 32
"""How often a direction may lose its place without a gap before it is given up: each time costs
a search, and what breaks the rules that often is another protocol."""

_PIECE: Final = 1 << 16  # content bytes decoded at a time


@quick_dataclass
class Problem:
    """What limits the reading of a connection.

    Attributes:
        code: "http-malformed", "http-gap", "http-incomplete" or "http-coding".
        clause: what is wrong, without content.
        packet_no: where it was noticed, None if unknown.
    """

    code: str
    clause: str
    from_client: bool
    packet_no: int | None


@quick_dataclass
class Located:
    """Where the content of a message lies that somebody may want to look into.

    Attributes:
        message: the message.
        content_type: media type in lower case, without parameters.
        codings: as Content-Encoding lists them.
        pieces: (stream offset, length) of its parts; one without length marks where an unknown
            part is missing.
    """

    message: Message
    content_type: str
    codings: list[str]
    pieces: list[tuple[int, int]]


@quick_dataclass
class Parsed:
    """What a connection holds.

    Attributes:
        messages: requests and final responses, by direction, then offset.
        problems: in order of notice.
        contents: where the content of messages lies, as far as it is known.
        server_name: Host of the first request that has one, as sent.
    """

    messages: list[Message] = dataclasses.field(default_factory=list)
    problems: list[Problem] = dataclasses.field(default_factory=list)
    contents: list[Located] = dataclasses.field(default_factory=list)
    server_name: str | None = None


@quick_dataclass
class Head:
    """A start line with its header section.

    Attributes:
        line: (method, target) of a request, (status,) of a response.
        end: offset behind it.
        whole: the empty line that ends it was captured.
        skipped: what stands in front of it was not read.
    """

    message: Message
    section: Section
    line: tuple[str, ...]
    end: int
    whole: bool
    skipped: bool


class Direction:
    """One direction: where its next message begins, and how to get there."""

    def __init__(self, source: Source, lines: FieldLines, parsed: Parsed) -> None:
        stream = source.stream
        self.source = source
        self.stream = stream
        self.from_client = stream.from_client
        self.lines = lines
        self.parsed = parsed
        self.at = 0
        self.skipped = False
        self.lost = 0
        self.given_up = not len(stream)

    def begins(self, offset: int) -> bool:
        """Whether a start line of this direction lies at `offset`."""
        pattern = REQUEST_LINE if self.from_client else STATUS_LINE
        return pattern.match(self.source.read(offset, offset + 512)) is not None

    def find(self, offset: int) -> int | None:
        """Offset of the next start line."""
        search = find_request if self.from_client else find_response
        return search(self.source, offset, self.source.captured_end)

    def unread_begin(self) -> Message | None:
        """What is there of a response whose head was sent before the capture began."""
        first = self.source.next_captured(0)
        if first is None or not (self.stream.begins_mid_stream or first > 0):
            return None
        if self.begins(first):
            self.at = first
            self.skipped = True
            return None
        following = self.find(first)
        if following is None and not self.stream.begins_mid_stream:
            return None
        message = self.message(first)
        message.start_certain = False
        self.at = self.source.end if following is None else following
        self.skipped = True
        self.finish(message, self.at, complete=following is not None)
        message.content_bytes = message.length
        return message

    def next_head(self) -> Head | None:
        """The next start line and header section; None at the end of what can be read."""
        pattern = REQUEST_LINE if self.from_client else STATUS_LINE
        source = self.source
        while not self.given_up:
            if self.at >= source.captured_end:
                return None
            raw, whole = find_end(source, self.at)
            match = pattern.match(raw)
            if match is None:
                if raw[:1] in (b"\r", b"\n"):
                    # Empty lines in front of a start line (RFC 9112, section 2.2).
                    data = source.read(self.at, self.at + _PIECE)
                    self.at += len(data) - len(data.lstrip(b"\r\n"))
                else:
                    self.resynchronise(raw)
                continue
            line: tuple[str, ...]
            if self.from_client:
                method, target, version = match.groups()
                line = printable(method), printable(target)
            else:
                version, status = match.groups()
                line = (status.decode(),)
            fields = raw[match.end() :]
            if not whole:
                fields = fields[: fields.rfind(b"\n") + 1]  # half a value is not the value
            section = self.lines.section(fields)
            end = self.at + len(raw)
            message = self.message(self.at, end if whole else None)
            message.fields = section.fields
            if version != b"1.1":
                message.protocol = "http/1.0"
            for clause in section.problems:
                self.note("http-malformed", clause, self.at)
            head = Head(message, section, line, end, whole, self.skipped)
            self.skipped = False
            return head
        return None

    def add_content(self, head: Head, kind: Framing, length: int, problem: str | None) -> None:
        """Find the end of a message and fill in what depends on it."""
        source, message = self.source, head.message
        if problem:
            self.note("http-malformed", problem, message.offset)
        if not head.whole:
            self.at = head.end
            self.finish(message, head.end, complete=False)
            if len(source.read(message.offset, head.end)) >= MAX_HEAD_BYTES:
                self.note("http-malformed", "a header section is too long", message.offset)
                self.given_up = True
            self.skipped = True
            return
        if kind == "length":
            content = framing.by_length(source, head.end, length)
        elif kind == "chunked":
            content = framing.chunked(source, head.end, self.lines, from_client=self.from_client)
        elif kind == "close":
            content = framing.until_close(source, head.end)
        else:
            content = Content(head.end, lost=kind == "unknown")
        if content.problem:
            self.note("http-malformed", content.problem, min(content.end, source.captured_end - 1))
        message.fields += content.trailers
        self.at = content.end
        self.finish(message, content.end, complete=content.complete)
        message.content_bytes = content.length
        if (
            not content.complete
            and content.end >= source.end
            and self.stream.fin_ns is not None
            and not message.missing_bytes
        ):
            # The sender closed the connection in front of the end it had announced.
            message.end_ns = source.usable_ns(source.last_chunk(source.end - 1))
            self.note("http-incomplete", "the connection closed inside a message", source.end - 1)
        if content.pieces and content.length and head.section.content_type:
            self.parsed.contents.append(
                Located(
                    message,
                    head.section.content_type,
                    head.section.content_codings,
                    content.pieces,
                )
            )
        if head.section.content_codings and content.length and content.complete:
            self.decode(head, content)
        if kind == "tunnel":
            self.given_up = True
        elif content.lost:
            self.skipped = True
            self.resynchronise(b"")

    def decode(self, head: Head, content: Content) -> None:
        """Measure the content without its content codings."""
        message = head.message
        if content.pieces is None or message.missing_bytes:
            return
        try:
            message.decoded_bytes = codings.decoded_length(
                head.section.content_codings, self.pieces(content.pieces)
            )
        except codings.CodingError as error:
            self.note("http-coding", f"content {error}", message.offset)

    def pieces(self, where: list[tuple[int, int]]) -> Iterator[bytes]:
        """The bytes at these places, a bounded part at a time."""
        for start, length in where:
            for at in range(start, start + length, _PIECE):
                yield self.source.read(at, min(at + _PIECE, start + length))

    def resynchronise(self, seen: bytes) -> None:
        """Go to the next start line; `seen` is what lies where one was due."""
        source, at = self.source, self.at
        gap = source.missing(at, min(at + len(seen) + 1, source.captured_end)) > 0
        found = self.find(at + 1 if seen else at)
        who = "client" if self.from_client else "server"
        if gap:
            self.note("http-gap", f"bytes with a message's begin of the {who} are missing", at)
        elif at > 0 or not self.stream.begins_mid_stream:
            self.lost += 1
            self.note("http-malformed", f"what the {who} sent is no message", at)
        self.skipped = True
        if found is None or self.lost > MAX_LOST:
            self.given_up = True
        else:
            self.at = found

    def message(self, offset: int, head_end: int | None = None) -> Message:
        """A message that begins at a captured offset.

        Args:
            offset: where it begins.
            head_end: where its header section ends; None if that is not known.
        """
        source = self.source
        chunk = source.last_chunk(offset)
        packet_no, seen_ns, usable_ns = source.arrival(chunk)
        message = Message(
            self.stream.connection_no,
            self.from_client,
            offset,
            0,
            "http/1.1",
            first_packet_no=packet_no,
            last_packet_no=packet_no,
            seen_ns=seen_ns,
            start_ns=usable_ns,
            last_ns=seen_ns,
            transport_offset=source.origin(chunk, offset),
        )
        if head_end is not None:
            if head_end > source.ends[chunk]:
                packet_no, _, usable_ns = source.arrival(source.last_chunk(head_end - 1))
            message.head_packet_no, message.head_ns = packet_no, usable_ns
        return message

    def finish(self, message: Message, end: int, *, complete: bool) -> None:
        """Fill in length, last packet and times of a message that ends in front of `end`."""
        source = self.source
        end = min(end, source.end)
        message.length = end - message.offset
        chunk = source.last_chunk(end - 1)
        message.last_packet_no, message.last_ns, usable_ns = source.arrival(chunk)
        message.complete = complete
        if complete:
            message.end_ns = usable_ns
        if end > source.ends[chunk] or source.starts[chunk] > message.offset:
            message.missing_bytes = source.missing(message.offset, end)

    def note(self, code: str, clause: str, offset: int) -> None:
        """Note a problem at a place."""
        chunk = self.source.last_chunk(offset)
        packet_no = self.source.packet_no(chunk) if chunk >= 0 else None
        self.parsed.problems.append(Problem(code, clause, self.from_client, packet_no))
