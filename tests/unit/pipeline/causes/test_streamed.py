"""Gaps of streamed answers, on events and segments made by hand."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.events import Events
from capture_analyzer.pipeline.causes.sending import Sending
from capture_analyzer.pipeline.causes.streamed import find_gaps

MS = 1_000_000

Rows = list[tuple[float, float]]


def sending(*segments: tuple[float, bool]) -> Sending:
    """Segments of 100 bytes on connection 0: (time in ms, free)."""
    count = len(segments)
    seen = np.array([int(time * MS) for time, _ in segments])
    return Sending(
        stream=np.ones(count, np.int64),
        start=np.arange(count) * 100,
        end=np.arange(1, count + 1) * 100,
        seen=seen,
        left=seen.copy(),
        packet_no=np.arange(1, count + 1, dtype=np.int32),
        free=np.array([free for _, free in segments]),
    )


def gaps(
    hand_made: ModuleType,
    segments: Sending,
    events: list[tuple[int, float, str]],
    *,
    head: float | None = 10,
    last: int | None = None,
    cadence: float | None = None,
) -> list[tuple[float, float, int, int]]:
    """Gaps of one answer; its events are (segment, usable in ms, kind)."""
    table: Events = hand_made.events(*((0, time, kind) for _, time, kind in events))
    table.offset[:] = [100 * segment for segment, _, _ in events]
    table.end_offset[:] = table.offset + 100
    found = find_gaps(
        table,
        segments,
        np.zeros(1, np.int32),
        np.array([NO_TIME if head is None else int(head * MS)]),
        np.array([1], np.int32),
        np.array([len(segments.seen) if last is None else last], np.int32),
        np.array([NO_TIME if cadence is None else int(cadence * MS)]),
    )
    rows = zip(
        (found.from_ns / MS).tolist(),
        (found.to_ns / MS).tolist(),
        found.packet_a.tolist(),
        found.packet_b.tolist(),
        strict=True,
    )
    return sorted(rows)


def test_from_the_head_to_the_first_event_and_between_events(hand_made: ModuleType) -> None:
    found = gaps(
        hand_made,
        sending((10, True), (50, True), (80, True)),
        [(1, 50, "content"), (2, 80, "content")],
    )
    assert found == [(10, 50, 1, 2), (50, 80, 11, 3)]


def test_nothing_is_shown_where_a_segment_may_have_been_held(hand_made: ModuleType) -> None:
    found = gaps(
        hand_made,
        sending((10, True), (50, False), (80, True)),
        [(1, 50, "content"), (2, 80, "content")],
    )
    assert found == [(50, 80, 11, 3)]


def test_a_gap_ends_where_the_burst_with_the_event_began(hand_made: ModuleType) -> None:
    """Other bytes came in front of the event's, all in one burst."""
    found = gaps(
        hand_made,
        sending((10, True), (50, True), (50.2, False), (50.4, False)),
        [(3, 50.4, "content")],
    )
    assert found == [(10, 50, 1, 2)]


def test_what_waited_behind_a_hole_leaves_no_gap(hand_made: ModuleType) -> None:
    """The second event was seen at 60 but not usable before 90, when the first was repeated."""
    found = gaps(
        hand_made,
        sending((10, True), (90, False), (60, False), (120, True)),
        [(1, 90, "content"), (2, 90, "content"), (3, 120, "content")],
    )
    assert found == [(90, 120, 12, 4)]


def test_the_end_of_the_answer_is_awaited_too(hand_made: ModuleType) -> None:
    found = gaps(hand_made, sending((10, True), (50, True), (95, True)), [(1, 50, "content")])
    assert found == [(10, 50, 1, 2), (50, 95, 11, 3)]


def test_a_segment_that_was_late_ends_the_gap_when_it_left(hand_made: ModuleType) -> None:
    segments = sending((10, True), (50, True), (480, True))
    segments.left[2] = 80 * MS
    found = gaps(hand_made, segments, [(1, 50, "content"), (2, 480, "content")])
    assert found == [(10, 50, 1, 2), (50, 80, 11, 3)]


def test_an_answer_without_its_head_begins_with_its_second_event(hand_made: ModuleType) -> None:
    found = gaps(
        hand_made,
        sending((10, True), (50, True), (80, True)),
        [(1, 50, "content"), (2, 80, "content")],
        head=None,
    )
    assert found == [(50, 80, 11, 3)]


def test_an_event_that_the_capture_lacks_has_no_gap(hand_made: ModuleType) -> None:
    found = gaps(hand_made, sending((10, True)), [(5, 50, "content")])
    assert found == []


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("content", "content"), [(10, 50), (50, 80), (80, 780)]),
        (("ping", "content"), [(10, 50), (50, 780)]),  # before the first content: not paced
    ],
)
def test_a_long_gap_is_divided_at_the_usual_pace(
    hand_made: ModuleType, kinds: tuple[str, str], expected: Rows
) -> None:
    found = gaps(
        hand_made,
        sending((10, True), (50, True), (780, True)),
        [(1, 50, kinds[0]), (2, 780, kinds[1])],
        cadence=30,
    )
    assert [row[:2] for row in found] == expected


def test_a_gap_of_about_the_usual_length_is_not_divided(hand_made: ModuleType) -> None:
    found = gaps(
        hand_made,
        sending((10, True), (50, True), (170, True)),
        [(1, 50, "content"), (2, 170, "content")],
        cadence=30,
    )
    assert [row[:2] for row in found] == [(10, 50), (50, 170)]
