"""What is inside contents: events of streamed answers, and what requests to LLMs ask for.

Nothing of a content enters a table but lengths, kinds, counts and the few words an API names
things with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from capture_analyzer.model.messages import Message, StreamFacts
from capture_analyzer.pipeline.dissect.answers import Answers
from capture_analyzer.protocols import codings, llm
from capture_analyzer.protocols.http1.connection import Located
from capture_analyzer.protocols.http1.source import Source
from capture_analyzer.protocols.sse import (
    Events,
    ServerSentEvent,
    SseParser,
    read_events,
    split_events,
)
from capture_analyzer.wire.text import printable

EVENT_STREAM: Final = "text/event-stream"
MAX_EVENTS: Final = 1 << 18  # of one message: at 100 a second that is 44 minutes of streaming
_PIECE: Final = 1 << 14
_OPENINGS: Final = (b"data:", b"event:", b"id:")  # fields that an event begins with


def read_contents(
    client: Source,
    server: Source,
    located: Sequence[Located],
    answers: Answers,
    known: llm.Known,
) -> None:
    """Look into the contents of a connection; writes what is found into their messages.

    Args:
        client: the client's bytes.
        server: the server's.
        located: where the contents lie.
        answers: takes the events, which are in the messages once they have been placed.
        known: what events of other answers said.
    """
    streamed: set[int | None] = set()
    for content in located:
        if not content.message.from_client and content.content_type == EVENT_STREAM:
            content.message.stream = _events(server, content, answers, known)
            streamed.add(_pair(content.message))
    if not streamed:
        return
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


def _events(source: Source, content: Located, answers: Answers, known: llm.Known) -> StreamFacts:
    """What a server-sent event stream says as a whole; its events go into `answers`."""
    answer = _Answer(source, answers, known)
    answers.begin(source.stream, answer.facts)
    if not content.codings or content.codings == ["identity"]:
        answer.read_plain(content.pieces)
    else:
        answer.read_coded(content)
    return answer.facts


class _Answer:
    """Reads one streamed answer."""

    def __init__(self, source: Source, answers: Answers, known: llm.Known) -> None:
        self.facts = StreamFacts()
        self._source = source
        self._answers = answers
        self._repeats = llm.Repeats(known)
        # Content of which nothing is missing in between: its parts, and where each lies.
        self._parts: list[bytes] = []
        self._offsets: list[int] = []
        self._begins: bool | None = None  # that it begins with an event; None = the content
        self._total = 0

    def read_plain(self, pieces: Sequence[tuple[int, int]]) -> None:
        """Content that is as it was sent."""
        source = self._source
        if source.solid and self._read_solid(pieces):
            return
        for start, length in pieces:
            if not length:
                self._finish_run()
            at, stop = start, start + length
            while at < stop:
                if self._total >= codings.MAX_DECODED:
                    self.facts.undecoded = True
                    self._finish_run()
                    return
                part = source.read(at, min(stop, at + codings.MAX_DECODED - self._total))
                if part:
                    if not self._parts and self._begins is not None:
                        # Servers write an event, or several, into a chunk of its own.
                        self._begins = at == start and part.startswith(_OPENINGS)
                    self._parts.append(part)
                    self._offsets.append(at)
                    self._total += len(part)
                    at += len(part)
                    continue
                self._finish_run()
                following = source.next_captured(at)
                if following is None:
                    return
                at = following
        self._finish_run()

    def _read_solid(self, pieces: Sequence[tuple[int, int]]) -> bool:
        """Likewise, if nothing of it is missing; whether that is so."""
        source = self._source
        if not pieces:
            return False
        offsets, sizes = zip(*pieces, strict=True)
        if (
            0 in sizes
            or offsets[0] < source.starts[0]
            or offsets[-1] + sizes[-1] > source.captured_end
            or sum(sizes) > codings.MAX_DECODED
        ):
            return False
        solid, shift = source.solid, source.shift
        self._parts = [solid[start + shift : start + shift + length] for start, length in pieces]
        self._offsets = list(offsets)
        self._finish_run()
        return True

    def _finish_run(self) -> None:
        """Find the events of what was read so far; something is missing behind it."""
        parts, begins = self._parts, self._begins
        place = self._answers.add_pieces(self._offsets, list(map(len, parts)))
        at_start, begins = begins is None, begins is not False
        run = b"".join(parts)
        self._parts, self._offsets, self._begins = [], [], False
        events = split_events(run, at_start=at_start, begins=begins)
        if events is not None:
            self._take_all(events, place)
            return
        for event in read_events(run, at_start=at_start, begins=begins):
            if not self._room():
                break
            self._take(event, place)

    def _take_all(self, events: Events, place: int) -> None:
        repeats = self._repeats
        while True:
            frame = repeats.frame
            if frame is not None and self._take_alike(events, frame, place):
                continue
            event = events.read()
            if event is None or not self._room():
                return
            self._take(event, place)
            if repeats.unframed:
                repeats.learn_frame(events.frame(event.data))

    def _take_alike(self, events: Events, frame: llm.Frame, place: int) -> bool:
        """Add the next events if they differ from one that was read in their text alone."""
        answers = self._answers
        texts = events.alike(frame.before, frame.behind)
        if not texts:
            return False
        characters = self._repeats.characters_of(texts)
        del characters[max(0, MAX_EVENTS - answers.events) :]
        if not characters:
            return False
        sizes = list(map(len, texts[: len(characters)]))
        bounds = events.skip(sizes, len(frame.before) + len(frame.behind))
        if place:
            bounds = [place + bound for bound in bounds]
        around = frame.data_octets
        answers.add_contents(bounds, [around + size for size in sizes], characters)
        return True

    def _room(self) -> bool:
        """Whether one more event may be kept; notes it if not."""
        if self._answers.events < MAX_EVENTS:
            return True
        self.facts.undecoded = True
        return False

    def _take(self, event: ServerSentEvent, place: int) -> None:
        """Add an event of content from `place` on; notes what it says of the whole answer."""
        said = self._repeats.read(event.type, event.data)
        tokens = -1 if said.output_tokens is None else said.output_tokens
        self._answers.add(
            place + event.start,
            place + event.end,
            said.kind,
            len(event.data),
            said.generated_chars,
            tokens,
        )
        facts = self.facts
        if said.input_tokens is not None:
            facts.input_tokens = said.input_tokens
        if said.output_tokens is not None:
            facts.output_tokens = said.output_tokens
        facts.ended |= said.ends
        facts.marker_known |= said.marked
        facts.finish = said.finish or facts.finish
        facts.error_code = said.error_code or facts.error_code

    def read_coded(self, content: Located) -> None:
        """Content in a coding."""
        fed = _Fed(self._source, content.pieces)
        decoded = codings.decode(content.codings, fed.unbroken())
        if decoded is None:
            self.facts.undecoded = True
            return
        parser = SseParser()
        handed: deque[tuple[int, int]] = deque()  # (offset in the content, stream offset)
        total = 0
        try:
            for piece in decoded:
                handed.append((total, fed.begin))
                total += len(piece)
                if total > codings.MAX_DECODED or not self._room():
                    self.facts.undecoded = True
                    break
                for event in parser.feed(piece):
                    while len(handed) > 1 and handed[1][0] <= event.start:
                        handed.popleft()
                    # The coded content that had to be there for it.
                    begin, size = handed[0][1], fed.end - handed[0][1]
                    place = self._answers.add_pieces([begin], [size])
                    self._take(event._replace(start=0, end=size), place)
        except codings.CodingError:
            self.facts.undecoded = True


def _request(source: Source, content: Located) -> None:
    """What a request whose answer is streamed asks for."""
    if "json" not in content.content_type or content.codings:
        return
    if sum(length for _, length in content.pieces) > llm.MAX_JSON_OCTETS:
        return
    body: list[bytes] = []
    for start, length in content.pieces:
        body.append(source.read(start, start + length))
        if not length or len(body[-1]) < length:
            break  # the rest is missing
    asked = llm.request_facts(b"".join(body))
    if asked is None:
        return
    content.message.model = None if asked.model is None else printable(asked.model.encode())
    content.message.max_tokens = asked.max_tokens
