"""What is inside contents: events of streamed answers, and what requests to LLMs ask for.

Nothing of a content enters a table but lengths, kinds, counts and the few words an API names
things with.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from capture_analyzer.model.messages import Message, MessageEvent, StreamFacts
from capture_analyzer.pipeline.redact import Redactor
from capture_analyzer.protocols import codings, llm
from capture_analyzer.protocols.http1.connection import Located
from capture_analyzer.protocols.http1.source import Source
from capture_analyzer.protocols.sse import ServerSentEvent, SseParser, read_events
from capture_analyzer.wire.text import printable

EVENT_STREAM: Final = "text/event-stream"
MAX_EVENTS: Final = 1 << 18  # of one message: at 100 a second that is 44 minutes of streaming
_PIECE: Final = 1 << 14
_OPENINGS: Final = (b"data:", b"event:", b"id:")  # fields that an event begins with


def read_contents(
    client: Source, server: Source, located: Sequence[Located], redactor: Redactor
) -> None:
    """Look into the contents of a connection; writes what is found into their messages.

    Args:
        client: the client's bytes.
        server: the server's.
        located: where the contents lie.
        redactor: what captured text passes through.
    """
    streamed: set[int | None] = set()
    for content in located:
        if not content.message.from_client and content.content_type == EVENT_STREAM:
            content.message.stream = _events(server, content)
            streamed.add(_pair(content.message))
    for content in located:
        if content.message.from_client and _pair(content.message) in streamed:
            _request(client, content)


def _pair(message: Message) -> int | None:
    """What a request and its response have in common on their connection."""
    return message.pair_no if message.stream_id is None else message.stream_id


class _Fed:
    """Hands out coded pieces of content and remembers how far that was.

    Attributes:
        begin, end: stream offsets of the last piece handed out.
    """

    def __init__(self, source: Source, pieces: Sequence[tuple[int, int]]) -> None:
        self._source = source
        self._pieces = pieces
        self.begin = 0
        self.end = 0

    def unbroken(self) -> Iterator[bytes]:
        """The pieces up to the first that is missing: nothing behind it can be decoded."""
        source = self._source
        for start, length in self._pieces:
            if not length:
                return
            at, stop = start, start + length
            while at < stop:
                if source.chunk(at) < 0:
                    return
                # Never more than one chunk: what it makes readable is known to its packet.
                end = min(stop, source.rest_of_chunk(at), at + _PIECE)
                self.begin, self.end = at, end
                yield source.read(at, end)
                at = end


class _Answer:
    """The events of one streamed answer, as they are found."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._repeats = llm.Repeats()
        self.events: list[MessageEvent] = []
        self.facts = StreamFacts(self.events)

    def add(self, first: int, begin: int, last: int, end: int, event: ServerSentEvent) -> None:
        """Add an event.

        Args:
            first: the chunk with its first byte.
            begin: the stream offset of that.
            last: the chunk with its last byte.
            end: the stream offset behind that.
            event: what it is.
        """
        source, data = self._source, event.data
        kind, tokens = "content", -1
        chars = self._repeats.characters(event.type, data)
        if not chars:
            said = self._read(event.type, data)
            kind, chars = said.kind, said.generated_chars
            if said.output_tokens is not None:
                tokens = said.output_tokens
            else:
                self._repeats.learn(event.type, data, said)
        self.events.append(
            MessageEvent(
                *source.times(last),
                kind,
                len(data),
                chars,
                tokens,
                source.transport_of(first, begin),
                source.transport_of(last, end - 1) + 1,
            )
        )

    def _read(self, event_type: str, data: bytes) -> llm.EventFacts:
        """What an event says; notes what it says of the whole answer."""
        facts = self.facts
        said = llm.classify(event_type, data)
        if said.input_tokens is not None:
            facts.input_tokens = said.input_tokens
        if said.output_tokens is not None:
            facts.output_tokens = said.output_tokens
        facts.ended |= said.ends
        facts.marker_known |= said.marked
        facts.finish = said.finish or facts.finish
        facts.error_code = said.error_code or facts.error_code
        return said


def _events(source: Source, content: Located) -> StreamFacts:
    """The events of a server-sent event stream."""
    answer = _Answer(source)
    if not content.codings or content.codings == ["identity"]:
        _plain_events(source, content.pieces, answer)
    else:
        _coded_events(source, content, answer)
    return answer.facts


@dataclasses.dataclass(slots=True)
class _Run:
    """Content of which nothing is missing between its parts, each in one chunk.

    Attributes:
        begins: it begins with an event; None at the beginning of the content.
        parts: the bytes.
        chunks, offsets: where each part lies: in which chunk, and from which stream offset on.
    """

    begins: bool | None = None
    parts: list[memoryview] = dataclasses.field(default_factory=list)
    chunks: list[int] = dataclasses.field(default_factory=list)
    offsets: list[int] = dataclasses.field(default_factory=list)


def _plain_events(source: Source, pieces: Sequence[tuple[int, int]], answer: _Answer) -> None:
    """The events of content that is as it was sent."""
    starts, ends = source.starts, source.ends
    run = _Run()
    chunk = 0
    total = 0
    for start, length in pieces:
        if not length:
            run = _finished(run, answer)
        at, stop = start, start + length
        while at < stop:
            while chunk + 1 < len(starts) and starts[chunk + 1] <= at:
                chunk += 1
            if not starts[chunk] <= at < ends[chunk]:
                run = _finished(run, answer)
                if at >= ends[-1]:
                    return
                at = starts[chunk + 1] if at >= ends[chunk] else starts[chunk]
                continue
            end = min(stop, ends[chunk])
            part = source.part(chunk, at, end)
            total += end - at
            if total > codings.MAX_DECODED:
                answer.facts.undecoded = True
                _finished(run, answer)
                return
            if not run.parts and run.begins is not None:
                # Servers write an event, or several, into a chunk of its own.
                run.begins = at == start and bytes(part[:6]).startswith(_OPENINGS)
            run.parts.append(part)
            run.chunks.append(chunk)
            run.offsets.append(at)
            at = end
    _finished(run, answer)


def _finished(run: _Run, answer: _Answer) -> _Run:
    """Add the events of a run; the next run, behind what is missing."""
    at_start = run.begins is None
    content = b"".join(run.parts)
    first = last = 0
    shift, stops = [], []
    size = 0
    for part, offset in zip(run.parts, run.offsets, strict=True):
        shift.append(offset - size)
        size += len(part)
        stops.append(size)
    for event in read_events(content, at_start=at_start, begins=run.begins is not False):
        if len(answer.events) >= MAX_EVENTS:
            answer.facts.undecoded = True
            break
        while stops[first] <= event.start:
            first += 1
        last = max(first, last)
        while stops[last] < event.end:
            last += 1
        answer.add(
            run.chunks[first],
            shift[first] + event.start,
            run.chunks[last],
            shift[last] + event.end,
            event,
        )
    return _Run(begins=False)


def _coded_events(source: Source, content: Located, answer: _Answer) -> None:
    """The events of content in a coding."""
    fed = _Fed(source, content.pieces)
    decoded = codings.decode(content.codings, fed.unbroken())
    if decoded is None:
        answer.facts.undecoded = True
        return
    parser = SseParser()
    handed: deque[tuple[int, int]] = deque()  # (offset in the content, stream offset) of pieces
    total = 0
    try:
        for piece in decoded:
            handed.append((total, fed.begin))
            total += len(piece)
            if total > codings.MAX_DECODED or len(answer.events) >= MAX_EVENTS:
                answer.facts.undecoded = True
                break
            for event in parser.feed(piece):
                while len(handed) > 1 and handed[1][0] <= event.start:
                    handed.popleft()
                begin, end = handed[0][1], fed.end
                first, last = source.last_chunk(begin), source.last_chunk(end - 1)
                answer.add(first, begin, last, end, event)
    except codings.CodingError:
        answer.facts.undecoded = True


def _request(source: Source, content: Located) -> None:
    """What a request whose answer is streamed asks for."""
    if "json" not in content.content_type or content.codings:
        return
    if sum(length for _, length in content.pieces) > llm.MAX_JSON_OCTETS:
        return
    body = b"".join(_Fed(source, content.pieces).unbroken())
    asked = llm.request_facts(body)
    if asked is None:
        return
    content.message.model = None if asked.model is None else printable(asked.model.encode())
    content.message.max_tokens = asked.max_tokens
