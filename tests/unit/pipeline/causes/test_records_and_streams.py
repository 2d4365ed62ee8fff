"""record_wait, head_of_line and the bytes that a record makes due, on facts made by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from capture_analyzer.model.connections import Connection
from capture_analyzer.model.frames import Frames
from capture_analyzer.model.tls_records import TlsRecords

MS = 1_000_000
Make = Callable[..., Any]
RTT = 30


@pytest.fixture
def host(hand_made: ModuleType) -> Connection:
    """A connection captured at its client, with a known round trip."""
    made: Connection = hand_made.connection(
        0, rtt_ns=RTT * MS, server_side_rtt_ns=RTT * MS, client_side_rtt_ns=0, vantage_side="client"
    )
    return made


def records(*rows: tuple[str, int, int, float, float | None]) -> TlsRecords:
    """Records of connection 0: "c" or "s", offset, length, first byte and all of it there (ms)."""
    made = TlsRecords()
    for field in dataclasses.fields(TlsRecords):
        setattr(made, field.name, np.zeros(len(rows), getattr(made, field.name).dtype))
    for index, (side, offset, length, first, complete) in enumerate(rows):
        made.from_client[index] = side == "c"
        made.offset[index], made.length[index] = offset, length
        made.seen_ns[index] = made.in_order_ns[index] = int(first * MS)
        made.complete[index] = complete is not None
        made.complete_ns[index] = int((complete or 0) * MS)
        made.first_packet_no[index], made.last_packet_no[index] = 100 + index, 200 + index
    return made


def frames(*rows: tuple[str, int, int, int]) -> Frames:
    """Frames of connection 0: "c" or "s", stream, offset, end."""
    count = len(rows)
    return Frames(
        connection_no=np.zeros(count, np.int32),
        from_client=np.array([row[0] == "c" for row in rows], np.bool_),
        stream_id=np.array([row[1] for row in rows], np.int32),
        type=np.zeros(count, np.uint8),
        flags=np.zeros(count, np.uint8),
        offset=np.array([row[2] for row in rows], np.int64),
        end_offset=np.array([row[3] for row in rows], np.int64),
    )


ARRIVALS = [(0, "c", 0.0, 100), (0, "s", 50.0, 1000), (0, "s", 60.0, 1000), (0, "s", 80.0, 500)]


def test_the_first_byte_waits_for_its_record(story: Make, host: Connection) -> None:
    s = story(ARRIVALS, connections=[host], records=records(("s", 0, 1995, 50, 60)))
    s.exchange((0, 0), (50, 80), usable=60, response_offset=0)
    assert s.waits("record_wait") == [(0, "record_wait", 50, 60)]
    assert s.ledger() == [
        ("network_rtt", 30),
        ("server_think", 20),
        ("record_wait", 10),
        ("transfer", 20),
    ]


@pytest.mark.parametrize(
    "record",
    [
        ("s", 0, 1995, 50, 50.05),  # came as one
        ("s", 0, 1995, 50, None),  # the capture lacks its end
        ("s", 1500, 495, 60, 80),  # not the one with the first byte
        ("c", 0, 1995, 50, 60),  # of the other direction
    ],
)
def test_other_records_are_not_waited_for(
    story: Make, host: Connection, record: tuple[str, int, int, float, float | None]
) -> None:
    s = story(ARRIVALS, connections=[host], records=records(record))
    s.exchange((0, 0), (50, 80), response_offset=0)
    assert s.waits("record_wait") == []


def test_each_event_waits_for_its_record_once(
    story: Make, host: Connection, hand_made: ModuleType
) -> None:
    events = hand_made.events((0, 60, "content"), (0, 60, "content"), (0, 80, "content"))
    events.offset[:] = [1000, 1200, 2000]
    events.end_offset[:] = [1200, 1900, 2500]
    s = story(
        ARRIVALS,
        connections=[host],
        records=records(("s", 0, 995, 50, 50), ("s", 1000, 995, 55, 60), ("s", 2000, 495, 78, 80)),
        events=events,
    )
    s.exchange((0, 0), (50, 80), response_offset=0)
    assert s.waits("record_wait") == [(0, "record_wait", 55, 60), (0, "record_wait", 78, 80)]


def test_the_rest_of_a_record_was_due_right_behind_its_beginning(
    story: Make, host: Connection
) -> None:
    """The hole showed at 200, but its record began to come at 50."""
    late = [*ARRIVALS[:2], (0, "s", 230.0, 1000), (0, "s", 200.0, 500)]
    order = [(0, "s", 50.0), (0, "s", 230.0), (0, "s", 200.0)]
    for length, begin in ((1995, 50), (995, 200)):
        s = story(
            late,
            connections=[host],
            holes=[("loss", "s", 200, 230)],
            places=[(1000, 1000)],
            in_stream_order=order,
            records=records(("s", 0, length, 50, 230)),
        )
        s.exchange((0, 0), (50, 230), usable=230, response_offset=0)
        assert s.waits("loss_recovery") == [(0, "loss_recovery", begin, 230)]


# Two streams on one connection: a segment of stream 1 at 60 is lost and comes at 100; one of
# stream 3 comes at 70, behind it.
SHARED = [
    (0, "c", 0.0, 100),
    (0, "c", 1.0, 100),
    (0, "s", 50.0, 1000),
    (0, "s", 100.0, 1000),
    (0, "s", 70.0, 1000),
]
SHARED_ORDER = [(0, "s", 50.0), (0, "s", 100.0), (0, "s", 70.0)]


def shared(story: Make, host: Connection, *rows: tuple[str, int, int, int]) -> Any:
    s = story(
        SHARED,
        connections=[host],
        holes=[("loss", "s", 70, 100)],
        places=[(1000, 1000)],
        in_stream_order=SHARED_ORDER,
        frames=frames(*rows),
    )
    s.exchange((0, 0), (50, 100), stream_id=1, protocol="h2", shared_connection=True)
    s.exchange((1, 1), (50, 100), stream_id=3, protocol="h2", shared_connection=True)
    return s


def test_another_streams_hole_is_head_of_line(story: Make, host: Connection) -> None:
    s = shared(
        story,
        host,
        ("s", 1, 0, 500),
        ("s", 3, 500, 1000),
        ("s", 1, 1000, 2000),
        ("s", 3, 2000, 3000),
    )
    assert s.waits("loss_recovery") == [(0, "loss_recovery", 70, 100)]
    assert s.waits("head_of_line") == [(1, "head_of_line", 70, 100)]


def test_a_hole_in_both_streams_is_both_their_own(story: Make, host: Connection) -> None:
    s = shared(story, host, ("s", 1, 0, 1500), ("s", 3, 1500, 3000))
    assert s.waits("loss_recovery") == [
        (0, "loss_recovery", 70, 100),
        (1, "loss_recovery", 70, 100),
    ]
    assert s.waits("head_of_line") == []


def test_a_stream_with_nothing_behind_the_hole_loses_nothing(story: Make, host: Connection) -> None:
    s = shared(story, host, ("s", 3, 0, 1000), ("s", 1, 1000, 3000))
    assert s.waits("loss_recovery") == [(0, "loss_recovery", 70, 100)]
    assert s.waits("head_of_line") == []


def test_without_frames_every_open_exchange_is_held_up(story: Make, host: Connection) -> None:
    s = shared(story, host)
    assert [row[0] for row in s.waits("loss_recovery")] == [0, 1]
