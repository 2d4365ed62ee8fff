"""Events of streamed answers, out of their exchanges: table `events`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.events import EVENT_KIND_CODE, Events
from capture_analyzer.model.exchanges import Exchanges
from capture_analyzer.model.messages import EventRows, MessageEvent, StreamFacts
from capture_analyzer.pipeline.lists import ascending, places, starts_of

MIN_GAPS: Final = 4
"""With fewer gaps their median says little of what is usual."""

AT_ONCE_NS: Final = 1_000_000
"""Events that become usable closer than this came in one write, or waited for the same thing."""


_COLUMN: Final = {"usable_ns": "time_ns"}
"""Columns of table `events` that a row calls by another name."""


def collect_events(exchanges: Exchanges) -> Events:
    """The events of all exchanges, by exchange, then stream offset.

    Writes the usual pace of each stream into its facts.
    """
    if not exchanges.streams:
        return Events()
    numbers = np.array(sorted(exchanges.streams), np.int32)
    streams = [exchanges.streams[number] for number in numbers.tolist()]
    rows = _in_columns(streams)
    tables = {id(part.table): part.table for part in rows}
    lengths = [len(table) for table in tables.values()]
    begin = dict(zip(tables, starts_of(np.array(lengths)).tolist(), strict=True))
    first = np.array([begin[id(part.table)] + part.first for part in rows])
    count = np.array([len(part) for part in rows])
    starts = starts_of(count)
    index = places(first, count)
    events = Events(exchange_no=np.repeat(numbers, count))
    for field in dataclasses.fields(Events):
        if field.name != "exchange_no":
            setattr(events, field.name, _taken(list(tables.values()), field.name, index))
    cadences = _cadences(events, np.repeat(np.arange(len(streams)), count), len(streams))
    for stream, start, part, cadence in zip(streams, starts.tolist(), rows, cadences, strict=True):
        stream.events = EventRows(events, start, start + len(part))
        stream.cadence_ns = cadence
    return events


def _taken(tables: Sequence[Events], name: str, index: NDArray[np.int64]) -> NDArray[Any]:
    """Elements of a column of all tables, which give it up: memory holds one column twice only."""
    joined = np.concatenate([getattr(table, name) for table in tables])
    for table in tables:
        setattr(table, name, np.empty(0, joined.dtype))
    column: NDArray[Any] = joined[index]
    return column


def _in_columns(streams: Sequence[StreamFacts]) -> list[EventRows]:
    """The events of each stream as rows of a table; those that are a list get one together."""
    listed: list[MessageEvent] = []
    bounds = []
    for stream in streams:
        if not isinstance(stream.events, EventRows):
            listed += stream.events
            bounds.append(len(listed))
    table = Events(exchange_no=np.zeros(len(listed), np.int32))
    for field, column in zip(MessageEvent._fields, zip(*listed, strict=True), strict=False):
        values = [EVENT_KIND_CODE[kind] for kind in column] if field == "kind" else column
        name = _COLUMN.get(field, field)
        setattr(table, name, np.array(values, getattr(table, name).dtype))
    begins = iter([0, *bounds])
    ends = iter(bounds)
    return [
        stream.events
        if isinstance(stream.events, EventRows)
        else EventRows(table, next(begins), next(ends))
        for stream in streams
    ]


def _cadences(events: Events, owner: NDArray[np.int64], streams: int) -> list[int | None]:
    """Median gap between the instants at which generated content became usable, by stream.

    Content that comes at once counts as one: a stream that is let go four times a second has
    a pace of 250 ms, however many events each time has.
    """
    content = events.kind == EVENT_KIND_CODE["content"]
    times, owner = events.time_ns[content], owner[content]
    gaps = np.diff(times)
    kept = (owner[1:] == owner[:-1]) & (gaps >= AT_ONCE_NS)
    gaps, owner = gaps[kept], owner[1:][kept]
    number = np.bincount(owner, minlength=streams)
    middle = starts_of(number) + (number - 1) // 2
    middles = np.append(ascending(gaps, number), 0)[np.where(number >= MIN_GAPS, middle, -1)]
    return [
        gap if enough else None
        for gap, enough in zip(middles.tolist(), (number >= MIN_GAPS).tolist(), strict=True)
    ]
