"""Events of exchanges come together, from lists and from columns."""

from __future__ import annotations

import numpy as np

from capture_analyzer.model.events import EVENT_KIND_CODE, Events
from capture_analyzer.model.exchanges import Exchange, Exchanges
from capture_analyzer.model.messages import EventRows, MessageEvent, StreamFacts
from capture_analyzer.pipeline.events import collect_events

MS = 1_000_000


def event(at_ms: int, kind: str = "content", packet_no: int = 1) -> MessageEvent:
    return MessageEvent(at_ms * MS, at_ms * MS + 1, at_ms * MS + 2, packet_no, kind, 5, 6, 7, 8, 9)


def in_columns(events: list[MessageEvent]) -> EventRows:
    """These events, with another one before and behind them in their table."""
    rows = [event(-1, "ping"), *events, event(-1, "ping")]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    table = Events(
        exchange_no=np.zeros(len(rows), np.int32),
        seen_ns=columns[0],
        in_order_ns=columns[1],
        time_ns=columns[2],
        packet_no=columns[3].astype(np.int32),
        kind=np.array([EVENT_KIND_CODE[row.kind] for row in rows], np.uint8),
        size_bytes=columns[5].astype(np.int32),
        generated_chars=columns[6].astype(np.int32),
        output_tokens=columns[7].astype(np.int32),
        offset=columns[8],
        end_offset=columns[9],
    )
    return EventRows(table, 1, 1 + len(events))


def exchange(number: int, stream: StreamFacts | None) -> Exchange:
    return Exchange(number, 0, None, "h2", "sse", False, 0, 0, 0, stream=stream)


def test_lists_and_columns_come_together_in_order() -> None:
    first = [event(10), event(40, "role", 2)]
    second = [event(20, packet_no=5), event(30, "end", 6)]
    third = [event(50, "usage", 9)]
    rows = [
        exchange(0, StreamFacts(first)),
        exchange(1, None),
        exchange(2, StreamFacts(in_columns(second))),
        exchange(3, StreamFacts()),
        exchange(4, StreamFacts(third)),
    ]
    events = collect_events(Exchanges.of(rows))
    assert events.exchange_no.tolist() == [0, 0, 2, 2, 4]
    assert events.packet_no.tolist() == [1, 2, 5, 6, 9]
    assert events.time_ns.tolist() == [one.usable_ns for one in first + second + third]
    for row, expected in zip(rows, (first, None, second, [], third), strict=True):
        if row.stream is not None:
            assert list(row.stream.events) == expected
            assert len(row.stream.events) == len(expected or ())
    assert collect_events(Exchanges.of([])).exchange_no.tolist() == []


def test_pace_is_the_median_gap_of_content() -> None:
    steady = [event(at) for at in (0, 10, 20, 30, 1000)]
    at_once = [event(at) for at in (0, 0, 10, 10, 20, 20, 30, 30)]  # three gaps only
    mixed = [event(0), event(3, "ping"), *(event(at) for at in (8, 20, 26, 90, 94))]
    rows = [exchange(no, StreamFacts(one)) for no, one in enumerate((steady, at_once, mixed, []))]
    collect_events(Exchanges.of(rows))
    assert [row.stream.cadence_ns for row in rows] == [10 * MS, None, 8 * MS, None]
