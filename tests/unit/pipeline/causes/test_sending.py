"""What held a server's segments back, on segments and acknowledgements made by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np
import pytest

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.holes import HOLE_KINDS, Holes
from capture_analyzer.model.packets import ACK, HAS_TIMESTAMPS
from capture_analyzer.pipeline.causes.links import Links
from capture_analyzer.pipeline.causes.sending import Sending, of_servers
from capture_analyzer.pipeline.reassemble import Streams

MS = 1_000_000
SMALL, FULL = 100, 1448

Segments = Sequence[tuple[float, int]]
"""(time in ms, length) of the server's segments, in the order of their bytes."""

Acks = Sequence[tuple[float, int]]
"""(time in ms, number of segments acknowledged)."""


@dataclasses.dataclass
class Wire:
    """Makes a connection whose segments, and acknowledgements of them, passed the capture."""

    hand_made: ModuleType

    def sending(
        self,
        segments: Segments,
        acks: Acks,
        *,
        rtt_ms: float | None = 30,
        first_sequence: int = 1000,
        stamps: Sequence[int] | None = None,
        others: int = 0,
        repairs: Sequence[float] = (),
    ) -> Sending:
        """How the server of connection `others` sent; the connections before it are empty."""
        ends = np.cumsum([0, *(length for _, length in segments)])
        rows = [
            (time, 0, (first_sequence + ends[number]) % (1 << 32), 0, number)
            for number, (time, _) in enumerate(segments)
        ]
        rows += [
            (time, 1, 0, (first_sequence + ends[count]) % (1 << 32), -1) for time, count in acks
        ]
        rows.sort(key=lambda row: row[0])
        number_of = {row[4]: packet for packet, row in enumerate(rows, 1) if row[4] >= 0}
        packets = self.hand_made.packets(
            len(rows),
            time_ns=[int(row[0] * MS) for row in rows],
            connection_no=others,
            from_client=[row[1] for row in rows],
            seq=[row[2] for row in rows],
            ack=[row[3] for row in rows],
            flags=ACK,
            options=HAS_TIMESTAMPS if stamps else 0,
            tsval=[0 if row[4] < 0 or not stamps else stamps[row[4]] for row in rows],
        )
        count = len(segments)
        streams = Streams(
            bounds=np.array([0] * (2 * others + 2) + [count]),
            starts=ends[:-1],
            lengths=np.diff(ends),
            packet_nos=np.array([number_of[n] for n in range(count)], np.int32),
            seen_ns=np.array([int(time * MS) for time, _ in segments]),
            in_order_ns=np.array([int(time * MS) for time, _ in segments]),
            buffer_nos=np.zeros(count, np.uint16),
            buffer_offsets=np.zeros(count, np.int64),
            buffers=[b""],
            end=np.zeros(2 * others + 2, np.int64),
            mid_stream=np.zeros(2 * others + 2, np.bool_),
            fin_ns=np.full(2 * others + 2, NO_TIME),
            reset_ns=np.full(others + 1, NO_TIME),
        )
        links = Links(
            beyond=np.full(others + 1, NO_TIME if rtt_ms is None else int(rtt_ms * MS)),
            round_trip=np.full(others + 1, int((rtt_ms or 200) * MS)),
            longest_stop=np.full(others + 1, int((50 + (rtt_ms or 200)) * MS)),
            full=np.full(others + 1, FULL - 28),
        )
        wanted = np.zeros(others + 1, np.bool_)
        wanted[others] = True
        return of_servers(streams, packets, wanted, links, self._holes(others, repairs))

    def _holes(self, connection_no: int, repairs: Sequence[float]) -> Holes:
        """Lost bytes of the server that were there at these instants."""
        made = Holes()
        for field in dataclasses.fields(Holes):
            setattr(made, field.name, np.zeros(len(repairs), getattr(made, field.name).dtype))
        made.connection_no[:] = connection_no
        made.kind[:] = HOLE_KINDS.index("loss")
        made.filled_ns[:] = [int(time * MS) for time in repairs]
        return made

    def free(self, segments: Segments, acks: Acks, **values: object) -> list[bool]:
        found: list[bool] = self.sending(segments, acks, **values).free.tolist()  # type: ignore[arg-type]
        return found


@pytest.fixture
def wire(hand_made: ModuleType) -> Wire:
    return Wire(hand_made)


Make = Callable[..., list[bool]]


def steady(count: int, gap: float, size: int = SMALL) -> Segments:
    return [(gap * n, size) for n in range(count)]


def at_once(segments: Segments) -> Acks:
    """Each segment acknowledged when it comes."""
    return [(time, number + 1) for number, (time, _) in enumerate(segments)]


def test_what_leaves_when_nothing_is_outstanding_was_written_then(wire: Wire) -> None:
    segments = steady(4, 60)
    assert wire.free(segments, at_once(segments)) == [False, True, True, True]


def test_nagle_sends_when_the_acknowledgement_comes(wire: Wire) -> None:
    """A round trip after each acknowledgement, again and again: nothing is shown."""
    segments = steady(6, 30)
    assert not any(wire.free(segments, at_once(segments)))


def test_a_delayed_acknowledgement_holds_back_as_long(wire: Wire) -> None:
    segments = [(0, SMALL), (70, SMALL), (140, SMALL)]
    assert not any(wire.free(segments, [(40, 1), (110, 2)]))


def test_sent_in_spite_of_what_is_outstanding(wire: Wire) -> None:
    segments = steady(8, 20)
    assert wire.free(segments, at_once(segments)) == [False] + [True] * 7


def test_who_has_no_nagle_has_none_by_chance(wire: Wire) -> None:
    """A gap of just a round trip among shorter ones is the application's too."""
    times = [0, 20, 40, 60, 90, 110]
    segments = [(time, SMALL) for time in times]
    assert wire.free(segments, at_once(segments)) == [False] + [True] * 5


def test_a_full_segment_may_be_followed_when_the_window_allows(wire: Wire) -> None:
    times = [
        (0, SMALL),
        (20, SMALL),
        (40, SMALL),
        (60, FULL),
        (89, FULL),
        (91, SMALL),
        (111, SMALL),
    ]
    free = wire.free(times, [(41, 3), (61, 4), (92, 6)])
    assert free == [False, True, True, True, False, False, True]


def test_nagle_lets_full_segments_go_as_they_fill(wire: Wire) -> None:
    """The acknowledgement is late; so much was written meanwhile that it fills a segment."""
    segments = [(0, SMALL), (30, SMALL), (84, FULL), (104, SMALL)]
    assert not any(wire.free(segments, [(0, 1), (74, 2), (104, 4)]))


def test_many_outstanding_segments_may_be_held_by_their_window(wire: Wire) -> None:
    burst = [(0.1 * n, SMALL) for n in range(10)]
    segments = [*burst, (30.5, SMALL), (31.9, SMALL)]
    acks = [(0.1 * n + 0.05, n + 1) for n in range(10)]
    assert not any(wire.free(segments, acks))


def test_behind_a_loss_few_outstanding_segments_may_be_held_too(wire: Wire) -> None:
    """A round trip behind an acknowledgement: by chance, or because the window is small."""
    times = [0, 20, 40, 60, 90, 110]
    segments = [(time, SMALL) for time in times]
    acks = at_once(segments)
    assert wire.free(segments, acks, repairs=[40])[1:] == [True, True, True, False, True]
    assert all(wire.free(segments, acks, repairs=[-40], rtt_ms=30)[1:])
    assert all(wire.free(segments, acks, repairs=[95], rtt_ms=30)[1:5])


def test_a_long_pause_is_free_however_it_came(wire: Wire) -> None:
    segments = [(0, FULL), (81, FULL), (160, FULL)]
    assert wire.free(segments, [], rtt_ms=30) == [False, True, False]


def test_without_a_round_trip_only_a_long_pause_shows_anything(wire: Wire) -> None:
    segments = [(0, SMALL), (20, SMALL), (40, SMALL), (300, SMALL)]
    assert wire.free(segments, at_once(segments), rtt_ms=None) == [False, False, False, True]


def test_at_the_server_acknowledgements_are_seen_as_they_come(wire: Wire) -> None:
    nagle = [(0, SMALL), (30.05, SMALL), (60.1, SMALL)]
    assert not any(wire.free(nagle, [(30, 1), (60.05, 2)], rtt_ms=0))
    idle = [(0, SMALL), (45, SMALL), (75, SMALL)]
    assert wire.free(idle, [(30, 1), (70, 2)], rtt_ms=0) == [False, True, True]


def test_what_fills_a_hole_was_not_written_then(wire: Wire) -> None:
    """The third segment was lost; its repeat comes behind the fourth and fifth."""
    segments = [(0, SMALL), (60, SMALL), (200, SMALL), (120, SMALL), (180, SMALL), (280, SMALL)]
    acks = [(0, 1), (60, 2), (200, 5), (280, 6)]
    assert wire.free(segments, acks) == [False, True, False, False, False, True]


def test_segments_of_one_write_are_not_free(wire: Wire) -> None:
    segments = [(0, SMALL), (60, SMALL), (60.2, SMALL), (60.9, SMALL)]
    assert wire.free(segments, at_once(segments)) == [False, True, False, False]


@pytest.mark.parametrize("first", [0, (1 << 32) - 250, (1 << 31) - 250])
def test_sequence_numbers_wrap(wire: Wire, first: int) -> None:
    segments = steady(6, 30)
    assert not any(wire.free(segments, at_once(segments), first_sequence=first))
    idle = steady(6, 60)
    assert wire.free(idle, at_once(idle), first_sequence=first) == [False] + [True] * 5


def test_other_connections_do_not_matter(wire: Wire) -> None:
    segments = steady(4, 60)
    assert wire.free(segments, at_once(segments), others=3) == [False, True, True, True]


def test_timestamps_show_what_was_late_on_its_way(wire: Wire) -> None:
    """Sent every 100 ms; the fourth segment took 250 ms longer."""
    times = [0, 100, 200, 550, 600, 700, 800]
    segments = [(time, SMALL) for time in times]
    sending = wire.sending(segments, at_once(segments), stamps=[5 + 100 * n for n in range(7)])
    late = ((sending.seen - sending.left) / MS).tolist()
    assert late == [0, 0, 0, 250, 0, 0, 0]


def test_timestamps_agree_with_a_server_that_paused(wire: Wire) -> None:
    times = [0, 100, 200, 550, 650, 750]
    segments = [(time, SMALL) for time in times]
    wrapping = [((1 << 32) - 300 + time) % (1 << 32) for time in times]
    sending = wire.sending(segments, at_once(segments), stamps=wrapping)
    assert (sending.left == sending.seen).all()


def test_a_clock_of_no_known_rate_shows_nothing(wire: Wire) -> None:
    times = [0, 100, 200, 550, 600, 700, 800]
    segments = [(time, SMALL) for time in times]
    sending = wire.sending(segments, at_once(segments), stamps=[50 * n for n in range(7)])
    assert (sending.left == sending.seen).all()


def test_elements_by_byte_and_their_bursts(wire: Wire) -> None:
    segments = [(0, SMALL), (60, SMALL), (60.2, SMALL), (120, SMALL)]
    sending = wire.sending(segments, at_once(segments))
    stream = np.full(5, 1)
    element = sending.holding(stream, np.array([0, 100, 299, 300, 400]))
    assert element.tolist() == [0, 1, 2, 3, -1]
    assert sending.released(element).tolist() == [-1, 1, 1, 3, -1]
    assert sending.holding(np.array([3]), np.array([0])).tolist() == [-1]
