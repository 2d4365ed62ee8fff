"""Events of streamed answers: where and when each came, found for many answers at once."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.events import EVENT_KIND_CODE, Events
from capture_analyzer.model.messages import EventRows, StreamFacts
from capture_analyzer.pipeline.lists import starts_of

MOST_WAITING: Final = 1 << 16
"""Events that wait to be placed: enough that it costs little for each, and a few MB."""

_MOST: Final = 2**31 - 1  # that a column of 32 bits can hold
_CONTENT: Final = EVENT_KIND_CODE["content"]


class _Chunks(NamedTuple):
    """Columns of a ByteStream: its bytes must not be kept."""

    starts: NDArray[np.int64]
    origins: NDArray[np.int64]
    seen_ns: NDArray[np.int64]
    in_order_ns: NDArray[np.int64]
    usable_ns: NDArray[np.int64]
    packet_nos: NDArray[np.int32]


class Answers:
    """Takes the events of answers by their place in the content; `place` makes rows of them.

    All content that events are found in is counted as if it lay end to end: `add_piece` says
    where it lies in its stream, and from there on an event's place is a number in it.

    Attributes:
        size: octets of content so far.
        events: events of the current answer so far.
    """

    def __init__(self) -> None:
        self.size = 0
        self.events = 0
        self._facts: list[StreamFacts] = []
        self._streams: list[_Chunks] = []
        self._firsts: list[int] = []  # event of each answer
        self._pieces: list[int] = []  # where each begins in its stream
        self._sizes: list[int] = []  # of pieces
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._kinds = bytearray()
        self._data: list[int] = []  # octets of data
        self._chars: list[int] = []  # characters of generated text
        self._tokens: list[tuple[int, int]] = []  # (event, output tokens so far)

    def begin(self, stream: ByteStream, facts: StreamFacts) -> None:
        """What is added from now on is of an answer in this stream, and belongs to its facts."""
        if len(self._kinds) >= MOST_WAITING:
            self.place()
        self.events = 0
        origins = stream.starts if stream.origins is None else stream.origins
        self._streams.append(
            _Chunks(
                stream.starts,
                origins,
                stream.seen_ns,
                stream.in_order_ns,
                stream.usable_ns,
                stream.packet_nos,
            )
        )
        self._facts.append(facts)
        self._firsts.append(len(self._kinds))

    def add_pieces(self, offsets: list[int], sizes: list[int]) -> int:
        """Content goes on with these pieces of the stream; the place of the first of them."""
        place = self.size
        self._pieces += offsets
        self._sizes += sizes
        self.size += sum(sizes)
        return place

    def add(self, begin: int, end: int, kind: str, size: int, chars: int, tokens: int) -> None:
        """Add an event.

        Args:
            begin: where it begins in the content.
            end: where it ends.
            kind: name in EVENT_KINDS.
            size: octets of its data.
            chars: characters of generated text.
            tokens: output tokens as the server counts them so far; -1 = it does not say.
        """
        if tokens >= 0:
            self._tokens.append((len(self._kinds), tokens))
        self._begins.append(begin)
        self._ends.append(end)
        self._kinds.append(EVENT_KIND_CODE[kind])
        self._data.append(size)
        self._chars.append(chars)
        self.events += 1

    def add_contents(self, bounds: list[int], sizes: list[int], chars: list[int]) -> None:
        """Add events of kind "content" that follow each other.

        Args:
            bounds: where they begin in the content, and where the last ends.
            sizes: octets of data of each.
            chars: characters of generated text of each.
        """
        self._begins += bounds[:-1]
        self._ends += bounds[1:]
        self._kinds += bytes((_CONTENT,)) * len(sizes)
        self._data += sizes
        self._chars += chars
        self.events += len(sizes)

    def place(self) -> None:
        """Make rows of all events so far and write them into the facts of their answers."""
        if self._kinds:
            table = self._table()
            stops = [*self._firsts[1:], len(self._kinds)]
            for facts, first, stop in zip(self._facts, self._firsts, stops, strict=True):
                if stop > first:
                    facts.events = EventRows(table, first, stop)
        self.__init__()  # type: ignore[misc]

    def _table(self) -> Events:
        streams = self._streams
        counts = np.diff(np.array([*self._firsts, len(self._kinds)]))
        owner = np.repeat(np.arange(len(streams)), counts)
        chunks = _Chunks(*map(np.concatenate, zip(*streams, strict=True)))
        starts, origins = chunks.starts, chunks.origins
        pieces, sizes = _column(self._pieces), _column(self._sizes)
        span = 1 + int(max(starts.max(initial=0), (pieces + sizes).max()))
        keys = starts + np.repeat(np.arange(len(streams)) * span, [len(s.starts) for s in streams])
        pieces -= starts_of(sizes)  # from a place to the offset in the stream
        bounds = np.cumsum(sizes)

        def located(places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            """(the chunk that holds each place, its offset in the transport's stream)."""
            offsets = places + pieces[np.searchsorted(bounds, places, "right")]
            chunk = np.searchsorted(keys, owner * span + offsets, "right") - 1
            return chunk, origins[chunk] + (offsets - starts[chunk])

        _, offset = located(_column(self._begins))
        chunk, last = located(_column(self._ends) - 1)
        tokens = np.full(len(owner), -1, np.int32)
        for event, count in self._tokens:
            tokens[event] = min(count, _MOST)
        return Events(
            exchange_no=np.zeros(len(owner), np.int32),
            seen_ns=chunks.seen_ns[chunk],
            in_order_ns=chunks.in_order_ns[chunk],
            time_ns=chunks.usable_ns[chunk],
            kind=np.frombuffer(bytes(self._kinds), np.uint8),
            size_bytes=_column(self._data).astype(np.int32),
            generated_chars=_column(self._chars).astype(np.int32),
            output_tokens=tokens,
            packet_no=chunks.packet_nos[chunk],
            offset=offset,
            end_offset=last + 1,
        )


def _column(values: list[int]) -> NDArray[np.int64]:
    return np.fromiter(values, np.int64, len(values))
