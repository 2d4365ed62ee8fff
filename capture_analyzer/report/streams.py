"""Streamed answers in a report: their events, how evenly these came, and where the answer paused.

A report holds the events of the most interesting streams, up to a fixed number; of a very long
stream it holds a choice. Figures, histogram and pauses are made here, from all events of a
stream, so that they are right in either case.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Analysis, Tables
from capture_analyzer.model.events import EVENT_KIND_CODE, EVENT_KINDS
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.messages import StreamFacts
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.report import packet_rows
from capture_analyzer.report.strings import StringTable

MAX_EVENTS: Final = 30_000  # in a report: at some 20 bytes an event, 600 KB
MAX_STREAM_EVENTS: Final = 2_000  # of one stream; more are closer than the pixels of a screen
MAX_STREAMS: Final = 1_000  # whose figures add some 300 bytes each
MAX_PAUSES: Final = 100  # of one stream, the longest; more can't be labelled

PAUSE_NS: Final = 200_000_000  # a gap from here, and
PAUSE_MEDIANS: Final = 5  # more than so many times the stream's median gap, is a pause

SHORTEST_NS: Final = 1_000_000  # shorter gaps share the first bar of a histogram
LONGEST_NS: Final = 10**13  # longer ones share the last
MAX_BARS: Final = 36  # in a histogram, between those two

_BOUNDS: Final = (
    (106, 118, 132, 150, 170, 190, 212, 236, 265, 300, 335, 375, 425, 475, 530, 600, 670, 750, 850,
     950),
    (112, 140, 180, 224, 280, 355, 450, 560, 710, 900),
    (125, 200, 315, 500, 800),
    (315,),
)  # fmt: skip
"""Bounds of bars within a decade, finer and coarser, from preferred numbers (ISO 3).

They are chosen so that round lengths (10, 20, 50 ms) lie in the middle of a bar: a cadence of
20 ms with a little jitter is one bar, not two.
"""

_CONTENT: Final = EVENT_KIND_CODE["content"]


@quick_dataclass
class Gaps:
    """Gaps between the instants at which content of a stream became usable.

    Attributes:
        ns: lengths, in order of time; shape (n,).
        from_ns: where they begin; shape (n,).
    """

    ns: NDArray[np.int64]
    from_ns: NDArray[np.int64]

    @property
    def median_ns(self) -> int:
        """The lower median; 0 without gaps."""
        return self._at_rank(1, 2)

    @property
    def most_ns(self) -> int:
        """The 95th percentile by nearest rank; 0 without gaps."""
        return self._at_rank(19, 20)

    def _at_rank(self, part: int, whole: int) -> int:
        if not len(self.ns):
            return 0
        rank = -(-len(self.ns) * part // whole)
        return int(np.sort(self.ns)[max(rank - 1, 0)])

    def pauses(self) -> NDArray[np.int64]:
        """Places of the gaps that are far above the stream's own cadence, by time."""
        long = np.flatnonzero((self.ns >= PAUSE_NS) & (self.ns > PAUSE_MEDIANS * self.median_ns))
        if len(long) > MAX_PAUSES:
            longest = np.argsort(-self.ns[long], kind="stable")[:MAX_PAUSES]
            long = np.sort(long[longest])
        return long


def gaps(times: NDArray[np.int64], kinds: NDArray[np.uint8]) -> Gaps:
    """Gaps between events with content; between all where fewer than two have any.

    Events that became usable together have no gap between them.
    """
    content = times[kinds == _CONTENT]
    instants = np.unique(content if len(content) > 1 else times)
    return Gaps(np.diff(instants), instants[:-1])


def edges(lengths: NDArray[np.int64]) -> list[int]:
    """Bounds of a histogram's bars in ns: round, growing evenly, at most MAX_BARS between them.

    What is below the first and from the last on has a bar of its own.
    """
    inside = lengths[(lengths >= SHORTEST_NS) & (lengths < LONGEST_NS)]
    if not len(inside):
        return [SHORTEST_NS]
    least, most = int(inside.min()), int(inside.max())
    for decade in _BOUNDS:
        steps = [SHORTEST_NS]
        steps += [bound * 10**power for power in range(4, 11) for bound in decade]
        steps.append(LONGEST_NS)
        first = max(place for place, step in enumerate(steps) if step <= least)
        last = min(place for place, step in enumerate(steps) if step > most)
        if last - first <= MAX_BARS:
            break
    return steps[first : last + 1]


def blamed(tables: Tables, codes: NDArray[np.int64], exchange_no: int, of: Gaps) -> list[int]:
    """For each gap the code of the ledger time that fills most of it; -1 where there is none.

    `codes` holds one of the report's cause codes for each ledger entry.
    """
    rows = tables.ledger.rows_of(exchange_no)
    starts = tables.ledger.from_ns[rows]
    if not len(of.ns) or rows.start == rows.stop:
        return [-1] * len(of.ns)
    ends = tables.ledger.to_ns[rows]
    bounds = np.concatenate((of.from_ns, [of.from_ns[-1] + of.ns[-1]]))
    points = np.unique(np.concatenate((bounds, starts, ends)))
    points = points[(points >= bounds[0]) & (points <= bounds[-1])]
    middles, lengths = points[:-1], np.diff(points)
    gap = np.searchsorted(bounds, middles, "right") - 1
    entry = np.searchsorted(starts, middles, "right") - 1
    known = (entry >= 0) & (middles < ends[np.maximum(entry, 0)])
    highest = int(codes.max()) + 1
    keys = gap[known] * highest + codes[rows][entry[known]]
    distinct, inverse = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, inverse, lengths[known])
    result = [-1] * len(of.ns)
    best = [0] * len(of.ns)
    for key, ns in zip(distinct.tolist(), sums.tolist(), strict=True):
        place, code = divmod(key, highest)
        if ns > best[place]:
            best[place], result[place] = ns, code
    return result


def thinned(
    times: NDArray[np.int64], waits: NDArray[np.int64], kinds: NDArray[np.uint8], most: int
) -> NDArray[np.int64]:
    """Places of the events to keep, at most `most`, ascending.

    Kept are both ends, the first content, the events about the longest gaps, those that waited
    longest after they were seen, and of the rest every so many.
    """
    count = len(times)
    if count <= most:
        return np.arange(count)
    keep = np.zeros(count, np.bool_)
    keep[[0, -1]] = True
    keep[np.flatnonzero(kinds == _CONTENT)[:1]] = True
    share = most // 8
    longest = np.argsort(-np.diff(times), kind="stable")[:share]
    keep[longest] = True
    keep[longest + 1] = True
    latest = np.argsort(-waits, kind="stable")[:share]
    keep[latest[waits[latest] > 0]] = True
    rest = np.flatnonzero(~keep)
    keep[rest[:: -(-len(rest) // (most - int(keep.sum())))]] = True
    return np.flatnonzero(keep)


def columns(
    analysis: Analysis, codes: NDArray[np.int64], unit: int, strings: StringTable
) -> dict[str, Any]:
    """Streams with their facts, and the events of those that are drawn.

    `unit` is the number of nanoseconds in which times are counted; `codes` as in `blamed`.
    `assets/events.js` reads it back; the two must change together. Of the events, `time` is
    the difference to the event before, of a stream's first to its request's first byte; `late`
    holds [place, seen so long before, in order so long before] of events that waited.
    """
    tables = analysis.tables
    counts = np.bincount(tables.events.exchange_no, minlength=len(tables.exchanges)).tolist()
    result: dict[str, Any] = {
        "kinds": list(EVENT_KINDS),
        "facts": [
            [row.exchange_no, counts[row.exchange_no], *_facts(row, strings)]
            for row in tables.exchanges
            if row.stream is not None or counts[row.exchange_no]
        ],
        "requests": [
            [row.exchange_no, strings.number(row.model), row.max_tokens]
            for row in tables.exchanges
            if row.model is not None or row.max_tokens is not None
        ],
        **{name: [] for name in ("drawn", "time", "kind", "bytes", "packet", "late")},
    }
    for exchange_no, most in _chosen(analysis, counts):
        _add_events(result, tables, codes, tables.exchanges[exchange_no], most, unit)
    return result


def _facts(row: Exchange, strings: StringTable) -> list[Any]:
    facts = row.stream or StreamFacts()
    return [
        int(facts.ended),
        int(facts.marker_known),
        strings.number(facts.finish),
        strings.number(facts.error_code),
        facts.input_tokens,
        facts.output_tokens,
        int(facts.undecoded),
        round(facts.confidence, 2) if facts.inferred else None,
    ]


def _chosen(analysis: Analysis, counts: list[int]) -> list[tuple[int, int]]:
    """Exchanges whose events are drawn, ascending, and how many of each."""
    room = MAX_EVENTS
    chosen: list[tuple[int, int]] = []
    for exchange_no in packet_rows.interesting(analysis):
        most = min(counts[exchange_no], MAX_STREAM_EVENTS)
        if 0 < most <= room and len(chosen) < MAX_STREAMS:
            chosen.append((exchange_no, most))
            room -= most
    return sorted(chosen)


def _add_events(
    result: dict[str, Any],
    tables: Tables,
    codes: NDArray[np.int64],
    exchange: Exchange,
    most: int,
    unit: int,
) -> None:
    events = tables.events
    rows = events.rows_of(exchange.exchange_no)
    times, kinds = events.time_ns[rows], events.kind[rows]
    waits = times - events.seen_ns[rows]
    ordered = times - events.in_order_ns[rows]
    between = gaps(times, kinds)
    kept = thinned(times, waits, kinds, most)
    first = len(result["time"])
    late = np.flatnonzero((waits[kept] != 0) | (ordered[kept] != 0))
    result["drawn"].append(
        [
            exchange.exchange_no,
            len(kept),
            int(np.count_nonzero(kinds == _CONTENT)),
            len(between.ns),
            between.median_ns // unit,
            between.most_ns // unit,
            int(between.ns.max(initial=0)) // unit,
            _pauses(between, exchange.request_start_ns, unit),
            *_histogram(between, blamed(tables, codes, exchange.exchange_no, between), unit),
        ]
    )
    shown = (times[kept] // unit).tolist()
    result["time"] += np.diff(shown, prepend=exchange.request_start_ns // unit).tolist()
    result["kind"] += kinds[kept].tolist()
    result["bytes"] += events.size_bytes[rows][kept].tolist()
    result["packet"] += np.diff(events.packet_no[rows][kept], prepend=0).tolist()
    result["late"] += [
        [first + place, waits[kept[place]].item() // unit, ordered[kept[place]].item() // unit]
        for place in late.tolist()
    ]


def _pauses(between: Gaps, zero: int, unit: int) -> list[int]:
    """[from, length, from, length ...], counted from the request's first byte."""
    return [
        number
        for place in between.pauses().tolist()
        for number in (
            (int(between.from_ns[place]) - zero) // unit,
            int(between.ns[place]) // unit,
        )
    ]


def _histogram(between: Gaps, codes: list[int], unit: int) -> list[Any]:
    """Bounds, and [bar, cause code, number] of the gaps in each bar by what filled them."""
    bounds = edges(between.ns)
    bars = np.searchsorted(np.array(bounds), between.ns, "right").tolist()
    numbers: dict[tuple[int, int], int] = {}
    for key in zip(bars, codes, strict=True):
        numbers[key] = numbers.get(key, 0) + 1
    return [
        [bound // unit for bound in bounds],
        [[bar, code, number] for (bar, code), number in sorted(numbers.items())],
    ]
