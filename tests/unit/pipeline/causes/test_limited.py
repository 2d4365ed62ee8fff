"""Which exchanges a sender that was held back held up."""

from __future__ import annotations

import numpy as np
import pytest

from capture_analyzer.model.causes import CAUSE_NAMES
from capture_analyzer.pipeline.causes import congestion_window, nagle_delayed_ack, receiver_window

MS = 1_000_000


def waits(story, finder, *rows, **columns):
    facts = story.facts()
    facts.limits = story.hand_made.limits(*rows)
    for name, value in columns.items():
        getattr(facts.limits, name)[:] = value
    table = finder.find(facts)
    return [
        (int(x), CAUSE_NAMES[c], int(a) / MS, int(b) / MS)
        for x, c, a, b in zip(
            table.exchange_no, table.cause, table.from_ns, table.to_ns, strict=True
        )
    ]


@pytest.fixture
def download(story):
    """A request at 0 to 2 ms, an answer from 50 to 400 ms."""
    made = story([(0, "c", 0, 100), (0, "c", 2, 50), (0, "s", 50, 1000), (0, "s", 400, 1000)])
    made.exchange((0, 2), (50, 400))
    return made


def test_a_closed_window_holds_up_the_answer(download):
    assert waits(download, receiver_window, (0, False, "zero_window", 100, 300)) == [
        (0, "receiver_window", 100, 300)
    ]


def test_so_does_one_that_is_used_up(download):
    assert waits(download, receiver_window, (0, False, "window_full", 100, 130)) == [
        (0, "receiver_window", 100, 130)
    ]


@pytest.mark.parametrize("kind", ["congestion_window", "idle_restart"])
def test_congestion_window(download, kind):
    assert waits(download, congestion_window, (0, False, kind, 100, 130)) == [
        (0, "congestion_window", 100, 130)
    ]


def test_each_cause_has_its_kinds(download):
    assert waits(download, receiver_window, (0, False, "congestion_window", 100, 130)) == []
    assert waits(download, congestion_window, (0, False, "zero_window", 100, 130)) == []
    assert waits(download, nagle_delayed_ack, (0, False, "nagle", 100, 130)) == []


def test_before_the_answer_nothing_is_held_up(download):
    """The server was not ready: that is think time."""
    assert waits(download, receiver_window, (0, False, "zero_window", 10, 60)) == [
        (0, "receiver_window", 50, 60)
    ]


def test_unless_its_first_byte_was_held(download):
    rows = waits(download, receiver_window, (0, False, "zero_window", 1, 50), to_packet_no=3)
    assert rows == [(0, "receiver_window", 2, 50)]


def test_a_request_in_two_pieces(download):
    rows = waits(download, nagle_delayed_ack, (0, True, "nagle_delayed_ack", 0, 2))
    assert rows == [(0, "nagle_delayed_ack", 0, 2)]


def test_behind_the_request_the_client_holds_nothing_up(download):
    assert waits(download, nagle_delayed_ack, (0, True, "nagle_delayed_ack", 10, 30)) == []


def test_behind_the_answer_the_server_holds_nothing_up(download):
    rows = waits(download, congestion_window, (0, False, "congestion_window", 390, 450))
    assert rows == [(0, "congestion_window", 390, 400)]


def test_other_connections_are_not_concerned(download):
    assert waits(download, receiver_window, (1, False, "zero_window", 100, 300)) == []


def test_packets_are_named(download):
    facts = download.facts()
    facts.limits = download.hand_made.limits((0, False, "zero_window", 100, 300))
    table = receiver_window.find(facts)
    assert np.array([table.packet_a, table.packet_b, table.packet_c]).ravel().tolist() == [
        11,
        13,
        12,
    ]
