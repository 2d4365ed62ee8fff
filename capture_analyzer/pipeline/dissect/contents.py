"""What is inside contents: events of streamed answers, and what requests to LLMs ask for.

Nothing of a content enters a table but lengths, kinds, counts and the few words an API names
things with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from capture_analyzer.model.messages import Message, MessageEvent, StreamFacts
from capture_analyzer.pipeline.redact import Redactor
from capture_analyzer.protocols import codings, llm
from capture_analyzer.protocols.http1.connection import Located
from capture_analyzer.protocols.http1.source import Source
from capture_analyzer.protocols.sse import SseParser
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
        opens: it is the beginning of a part of the content, such as a chunk.
    """

    def __init__(self, source: Source, pieces: Sequence[tuple[int, int]]) -> None:
        self._source = source
        self._pieces = pieces
        self.begin = 0
        self.end = 0
        self.opens = False

    def parts(self) -> Iterator[bytes | None]:
        """The pieces in order; None where some of the content is missing."""
        source = self._source
        for start, length in self._pieces:
            if not length:
                yield None
            at, stop = start, start + length
            while at < stop:
                if source.chunk(at) < 0:
                    yield None
                    following = source.next_captured(at)
                    if following is None:
                        return
                    at = following
                    continue
                # Never more than one chunk: what it makes readable is known to its packet.
                end = min(stop, source.rest_of_chunk(at), at + _PIECE)
                self.begin, self.end, self.opens = at, end, at == start
                yield source.read(at, end)
                at = end

    def unbroken(self) -> Iterator[bytes]:
        """The pieces up to the first that is missing: nothing behind it can be decoded."""
        for part in self.parts():
            if part is None:
                return
            yield part


def _events(source: Source, content: Located) -> StreamFacts:
    """The events of a server-sent event stream."""
    events: list[MessageEvent] = []
    facts = StreamFacts(events)
    fed = _Fed(source, content.pieces)
    plain = not content.codings or content.codings == ["identity"]
    decoded = fed.parts() if plain else codings.decode(content.codings, fed.unbroken())
    if decoded is None:
        facts.undecoded = True
        return facts
    parser = SseParser()
    handed: deque[tuple[int, int]] = deque()  # (offset in the content, stream offset) of pieces
    total = 0
    lost = False
    try:
        for piece in decoded:
            if piece is None:
                lost = True
                continue
            if lost:
                # Servers write an event, or several, into a chunk of its own.
                parser.lose(begins=fed.opens and piece.startswith(_OPENINGS))
                lost = False
            before = total
            total += len(piece)
            handed.append((before, fed.begin))
            if total > codings.MAX_DECODED or len(events) >= MAX_EVENTS:
                facts.undecoded = True
                break
            for event in parser.feed(piece):
                end = fed.begin + (event.end - before) if plain else fed.end
                while len(handed) > 1 and handed[1][0] <= event.start:
                    handed.popleft()
                at, begin = handed[0]
                begin += event.start - at if plain else 0
                events.append(_event(facts, source, begin, end, event.type, event.data))
    except codings.CodingError:
        facts.undecoded = True
    return facts


def _event(
    facts: StreamFacts, source: Source, begin: int, end: int, event_type: str, data: bytes
) -> MessageEvent:
    """The event between these stream offsets; writes into `facts` what it says of all."""
    chunk = source.last_chunk(end - 1)
    said = llm.classify(event_type, data)
    if said.input_tokens is not None:
        facts.input_tokens = said.input_tokens
    if said.output_tokens is not None:
        facts.output_tokens = said.output_tokens
    facts.ended |= said.ends
    facts.marker_known |= said.marked
    facts.finish = said.finish or facts.finish
    facts.error_code = said.error_code or facts.error_code
    return MessageEvent(
        source.seen_ns(chunk),
        source.in_order_ns(chunk),
        source.usable_ns(chunk),
        source.packet_no(chunk),
        said.kind,
        len(data),
        said.generated_chars,
        -1 if said.output_tokens is None else said.output_tokens,
        source.in_transport(begin),
        source.in_transport(end - 1) + 1,
    )


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
