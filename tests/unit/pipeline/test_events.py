"""Table `events`, and the usual pace of a stream."""

from __future__ import annotations

from types import ModuleType

import pytest

from capture_analyzer.model.events import EVENT_KINDS
from capture_analyzer.model.messages import MessageEvent, StreamFacts
from capture_analyzer.pipeline.events import collect_events

MS = 1_000_000


def stream(*rows: tuple[float, str]) -> StreamFacts:
    """Events by (time in ms, kind)."""
    events = [
        MessageEvent(
            int(t * MS), int(t * MS), int(t * MS), 7, kind, 10, 3, -1, 100 * n, 100 * n + 90
        )
        for n, (t, kind) in enumerate(rows)
    ]
    return StreamFacts(events=events)


@pytest.mark.parametrize(
    ("times", "pace"),
    [
        ([0, 20, 50, 70, 100], 20),  # of an even number of gaps the lower
        ([0, 20, 50, 70], None),  # too few
        ([0, 20, 50, 750, 780, 800], 30),  # a stall does not change it
        ([0, 0.1, 400, 400.2, 800, 1200, 1200.5, 1600], 399.8),  # let go in bursts
        ([0, 0, 0, 0, 0, 0, 0], None),
        ([], None),
    ],
)
def test_pace(hand_made: ModuleType, times: list[float], pace: float | None) -> None:
    exchange = hand_made.exchange(0, 0, 1, stream=stream(*((t, "content") for t in times)))
    collect_events([exchange])
    expected = None if pace is None else pytest.approx(pace * MS)
    assert exchange.stream.cadence_ns == expected


def test_pace_is_that_of_generated_content(hand_made: ModuleType) -> None:
    rows = [(100.0 * n, "ping") for n in range(20)] + [
        (2000.0 + 30 * n, "content") for n in range(6)
    ]
    exchange = hand_made.exchange(0, 0, 1, stream=stream(*rows))
    collect_events([exchange])
    assert exchange.stream.cadence_ns == 30 * MS


def test_columns(hand_made: ModuleType) -> None:
    exchanges = [
        hand_made.exchange(0, 0, 1),
        hand_made.exchange(1, 0, 1, stream=stream((5, "role"), (9, "content"))),
    ]
    events = collect_events(exchanges)
    assert events.exchange_no.tolist() == [1, 1]
    assert [EVENT_KINDS[kind] for kind in events.kind.tolist()] == ["role", "content"]
    assert events.offset.tolist() == [0, 100]
    assert events.end_offset.tolist() == [90, 190]
    assert len(collect_events(exchanges[:1])) == 0
