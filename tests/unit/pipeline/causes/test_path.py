"""Causes between a request's first byte and the answer's last."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.connections import TlsSummary
from capture_analyzer.pipeline.causes.arrivals import Arrivals, pauses_of

Make = Callable[..., Any]

MS = 1_000_000


@pytest.fixture
def host(hand_made: ModuleType) -> Callable[..., Any]:
    """A connection with a round trip of 30 ms, measured by its handshake at the client."""

    def make(**columns: Any) -> Any:
        columns = {"server_side_rtt_ns": 30 * MS, "rtt_ns": 30 * MS} | columns
        return hand_made.connection(0, **columns)

    return make


def test_wait_is_round_trip_then_think(story: Make, host: Make) -> None:
    s = story([(0, "c", 0, 100), (0, "s", 80, 500)], connections=[host()])
    s.exchange((0, 0), (80, 80))
    assert s.ledger() == [("network_rtt", 30), ("server_think", 50)]


def test_at_the_server_no_round_trip_is_taken_out(story: Make, host: Make) -> None:
    here = host(vantage_side="server", server_side_rtt_ns=40_000)
    s = story([(0, "c", 0, 100), (0, "s", 80, 500)], connections=[here])
    s.exchange((0, 0), (80, 80))
    assert s.ledger() == [("server_think", 80)]


def test_the_smallest_round_trip_so_far_counts(story: Make, host: Make) -> None:
    arrivals = [(0, "c", 0, 100), (0, "s", 80, 500), (0, "c", 100, 100), (0, "s", 180, 500)]
    s = story(arrivals, connections=[host()], samples=[(150, 20)])
    s.exchange((0, 0), (80, 80))
    s.exchange((100, 100), (180, 180))
    assert s.ledger(0) == [("network_rtt", 30), ("server_think", 50)]
    assert s.ledger(1) == [("network_rtt", 20), ("server_think", 60)]


def test_an_answer_within_the_round_trip_has_no_think(story: Make, host: Make) -> None:
    s = story([(0, "c", 0, 100), (0, "s", 29, 500)], connections=[host()])
    s.exchange((0, 0), (29, 29))
    assert s.ledger() == [("network_rtt", 29)]


def test_without_a_round_trip_the_wait_is_unknown(story: Make, hand_made: ModuleType) -> None:
    blind = hand_made.connection(0, server_side_rtt_ns=None, rtt_ns=None)
    s = story([(0, "c", 0, 100), (0, "s", 80, 500)], connections=[blind])
    s.exchange((0, 0), (80, 80))
    assert s.ledger() == [("unknown", 80)]


def test_on_a_shared_connection_only_the_round_trip_is_known(story: Make, host: Make) -> None:
    s = story([(0, "c", 0, 100), (0, "s", 80, 500)], connections=[host()])
    s.exchange((0, 0), (80, 80), shared_connection=True)
    assert s.ledger() == [("network_rtt", 30), ("unknown", 50)]


def think_trust(s: Any) -> list[float]:
    """Confidence in each server_think, rounded."""
    table = s.table()
    trust: list[float] = table.confidence[table.cause == CAUSE_CODE["server_think"]].tolist()
    return [round(value, 2) for value in trust]


def test_confidence_in_think(story: Make, host: Make) -> None:
    arrivals = [(0, "c", 0, 100), (0, "s", 80, 500), (0, "c", 100, 100), (0, "s", 180, 500)]
    tls = TlsSummary(version="TLS 1.3", start_ns=0)
    for alpn, expected in (("http/1.1", [0.9, 0.54]), ("h2", [0.9, 0.41])):
        s = story(arrivals, connections=[host(alpn=alpn, tls=tls)])
        s.exchange((0, 0), (80, 80))
        s.exchange((100, 100), (180, 180), inferred=True)
        assert think_trust(s) == pytest.approx(expected, abs=0.011)


def test_a_round_trip_that_only_data_gave_is_less_sure(story: Make, host: Make) -> None:
    blind = host(server_side_rtt_ns=None, rtt_ns=None)
    s = story([(0, "c", 0, 9), (0, "s", 80, 9)], connections=[blind], samples=[(70, 70)])
    s.exchange((0, 0), (80, 80))
    assert s.ledger() == [("network_rtt", 30), ("unknown", 40), ("server_think", 10)]
    assert think_trust(s) == [0.5]


def test_the_answers_own_acknowledgement_measures_nothing(
    story: Make, hand_made: ModuleType
) -> None:
    """It came with the answer, however long the server thought."""
    blind = hand_made.connection(0, vantage_side="client")
    s = story([(0, "c", 0, 9), (0, "s", 80, 9)], connections=[blind], samples=[(80, 80)])
    s.exchange((0, 0), (80, 80))
    assert s.ledger() == [("unknown", 80)]


def test_without_an_answer_nothing_is_booked_on_the_server(story: Make, host: Make) -> None:
    s = story([(0, "c", 0, 100)], connections=[host()])
    s.exchange((0, 0), None, end=500)
    assert s.ledger() == [("unknown", 500)]


def test_a_lost_request_recovers_before_the_server_thinks(story: Make, host: Make) -> None:
    s = story(
        [(0, "c", 0, 100), (0, "s", 280, 500)],
        connections=[host()],
        holes=[("loss", "c", 0, 200)],
    )
    s.exchange((0, 0), (280, 280))
    assert s.ledger() == [("loss_recovery", 200), ("network_rtt", 30), ("server_think", 50)]


def test_a_request_that_was_never_delivered_has_no_think(story: Make, host: Make) -> None:
    s = story(
        [(0, "c", 0, 100), (0, "s", 280, 500)],
        connections=[host()],
        holes=[("loss", "c", 0, None)],
    )
    s.exchange((0, 0), (280, 280))
    assert s.ledger() == [("loss_recovery", 280)]


def test_a_hole_in_the_answer_is_loss_recovery_from_where_it_shows(story: Make, host: Make) -> None:
    s = story(
        [(0, "c", 0, 100), (0, "s", 80, 500), (0, "s", 81, 500), (0, "s", 111, 500)],
        connections=[host()],
        holes=[("loss", "s", 81, 111)],
    )
    s.exchange((0, 0), (80, 111), end=112)
    assert s.ledger() == [
        ("network_rtt", 30),
        ("server_think", 50),
        ("transfer", 1),
        ("loss_recovery", 30),
        ("transfer", 1),
    ]


def test_a_clients_hole_behind_the_answers_begin_holds_nothing_up(story: Make, host: Make) -> None:
    s = story(
        [(0, "c", 0, 100), (0, "s", 80, 500), (0, "s", 100, 500)],
        connections=[host()],
        holes=[("loss", "c", 90, 95)],
    )
    s.exchange((0, 0), (80, 100))
    assert s.waits("loss_recovery") == []


def test_holes_between_exchanges_belong_to_none(story: Make, host: Make) -> None:
    arrivals = [(0, "c", 0, 100), (0, "s", 80, 500), (0, "c", 200, 100), (0, "s", 280, 500)]
    s = story(arrivals, connections=[host()], holes=[("loss", "s", 80, 200)])
    s.exchange((0, 0), (80, 80))
    s.exchange((200, 200), (280, 280))
    assert s.waits("loss_recovery") == []


@pytest.mark.parametrize(
    ("kind", "cause"),
    [("loss", "loss_recovery"), ("reordering", "reordering"), ("capture", "capture_gap")],
)
def test_the_kind_of_a_hole_is_the_cause(story: Make, host: Make, kind: str, cause: str) -> None:
    s = story(
        [(0, "c", 0, 100), (0, "s", 80, 500), (0, "s", 100, 500)],
        connections=[host()],
        holes=[(kind, "s", 85, 95)],
    )
    s.exchange((0, 0), (80, 100))
    assert s.waits(cause) == [(0, cause, 85, 95)]
    table = s.table()
    index = table.from_ns.tolist().index(85 * MS)
    assert (table.packet_a[index], table.packet_b[index]) == (1001, 2001)


def test_a_hole_that_is_never_filled_lasts_to_the_end(story: Make, host: Make) -> None:
    s = story(
        [(0, "c", 0, 100), (0, "s", 80, 500), (0, "s", 100, 500)],
        connections=[host()],
        holes=[("capture", "s", 85, None)],
    )
    s.exchange((0, 0), (80, 100))
    assert s.waits("capture_gap") == [(0, "capture_gap", 85, 100)]


def test_sending_takes_from_first_to_last_byte(story: Make, host: Make) -> None:
    s = story([(0, "c", 0, 1000), (0, "c", 20, 1000), (0, "s", 100, 500)], connections=[host()])
    s.exchange((0, 20), (100, 100))
    assert s.ledger() == [("request_send", 20), ("network_rtt", 30), ("server_think", 50)]


def test_a_client_that_stops_in_mid_request_is_not_sending(story: Make, host: Make) -> None:
    s = story(
        [(0, "c", 0, 1000), (0, "c", 500, 1000), (0, "c", 510, 9), (0, "s", 590, 500)],
        connections=[host()],
    )
    s.exchange((0, 510), (590, 590))
    assert s.ledger()[:2] == [("unknown", 500), ("request_send", 10)]


def test_an_early_answer_cuts_sending(story: Make, host: Make) -> None:
    s = story([(0, "c", 0, 900), (0, "s", 40, 99), (0, "c", 60, 900)], connections=[host()])
    s.exchange((0, 60), (40, 40))
    assert s.ledger() == [("request_send", 40), ("transfer", 20)]


def test_a_server_that_stops_in_mid_answer_is_not_transferring(story: Make, host: Make) -> None:
    arrivals = [(0, "c", 0, 100), (0, "s", 80, 500), (0, "s", 90, 500), (0, "s", 490, 500)]
    s = story([*arrivals, (0, "s", 500, 500)], connections=[host()])
    s.exchange((0, 0), (80, 500))
    assert s.ledger()[2:] == [("transfer", 10), ("unknown", 400), ("transfer", 10)]


def test_what_arrives_behind_a_hole_is_no_pause(story: Make, host: Make) -> None:
    # The second segment comes again after 300 ms; those behind it arrive meanwhile.
    bytes_in_order = [(0, "s", 80), (0, "s", 380), (0, "s", 86), (0, "s", 130), (0, "s", 386)]
    s = story([(0, "c", 0, 100), *((*a, 500) for a in bytes_in_order)], connections=[host()])
    s.holes = [("loss", "s", 86, 380)]
    s.exchange((0, 0), (80, 386))
    s.in_stream_order = bytes_in_order
    assert s.ledger()[2:] == [("transfer", 6), ("loss_recovery", 294), ("transfer", 6)]


def test_pauses_are_what_no_byte_arrived_in() -> None:
    seen = np.array([0, 50, 10, 900, 5, 700, 2**58])
    arrivals = Arrivals(
        connection_no=np.array([0, 0, 0, 0, 0, 0, 40], np.int32),
        from_client=np.array([True, True, True, True, False, False, True]),
        seen_ns=seen,
        length=np.ones(7, np.int64),
        packet_no=np.arange(7, dtype=np.int32),
    )
    pauses = pauses_of(arrivals, np.full(41, 100))
    assert pauses.from_ns.tolist() == [50, 5]
    assert pauses.to_ns.tolist() == [900, 700]
    assert pauses.from_client.tolist() == [True, False]


def test_stopping_for_a_window_is_transfer(story: Make, host: Make) -> None:
    # A round trip and a delayed acknowledgement: 30 + 40 ms.
    arrivals = [(0, "c", 0, 100), (0, "s", 80, 500), (0, "s", 150, 500)]
    s = story(arrivals, connections=[host()])
    s.exchange((0, 0), (80, 150))
    assert s.ledger()[2:] == [("transfer", 70)]


def test_waiting_for_a_close_is_not_transfer(story: Make, host: Make) -> None:
    s = story([(0, "c", 0, 100), (0, "s", 80, 500)], connections=[host()])
    s.exchange((0, 0), (80, 80), end=300)
    assert s.ledger()[2:] == [("unknown", 220)]


def test_the_first_segment_on_a_slow_link_is_transfer(story: Make, host: Make) -> None:
    arrivals = [(0, "s", 90 + 6 * n, 1448) for n in range(4)]
    s = story([(0, "c", 0, 100), *arrivals], connections=[host()])
    s.exchange((0, 0), (90, 108))
    assert s.ledger() == [("network_rtt", 30), ("server_think", 54), ("transfer", 24)]


@pytest.mark.parametrize("size", [200, 999, 1400])
def test_small_segments_that_are_equal_say_nothing_either(
    story: Make, host: Make, size: int
) -> None:
    # Events of a stream, one each 10 ms.
    arrivals = [(0, "s", 90 + 10 * n, size) for n in range(4)]
    s = story([(0, "c", 0, 100), *arrivals], connections=[host(mss_client=1460)])
    s.exchange((0, 0), (90, 120))
    assert s.ledger() == [("network_rtt", 30), ("server_think", 60), ("transfer", 30)]


def test_segments_of_unequal_size_say_nothing_of_the_link(story: Make, host: Make) -> None:
    arrivals = [(0, "s", 90, 1448), (0, "s", 120, 200), (0, "s", 150, 200)]
    s = story([(0, "c", 0, 100), *arrivals], connections=[host()])
    s.exchange((0, 0), (90, 150))
    assert s.ledger() == [("network_rtt", 30), ("server_think", 60), ("transfer", 60)]


def test_an_answer_whose_request_is_missing_is_only_transfer(story: Make, host: Make) -> None:
    s = story([(0, "c", 0, 100), (0, "s", 80, 500), (0, "s", 99, 500)], connections=[host()])
    s.exchange((0, 0), (80, 99), request_first_packet_no=None, request_start_ns=80 * MS)
    s.exchanges[0].start_ns = 80 * MS
    assert s.ledger() == [("transfer", 19)]


def test_every_wait_names_its_packets(story: Make, host: Make) -> None:
    arrivals = [(0, "c", 0, 1000), (0, "c", 20, 1000), (0, "s", 100, 500), (0, "s", 110, 500)]
    s = story(arrivals, connections=[host()])
    s.exchange((0, 20), (100, 110))
    table = s.table()
    assert len(table) == 4
    assert table.packet_a.tolist() == [1, 3, 2, 2]
    assert table.packet_b.tolist() == [2, 4, 3, 3]


def test_nothing_happened(story: Make) -> None:
    s = story([])
    assert s.waits() == []
