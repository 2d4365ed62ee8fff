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

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.events import EVENT_KIND_CODE, Events
from capture_analyzer.model.exchanges import Exchanges
from capture_analyzer.model.messages import EventRows, StreamFacts
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.exchanges.flights import Flights
from capture_analyzer.pipeline.exchanges.units import Units
from capture_analyzer.pipeline.lists import ascending, medians, places, quantiles, starts_of

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
_FULL_RECORDS: Final = 3  # from so many on
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
_CONTENT: Final = EVENT_KIND_CODE["content"]
_ROLE: Final = EVENT_KIND_CODE["role"]
_PING: Final = EVENT_KIND_CODE["ping"]
_END: Final = EVENT_KIND_CODE["end"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def add_streams(exchanges: Exchanges, flights: Flights) -> None:
    """Give exchanges that look like streams their events and the time to the first content.

    Args:
        exchanges: one for each of the flights.
        flights: of TLS records.
    """
    answers = _candidates(exchanges, flights)
    if answers is None:
        return
    answers = answers.take(_trust(answers))
    if not len(answers):
        return
    sizes = np.add.reduceat(answers.size <= _TINY_BYTES, answers.start, dtype=np.int64)
    tiny = 2 * sizes >= answers.count
    marks = [_each(answers.take(~tiny))] if not tiny.all() else []
    marks += [_cut(answers, place) for place in np.flatnonzero(tiny).tolist()]
    found = _Marks.joined(marks)
    if not len(found.row):
        return
    events = _events(flights.units, found)
    starts = np.flatnonzero(np.diff(found.row, prepend=-1))
    row = found.row[starts]
    stops = np.append(starts[1:], len(found.row))
    content = np.append(np.flatnonzero(found.kind == _CONTENT), len(found.row))
    first_content = content[np.searchsorted(content, starts)]
    ended = np.logical_or.reduceat(found.kind == _END, starts)
    trust = np.zeros(len(exchanges))
    trust[answers.row] = answers.confidence
    some = first_content < stops  # in the others no event is content
    row, usable_ns = row[some], events.time_ns[first_content[some]]
    for index, start, stop, ends, confidence in zip(
        row.tolist(),
        starts[some].tolist(),
        stops[some].tolist(),
        ended[some].tolist(),
        trust[row].tolist(),
        strict=True,
    ):
        exchanges.streams[index] = StreamFacts(
            EventRows(events, start, stop), ended=ends, inferred=True, confidence=confidence
        )
    since = usable_ns - exchanges.columns.request_start_ns[row]
    forwards = since >= 0  # else the clock went back
    exchanges.columns.ttft_ns[row[forwards]] = since[forwards]


@quick_dataclass
class _Answers:
    """Answers, and their records end to end.

    Attributes:
        units: what the records are taken from.
        row: index of each answer's exchange.
        first, count: its first record among the units, and how many it has.
        chunked: it ended with an empty chunk, which is none of these records.
        done: length of an end marker.
        confidence: that it is a stream.
        usual_gap: median of the pauses between its groups of records, without the first.
        start: where its records begin in the arrays below.
        owner, place: of each record, the answer and its number in that, from 0.
        size, usable: of each record.
        begins: it begins a group: what is before it came at another time.
        group: the records that do.
        groups, group_start: how many groups an answer has, and where they begin in `group`.
    """

    units: Units
    row: Ints
    first: Ints
    count: Ints
    chunked: Bools
    done: Ints
    confidence: NDArray[np.float64]
    usual_gap: NDArray[np.float64]
    start: Ints = dataclasses.field(init=False)
    owner: Ints = dataclasses.field(init=False)
    place: Ints = dataclasses.field(init=False)
    size: Ints = dataclasses.field(init=False)
    usable: Ints = dataclasses.field(init=False)
    begins: Bools = dataclasses.field(init=False)
    group: Ints = dataclasses.field(init=False)
    groups: Ints = dataclasses.field(init=False)
    group_start: Ints = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        units = self.units
        self.start = starts_of(self.count)
        self.owner = np.repeat(np.arange(len(self.count)), self.count)
        unit = places(self.first, self.count)
        self.place = unit - self.first[self.owner]
        self.size = units.content[unit].astype(np.int64)
        self.usable = units.usable_ns[unit]
        self.begins = np.ones(len(unit), np.bool_)
        self.begins[1:] = units.seen_ns[unit[1:]] - self.usable[:-1] >= PAUSE_NS
        self.begins[self.start] = True
        self.group = np.flatnonzero(self.begins)
        self.groups = np.bincount(self.owner[self.group], minlength=len(self.count))
        self.group_start = starts_of(self.groups)

    def __len__(self) -> int:
        return len(self.row)

    def take(self, kept: Bools) -> _Answers:
        """Some of them."""
        if kept.all():
            return self
        return _Answers(
            self.units,
            self.row[kept],
            self.first[kept],
            self.count[kept],
            self.chunked[kept],
            self.done[kept],
            self.confidence[kept],
            self.usual_gap[kept],
        )


@quick_dataclass
class _Marks:
    """Events in order: index of the exchange, first and last record among the units, kind."""

    row: Ints
    first: Ints
    last: Ints
    kind: NDArray[np.uint8]

    @classmethod
    def joined(cls, parts: Sequence[_Marks]) -> _Marks:
        """Those of all parts, by exchange."""
        if len(parts) == 1:
            return parts[0]
        row = np.concatenate([part.row for part in parts])
        order = np.argsort(row, kind="stable")
        return cls(
            row[order],
            np.concatenate([part.first for part in parts])[order],
            np.concatenate([part.last for part in parts])[order],
            np.concatenate([part.kind for part in parts])[order],
        )


def _candidates(exchanges: Exchanges, flights: Flights) -> _Answers | None:
    """The answers that have pauses between their records."""
    if not len(flights):
        return None
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
    # Where several answers share a connection their records mix.
    row = np.flatnonzero(chosen & ~exchanges.columns.shared_connection)
    first, stop = turn[row], stop[row]
    cut = np.append(np.flatnonzero(~known), len(units))
    stop = np.minimum(stop, cut[np.searchsorted(cut, first)])
    h2 = units.may_be_h2(first)
    framed = h2 & ~units.may_be_h1(first)
    chunked = stop - first > 1
    chunked &= units.content[stop - 1] == np.where(framed, _EMPTY_FRAME, _LAST_CHUNK)
    stop = stop - chunked
    kept = stop - first >= 3
    if not kept.any():
        return None
    return _Answers(
        units,
        row[kept],
        first[kept],
        (stop - first)[kept],
        (chunked & ~h2)[kept],
        np.where(framed, _DONE_H2, _DONE_H1)[kept],
        np.zeros(int(kept.sum())),
        np.zeros(int(kept.sum())),
    )


def _trust(answers: _Answers) -> Bools:
    """Which are taken for streams; writes how surely, and their usual gaps."""
    size, start = answers.size, answers.start
    longest = np.maximum.reduceat(size, start)
    as_long = np.add.reduceat(size == longest[answers.owner], start, dtype=np.int64)
    # Downloads: in equal pieces, or stopped again and again by a window.
    total = np.add.reduceat(size, start, dtype=np.int64)
    other = (longest >= _FULL_BYTES) & (as_long >= _FULL_RECORDS) & (2 * as_long * longest >= total)
    large = np.where(size > _LARGE_BYTES, size, 0)
    other |= 2 * np.add.reduceat(large, start, dtype=np.int64) > total
    # Gaps between groups; the first group is the header section, and its gap none of a stream.
    gaps = np.diff(answers.usable[answers.group], prepend=0)
    owner = answers.owner[answers.group]
    later = np.arange(len(gaps)) - answers.group_start[owner] >= 2
    gaps, owner = gaps[later], owner[later]
    number = np.maximum(answers.groups - 2, 0)
    answers.usual_gap = medians(ascending(gaps, number), number)
    usual = np.fmax(answers.usual_gap, PAUSE_NS)
    near = np.bincount(owner[gaps <= _STEADY * usual[owner]], minlength=len(answers))
    steady = (usual <= _SLOWEST_NS) & (near / np.maximum(number, 1) >= _STEADY_SHARE)
    steady &= answers.groups > MIN_PAUSES
    weak = answers.chunked & (answers.groups > CHUNKED_PAUSES)
    answers.confidence = np.where(steady, CONFIDENCE, CHUNKED_CONFIDENCE)
    return (steady | weak) & ~other


def _each(answers: _Answers) -> _Marks:
    """Events where each record is one."""
    size, start, owner, place = answers.size, answers.start, answers.owner, answers.place
    second = place[answers.group[answers.group_start + 1]]
    # The first record is the header section, and what is behind it in the same write.
    behind = place >= second[owner]
    number = answers.count - second
    usual = medians(ascending(size[behind], number), number)
    group = answers.group
    alone = np.diff(group, append=len(size)) == 1
    small = (size[group] < _PING_SHARE * usual[owner[group]]) & (size[group] <= _PING_BYTES)
    ping = np.zeros(len(size), np.bool_)
    ping[group[alone & small]] = True
    first = _first_content(answers, second, behind & ~ping)
    kind = np.where(ping, _PING, np.where(place < first[owner], _ROLE, _CONTENT)).astype(np.uint8)
    last = start + answers.count - 1
    kind[last[size[last] == answers.done]] = _END
    events = np.flatnonzero((place >= 1) & (place <= MAX_EVENTS))
    unit = (answers.first[owner] + place)[events]
    return _Marks(answers.row[owner[events]], unit, unit, kind[events])


def _first_content(answers: _Answers, second: Ints, candidate: Bools) -> Ints:
    """The place of the record with the first generated content.

    Args:
        answers: whose.
        second: the place where their second groups begin.
        candidate: the records that it may be.
    """
    owner, place, size = answers.owner, answers.place, answers.size
    at = np.flatnonzero(candidate)
    number = np.bincount(owner[at], minlength=len(answers))
    begin = starts_of(number)
    result = second.copy()  # if nothing but pings is left
    some = number > 0
    result[some] = place[at[begin[some]]]
    # The opening event may have been held back behind the header section.
    may = np.flatnonzero((number >= MIN_PAUSES) & (second == 1))
    if len(may):
        opening, following = at[begin[may]], at[begin[may] + 1]
        others = size[at[places(begin[may] + 1, number[may] - 1)]]
        most = quantiles(ascending(others, number[may] - 1), number[may] - 1, 0.9)
        held = (size[opening] > most + _OPENING_MORE) & answers.begins[following]
        result[may[held]] = place[following[held]]
    # Header section, opening event, content: all written at once.
    times = answers.usable[answers.group]
    gap = times[answers.group_start + 1] - times[answers.group_start]
    result[(second >= 3) & (gap <= 2 * answers.usual_gap)] = 2
    return result


def _cut(answers: _Answers, number: int) -> _Marks:
    """Events of one answer whose records are pieces of them."""
    part = slice(answers.start[number], answers.start[number] + answers.count[number])
    usable, size = answers.usable[part], answers.size[part]
    begins = np.flatnonzero(answers.begins[part])
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
    last = np.array(ends, np.int64)
    kind = np.full(len(last), _CONTENT, np.uint8)
    gaps = np.diff(usable[last])
    if len(gaps) >= 2 and gaps[0] > 2 * max(float(np.median(gaps)), PAUSE_NS):
        kind[0] = _ROLE  # the model began to work behind it
    first = np.append(1, last + 1)[: len(last)]
    shift = answers.first[number]
    return _Marks(np.full(len(last), answers.row[number]), first + shift, last + shift, kind)


def _events(units: Units, marks: _Marks) -> Events:
    """What the records say of the events."""
    first, last = marks.first, marks.last
    count = len(last)
    content = np.concatenate(([0], np.cumsum(units.content, dtype=np.int64)))
    return Events(
        exchange_no=np.zeros(count, np.int32),
        seen_ns=units.seen_ns[last],
        in_order_ns=units.usable_ns[last],
        time_ns=units.usable_ns[last],
        kind=marks.kind,
        size_bytes=(content[last + 1] - content[first]).astype(np.int32),
        generated_chars=np.zeros(count, np.int32),
        output_tokens=np.full(count, -1, np.int32),
        packet_no=units.last_packet_no[last],
        offset=units.offset[first],
        end_offset=units.offset[last] + units.size[last],
    )
