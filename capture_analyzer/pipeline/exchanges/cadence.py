"""Streams of events seen without keys: their cadence, by records' sizes and times.

A server that streams an answer writes a record (or a few) for each event, so pauses of the
server lie between records. In a download they lie inside them: there the window ends a flight,
wherever that falls. What is inferred here of an answer that has such pauses:

* its first group of records is the header section, perhaps with an event that opens the
  stream; these are no content;
* each further record is an event. Where the server cuts events into tiny records, their bytes
  are counted instead, and an event is as long as what usually comes between two pauses;
* a record far below the usual size that stands alone keeps the connection alive; one of 5
  bytes ends chunked content (RFC 9112, section 7.1); one just as long as OpenAI's end marker,
  right before the end, is taken for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.messages import MessageEvent, StreamFacts
from capture_analyzer.pipeline.exchanges.flights import Flights
from capture_analyzer.pipeline.exchanges.units import Units

PAUSE_NS: Final = 5_000_000
"""Records that come closer were written at once, or held back together."""

MIN_PAUSES: Final = 5
"""Pauses from which on an answer is taken for a stream by them alone."""

CHUNKED_PAUSES: Final = 2
"""Pauses that are enough where chunked content ended in a record of its own."""

CONFIDENCE: Final = 0.7
CHUNKED_CONFIDENCE: Final = 0.5

MAX_EVENTS: Final = 100_000
"""Events inferred of an answer; no answer of a language model has as many."""

_FULL_BYTES: Final = 1000  # records of one size from here on are pieces of something larger
_FULL_SHARE: Final = 0.5
_LARGE_BYTES: Final = 4096  # events of text are smaller
_TINY_BYTES: Final = 16
_STEADY: Final = 4  # most gaps of a stream are at most so many times the median
_STEADY_SHARE: Final = 0.7
_SLOWEST_NS: Final = 2_000_000_000  # what comes more seldom is no stream of tokens
_LAST_CHUNK: Final = 5  # "0\r\n\r\n"
_DONE_H1: Final = 19  # "e\r\ndata: [DONE]\n\n\r\n"
_DONE_H2: Final = 23  # a frame header in front instead of the chunk's framing
_EMPTY_FRAME: Final = 9
_PING_SHARE: Final = 0.35
_PING_BYTES: Final = 64
_OPENING_MORE: Final = 6  # an opening event is so much longer than nearly all others
_COMPLETE_SHARE: Final = 0.6
_MORE_THAN_ONE: Final = 1.05


def add_streams(rows: Sequence[Exchange], flights: Flights) -> None:
    """Give exchanges that look like streams their events and the time to the first content.

    Args:
        rows: one for each of the flights.
        flights: of TLS records.
    """
    if not len(flights):
        return
    units, turn, stop = flights.units, flights.turn, flights.stop
    # Pauses in front of a record, and inside records, behind the first of each answer.
    inside = np.zeros(len(units) + 1, np.int64)
    between = np.zeros(len(units) + 1, np.int64)
    known = units.usable_ns != NO_TIME
    late = known & (units.usable_ns - units.seen_ns >= PAUSE_NS)
    inside[1:] = np.cumsum(late)
    paused = np.zeros(len(units), np.bool_)
    paused[1:] = known[:-1] & (units.seen_ns[1:] - units.usable_ns[:-1] >= PAUSE_NS)
    between[1:] = np.cumsum(paused)
    first = np.minimum(turn + 1, stop)
    pauses = between[stop] - between[first]
    broken = inside[stop] - inside[turn]
    chosen = (pauses >= CHUNKED_PAUSES) & (pauses >= 2 * broken) & (turn > flights.first)
    for index in np.flatnonzero(chosen).tolist():
        exchange = rows[index]
        if exchange.shared_connection:
            continue  # several answers, whose records mix
        _add_stream(exchange, units, slice(int(turn[index]), int(stop[index])))


def _add_stream(exchange: Exchange, units: Units, part: slice) -> None:
    usable = units.usable_ns[part]
    size = units.content[part].astype(np.int64)
    if (usable == NO_TIME).any():
        count = int(np.flatnonzero(usable == NO_TIME)[0])
        part = slice(part.start, part.start + count)
        usable, size = usable[:count], size[:count]
    h2 = bool(units.speech.may_be_h2[exchange.connection_no])
    h1 = bool(units.speech.may_be_h1[exchange.connection_no])
    last = _EMPTY_FRAME if h2 and not h1 else _LAST_CHUNK
    ends_chunked = len(size) > 1 and int(size[-1]) == last
    if ends_chunked:
        usable, size = usable[:-1], size[:-1]
        part = slice(part.start, part.stop - 1)
    if len(size) < 3:
        return
    seen = units.seen_ns[part]
    pause = np.append(True, seen[1:] - usable[:-1] >= PAUSE_NS)
    begins = np.flatnonzero(pause)  # of groups of records
    confidence = _trust(usable, size, begins, ends_chunked and not h2)
    if confidence is None:
        return
    tiny = 2 * int((size <= _TINY_BYTES).sum()) >= len(size)
    if tiny:
        ends, kinds = _cut(usable, size, begins)
    else:
        ends, kinds = _each(usable, size, begins, _DONE_H2 if h2 and not h1 else _DONE_H1)
    events = _rows(units, part, ends, kinds)
    content = next((event for event in events if event.kind == "content"), None)
    if content is None:
        return
    ended = any(event.kind == "end" for event in events)
    exchange.stream = StreamFacts(events, ended=ended, inferred=True, confidence=confidence)
    exchange.ttft_ns = content.usable_ns - exchange.request_start_ns


def _trust(
    usable: NDArray[np.int64], size: NDArray[np.int64], begins: NDArray[np.int64], chunked: bool
) -> float | None:
    """How surely it is a stream; None = it is not taken for one."""
    longest = int(size.max())
    if longest >= _FULL_BYTES and (size == longest).mean() >= _FULL_SHARE:
        return None  # a download in equal pieces
    if np.median(size) > _LARGE_BYTES:
        return None  # a download that a window stopped again and again
    times = usable[begins]
    gaps = np.diff(times[1:])  # the first group is the header section
    if len(begins) - 1 >= MIN_PAUSES:
        usual = max(float(np.median(gaps)), PAUSE_NS)
        if usual <= _SLOWEST_NS and (gaps <= _STEADY * usual).mean() >= _STEADY_SHARE:
            return CONFIDENCE
    if chunked and len(begins) - 1 >= CHUNKED_PAUSES:
        return CHUNKED_CONFIDENCE
    return None


def _each(
    usable: NDArray[np.int64], size: NDArray[np.int64], begins: NDArray[np.int64], done: int
) -> tuple[list[int], list[str]]:
    """Events where each record is one: the record that ends each, and its kind."""
    second = int(begins[1])
    usual = float(np.median(size[second:]))
    alone = np.diff(np.append(begins, len(size))) == 1
    small = (size[begins] < _PING_SHARE * usual) & (size[begins] <= _PING_BYTES)
    pings = set(begins[alone & small].tolist())
    kinds = ["content"] * len(size)
    for index in pings:
        kinds[index] = "ping"
    first = _first_content(usable, size, begins, pings)
    kinds[1:first] = ["ping" if index in pings else "role" for index in range(1, first)]
    if int(size[-1]) == done:
        kinds[-1] = "end"
    # The first record is the header section, and what is behind it in the same write.
    return list(range(1, len(size)))[:MAX_EVENTS], kinds[1 : MAX_EVENTS + 1]


def _first_content(
    usable: NDArray[np.int64],
    size: NDArray[np.int64],
    begins: NDArray[np.int64],
    pings: set[int],
) -> int:
    """The record with the first generated content."""
    times = usable[begins]
    gaps = np.diff(times)
    usual = float(np.median(gaps[1:])) if len(gaps) > 1 else float(gaps[0])
    if begins[1] >= 3 and gaps[0] <= 2 * usual:
        return 2  # header section, opening event, content: all written at once
    candidates = [index for index in range(int(begins[1]), len(size)) if index not in pings]
    if len(candidates) < MIN_PAUSES or begins[1] != 1:
        return candidates[0] if candidates else int(begins[1])
    # The opening event may have been held back behind the header section.
    others = size[candidates[1:]]
    opening = candidates[0]
    if size[opening] > np.percentile(others, 90) + _OPENING_MORE and candidates[1] in begins:
        return candidates[1]
    return opening


def _cut(
    usable: NDArray[np.int64], size: NDArray[np.int64], begins: NDArray[np.int64]
) -> tuple[list[int], list[str]]:
    """Events where records are pieces of them: the record that ends each, and its kind."""
    head = 1  # the header section is one record, as a rule larger than the pieces
    while head < len(size) and size[head] > _TINY_BYTES:
        head += 1
    groups = np.add.reduceat(size, begins)
    # What comes between two pauses is an event as a rule; the first group has the head.
    length = float(np.median(groups[1:]))
    starts = set(begins.tolist())
    ends: list[int] = []
    filled = 0.0
    for index in range(head, len(size)):
        if index in starts and filled >= _COMPLETE_SHARE * length:
            ends.append(index - 1)
            filled = 0.0
        filled += float(size[index])
        if filled >= _MORE_THAN_ONE * length:
            ends.append(index)
            filled = 0.0
    if filled:
        ends.append(len(size) - 1)
    del ends[MAX_EVENTS:]
    kinds = ["content"] * len(ends)
    gaps = np.diff(usable[ends])
    if len(gaps) >= 2 and gaps[0] > 2 * max(float(np.median(gaps)), PAUSE_NS):
        kinds[0] = "role"  # the model began to work behind it
    return ends, kinds


def _rows(
    units: Units, part: slice, ends: Sequence[int], kinds: Sequence[str]
) -> list[MessageEvent]:
    last = np.array(ends, np.int64) + part.start
    first = np.append(part.start + 1, last[:-1] + 1) if len(last) else last
    content = np.concatenate(([0], np.cumsum(units.content[part])))
    sizes = content[last - part.start + 1] - content[first - part.start]
    return [
        MessageEvent(seen, usable, usable, packet_no, kind, length, 0, -1, begin, end)
        for seen, usable, packet_no, kind, length, begin, end in zip(
            units.seen_ns[last].tolist(),
            units.usable_ns[last].tolist(),
            units.last_packet_no[last].tolist(),
            kinds,
            sizes.tolist(),
            units.offset[first].tolist(),
            (units.offset[last] + units.size[last]).tolist(),
            strict=True,
        )
    ]
