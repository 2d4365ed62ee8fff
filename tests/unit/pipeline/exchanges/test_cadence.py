"""Streams inferred from encrypted records: what is one, its events, the first content."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from capture_analyzer.api import analyze
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.events import EVENT_KINDS
from capture_analyzer.model.exchanges import Exchange, Exchanges
from capture_analyzer.pipeline.exchanges.cadence import add_streams
from capture_analyzer.pipeline.exchanges.flights import find_flights
from capture_analyzer.pipeline.exchanges.units import Speech, Units

MS = 1_000_000

Record = tuple[float, int]
"""When it was there (ms behind the request), bytes of content."""


def inferred(
    *records: Record, h2: bool = False, shared: bool = False, slow_ms: float = 0
) -> Exchange:
    """An exchange with these records in its answer; each took `slow_ms` to arrive."""
    times = np.array([0, *(time for time, _ in records)]) * MS
    content = np.array([400, *(size for _, size in records)], np.int32)
    numbers = np.arange(1, len(times) + 1, dtype=np.int32)
    usable = times.astype(np.int64)
    seen = usable - round(slow_ms * MS)
    seen[0] = 0
    units = Units(
        connection_no=np.zeros(len(times), np.int32),
        from_client=numbers == 1,
        first_packet_no=numbers,
        last_packet_no=numbers,
        seen_ns=seen,
        usable_ns=usable,
        offset=np.concatenate(([0, 0], np.cumsum(content[1:-1] + 22))).astype(np.int64),
        size=content + 22,
        content=content,
        speech=Speech(
            may_be_h2=np.array([h2]),
            may_be_h1=np.array([not h2]),
            keeps_start=np.array([True]),
            overhead=np.array([17], np.int32),
            round_trip_ns=np.array([30 * MS]),
        ),
    )
    row = Exchange(0, 0, None, "opaque", "opaque", True, 0, 0, 0, shared_connection=shared)
    exchanges = Exchanges.of([row])
    add_streams(exchanges, find_flights(units))
    row.stream = exchanges.streams.get(0)
    row.ttft_ns = (
        None if exchanges.columns.ttft_ns[0] == NO_TIME else int(exchanges.columns.ttft_ns[0])
    )
    return row


def kinds(exchange: Exchange) -> str:
    """The first letters of the kinds of its events."""
    assert exchange.stream is not None
    return "".join(event.kind[0] for event in exchange.stream.events)


TOKENS = [(350.0 + 25 * index, 182 + index % 5) for index in range(12)]


def test_header_section_and_opening_event_are_no_content() -> None:
    found = inferred((20, 182), (20, 197), *TOKENS)
    assert kinds(found) == "r" + 12 * "c"
    assert found.ttft_ns == 350 * MS
    assert found.stream is not None
    assert (found.stream.inferred, found.stream.confidence) == (True, 0.7)
    first = found.stream.events[1]
    assert (first.usable_ns, first.packet_no, first.size_bytes) == (350 * MS, 4, 182)


def test_all_at_once_holds_content() -> None:
    found = inferred((350, 182), (350, 197), (350, 183), *[(t + 25, s) for t, s in TOKENS])
    assert kinds(found)[:3] == "rcc"
    assert found.ttft_ns == 350 * MS


def test_an_opening_event_that_was_held_back_is_no_content() -> None:
    found = inferred((20, 182), (92, 197), *TOKENS)
    assert kinds(found)[:2] == "rc"
    assert found.ttft_ns == 350 * MS


def test_pings_are_no_content() -> None:
    found = inferred((20, 182), (20, 197), (120, 13), (220, 13), *TOKENS)
    assert kinds(found)[:4] == "rppc"
    assert found.ttft_ns == 350 * MS


@pytest.mark.parametrize(("h2", "done", "last"), [(False, 19, 5), (True, 23, 9)])
def test_the_end_marker(h2: bool, done: int, last: int) -> None:
    found = inferred((20, 182), (20, 197), *TOKENS, (650, done), (650, last), h2=h2)
    assert kinds(found).endswith("ce")
    assert found.stream is not None
    assert found.stream.ended


def test_few_parts_of_chunked_content_are_less_certain() -> None:
    found = inferred((20, 182), (400, 1600), (630, 1700), (630, 5))
    assert kinds(found) == "cc"
    assert found.stream is not None
    assert found.stream.confidence == 0.5
    assert inferred((20, 182), (400, 1600), (630, 1700)).stream is None, "no end of chunks"


def test_tiny_records_are_pieces_of_events() -> None:
    records: list[Record] = [(20, 182)]
    for begin in (20, *(350 + 30 * index for index in range(10))):
        records += [(begin + index * 0.1, size) for index, size in enumerate([1, 16, 7, 3] * 5)]
    found = inferred(*records)
    assert kinds(found) == "r" + 10 * "c"
    assert found.ttft_ns == round(351.9 * MS)


def test_what_is_no_stream() -> None:
    assert inferred((40, 182), (40, 5000)).stream is None, "an answer at once"
    pieces = [(40.0 + 30 * index, 1369) for index in range(12)]
    assert inferred((40, 182), *pieces).stream is None, "equal pieces of a download"
    windows = [(40.0 + 30 * index, 8000 + index) for index in range(12)]
    assert inferred((40, 182), *windows).stream is None, "a download by windows"
    assert inferred((20, 182), *TOKENS, shared=True).stream is None, "several answers"
    assert inferred((20, 182), *TOKENS, slow_ms=24).stream is None, "pauses inside the records"
    seldom = [(3000.0 * index, 180 + index % 5) for index in range(1, 12)]
    assert inferred((20, 182), *seldom).stream is None, "notices, not a stream"


def _streams(path: Path, *, keys: bool) -> tuple[Tables, dict[tuple[int, int], Exchange]]:
    logs = [path / "keys.log"] if keys else []
    tables = analyze(path / "client.pcap", keylogs=logs).tables
    return tables, {(x.connection_no, x.request_start_ns): x for x in tables.exchanges}


def _content_ns(tables: Tables, exchange: Exchange) -> list[int]:
    rows = tables.events.rows_of(exchange.exchange_no)
    content = tables.events.kind[rows] == EVENT_KINDS.index("content")
    times: list[int] = tables.events.time_ns[rows][content].tolist()
    return times


def _stalls(times: list[int]) -> list[tuple[int, int]]:
    return [(a, b) for a, b in itertools.pairwise(times) if b - a >= 200 * MS]


@pytest.mark.shared
@pytest.mark.parametrize(
    "variant",
    [
        "h1-healthy",
        "h1-burst",
        "h1-loss",
        "h1-loss-twice",
        "h1-multi-token",
        "h1-nagle",
        "h1-nginx-buffering-off",
        "h1-stall",
        "h1-tiny-records",
        "h2-healthy",
        "h2-stall",
    ],
)
def test_without_keys_as_with_them(lab: Path, variant: str) -> None:
    """The first content within 10 ms, every event within 10 ms, every stall of 200 ms."""
    keyed, known = _streams(lab / "sse-llm" / variant, keys=True)
    blind, guessed = _streams(lab / "sse-llm" / variant, keys=False)
    assert known.keys() == guessed.keys()
    for key, exchange in known.items():
        guess = guessed[key]
        assert exchange.ttft_ns is not None
        assert guess.ttft_ns is not None
        assert abs(guess.ttft_ns - exchange.ttft_ns) < 10 * MS
        real, times = _content_ns(keyed, exchange), _content_ns(blind, guess)
        assert max(min(abs(time - other) for other in times) for time in real) < 10 * MS
        assert _stalls(times) == _stalls(real)


@pytest.mark.shared
@pytest.mark.parametrize(
    "run",
    ["tls13-h1/main", "h2-multiplex/main", "h2-flowcontrol/late-updates", "h2-flowcontrol/ample"],
)
def test_no_streams_where_there_are_none(lab: Path, run: str) -> None:
    if not (lab / run).is_dir():
        pytest.skip(f"no run {run}")
    _, guessed = _streams(lab / run, keys=False)
    assert all(exchange.stream is None for exchange in guessed.values())
