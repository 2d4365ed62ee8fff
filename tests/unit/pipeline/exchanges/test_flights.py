"""Flights: where one inferred exchange ends and the next begins."""

from __future__ import annotations

import numpy as np
import pytest

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.pipeline.exchanges.flights import Flights, find_flights, latest
from capture_analyzer.pipeline.exchanges.units import Speech, Units

SECOND = 1_000_000_000


def units(
    text: str,
    *,
    h2: bool = False,
    h1: bool = True,
    keeps_start: bool = True,
    apart_ns: int = 1000,
    round_trip_ns: int = 5000,
) -> Units:
    """Units from a line: "c300 s1400 | c20": direction, content length; | a new connection.

    `@9` behind a unit puts it 9 seconds after the unit before it.
    """
    rows: list[tuple[int, bool, int, int]] = []
    connection, time = 0, 0
    for word in text.split():
        if word == "|":
            connection += 1
            continue
        size, _, later = word[1:].partition("@")
        time += int(later) * SECOND if later else apart_ns
        rows.append((connection, word[0] == "c", int(size), time))
    count = len(rows)
    numbers = np.arange(1, count + 1, dtype=np.int32)
    times = np.array([row[3] for row in rows], np.int64)
    content = np.array([row[2] for row in rows], np.int32)
    connections = connection + 1
    return Units(
        connection_no=np.array([row[0] for row in rows], np.int32),
        from_client=np.array([row[1] for row in rows], np.bool_),
        first_packet_no=numbers,
        last_packet_no=numbers,
        seen_ns=times,
        usable_ns=times,
        offset=np.zeros(count, np.int64),
        size=content + 22,
        content=content,
        speech=Speech(
            may_be_h2=np.full(connections, h2),
            may_be_h1=np.full(connections, h1),
            keeps_start=np.full(connections, keeps_start),
            overhead=np.zeros(connections, np.int32),
            round_trip_ns=np.full(connections, round_trip_ns),
        ),
    )


def shape(flights: Flights) -> list[tuple[list[int], list[int]]]:
    """Content lengths of the request and of the answer of each exchange."""
    content = flights.units.content.tolist()
    return [
        (content[first:turn], content[turn:stop])
        for first, turn, stop in zip(flights.first, flights.turn, flights.stop, strict=True)
    ]


def test_each_flight_of_the_client_behind_an_answer_begins_an_exchange() -> None:
    flights = find_flights(units("c100 s200 s300 c50 c60 s70"))
    assert shape(flights) == [([100], [200, 300]), ([50, 60], [70])]


def test_a_streamed_answer_is_one_exchange_however_long_it_pauses() -> None:
    flights = find_flights(units("c500 s180 s190@30 s185@30 s5"))
    assert shape(flights) == [([500], [180, 190, 185, 5])]


def test_connections_are_apart() -> None:
    flights = find_flights(units("c100 s200 | c300 | c1 s2"))
    assert shape(flights) == [([100], [200]), ([300], []), ([1], [2])]


def test_a_greeting_is_no_exchange() -> None:
    flights = find_flights(units("s80 c20 s30"))
    assert shape(flights) == [([20], [30])]


def test_an_answer_whose_request_came_before_the_capture_is_one() -> None:
    flights = find_flights(units("s80 s90 c20 s30", keeps_start=False))
    assert shape(flights) == [([], [80, 90]), ([20], [30])]


@pytest.mark.parametrize("control", [9, 13, 17, 22, 26, 30, 35, 39, 43])
def test_control_frames_during_an_answer_begin_nothing(control: int) -> None:
    line = f"c200 s1000 c{control} s2000 c{control} s500 c120 s10"
    assert shape(find_flights(units(line, h2=True))) == [
        ([200], [1000, 2000, 500]),
        ([120], [10]),
    ]


def test_without_http2_the_same_sizes_are_data() -> None:
    flights = find_flights(units("c200 s1000 c13 s2000", h2=False))
    assert shape(flights) == [([200], [1000]), ([13], [2000])]


@pytest.mark.parametrize("size", [8, 10, 14, 16, 27, 38, 40])
def test_other_small_sizes_are_requests(size: int) -> None:
    flights = find_flights(units(f"c200 s1000 c{size} s2000", h2=True))
    assert shape(flights) == [([200], [1000]), ([size], [2000])]


@pytest.mark.parametrize("size", [22, 26, 30, 39])
def test_two_frames_long_and_answered_a_round_trip_later_is_a_request(size: int) -> None:
    flights = find_flights(units(f"c200 s1000 c{size} s2000", h2=True, apart_ns=5000))
    assert shape(flights) == [([200], [1000]), ([size], [2000])]


def test_they_are_control_where_a_window_update_is_due() -> None:
    # The server sent up to the window's end, and waits for it to open.
    line = "c200 s16393 s16393 c26 s16393@1 s16393 c26 s9000@1"
    flights = find_flights(units(line, h2=True, apart_ns=5000))
    assert shape(flights) == [([200], [16393, 16393, 16393, 16393, 9000])]


def test_they_are_control_where_the_answer_keeps_its_pace() -> None:
    line = "c200 s50@3 s50@3 s50@3 c43@1 s50@2 s50@3"
    assert shape(find_flights(units(line, h2=True))) == [([200], [50] * 5)]


def test_they_are_a_request_where_it_does_not() -> None:
    line = "c200 s50@1 s50@1 s50@1 c43@1 s50@2 s50@1"
    assert shape(find_flights(units(line, h2=True))) == [([200], [50] * 3), ([43], [50] * 2)]


def test_they_are_control_where_their_ping_is_acknowledged() -> None:
    # Units are 1 s apart, and so long is the round trip.
    line = "c200 s50@1 c43@1 s17@1 s50@9"
    wire = units(line, h2=True, round_trip_ns=SECOND)
    assert shape(find_flights(wire)) == [([200], [50, 50])]


def test_a_ping_of_the_server_is_no_answer() -> None:
    flights = find_flights(units("c200 s1000 c100 s17@1 c17 s500@1", h2=True))
    assert shape(flights) == [([200], [1000]), ([100], [500])]


def test_an_acknowledged_ping_is_not_the_end_of_an_answer() -> None:
    wire = units("c200 s500 c17 s17@1", h2=True, round_trip_ns=SECOND)
    flights = find_flights(wire)
    assert shape(flights) == [([200], [500])]


def test_window_updates_of_the_server_do_not_split_an_upload() -> None:
    line = "c200 c16393 s26 c16393 s26 c9000 s500"
    assert shape(find_flights(units(line, h2=True))) == [([200, 16393, 16393, 9000], [500])]


def test_one_control_frame_is_none_whenever_the_answer_goes_on() -> None:
    flights = find_flights(units("c200 s1000 c13 s2000@3", h2=True))
    assert shape(flights) == [([200], [1000, 2000])]


def test_a_stream_reset_after_waiting_in_vain_gives_the_request_up() -> None:
    flights = find_flights(units("c200 s1000 c100 c13@1 c150 s500", h2=True))
    assert shape(flights) == [([200], [1000]), ([100], []), ([150], [500])]
    assert flights.given_up_ns[0] == NO_TIME
    assert flights.given_up_ns[1] == flights.units.seen_ns[2] + SECOND
    assert flights.given_up_ns[2] == NO_TIME


def test_a_window_update_at_once_gives_nothing_up() -> None:
    flights = find_flights(units("c200 s1000 c100 c13 c150 s500", h2=True))
    assert shape(flights) == [([200], [1000]), ([100, 150], [500])]


def test_an_answer_with_the_size_of_a_control_frame() -> None:
    flights = find_flights(units("c200 s1000 c100 s17@1 c150 s500", h2=True))
    assert shape(flights) == [([200], [1000]), ([100], [17]), ([150], [500])]


def test_a_ping_of_the_server_before_the_round_trip_is_over_is_no_answer() -> None:
    flights = find_flights(units("c200 s1000 c100 s17 s600@1", h2=True))
    assert shape(flights) == [([200], [1000]), ([100], [600])]


def test_the_preface_of_http2_is_not_the_request() -> None:
    # Preface with SETTINGS of three and a WINDOW_UPDATE; then the request at once.
    flights = find_flights(units("c64 c300 s27 s9 s500", h2=True))
    assert shape(flights) == [([300], [500])]


def test_a_preface_that_waits_for_its_request_is_not_an_exchange() -> None:
    flights = find_flights(units("c64 s27 s9 c9 c300@2 s500", h2=True))
    assert shape(flights) == [([300], [500])]


def test_a_connection_that_only_said_its_preface_has_no_exchange() -> None:
    assert shape(find_flights(units("c64 s27 s9 c9", h2=True))) == []


def test_a_request_of_a_prefaces_size_with_an_answer_is_one() -> None:
    flights = find_flights(units("c64 s900 c64 s900", h2=True))
    assert shape(flights) == [([64], [900]), ([64], [900])]


def test_a_request_of_a_prefaces_size_without_an_answer_is_one() -> None:
    assert shape(find_flights(units("c64", h2=True))) == [([64], [])]


def test_settings_of_the_server_are_no_answer() -> None:
    flights = find_flights(units("s27 c64 c300 s9 c9 s500", h2=True))
    assert shape(flights) == [([300], [500])]


def test_a_last_frame_of_control_size_ends_the_answer() -> None:
    flights = find_flights(units("c300 s500 s13", h2=True))
    assert shape(flights) == [([300], [500, 13])]


def test_a_ping_long_after_the_answer_is_no_part_of_it() -> None:
    flights = find_flights(units("c300 s500 s17@60 c17 s17@60", h2=True))
    assert shape(flights) == [([300], [500])]


def test_100_continue_does_not_split_a_request() -> None:
    flights = find_flights(units("c150 s25 c5000 c5000 s120"))
    assert shape(flights) == [([150, 5000, 5000], [120])]


def test_an_answer_of_25_bytes_that_ends_a_connection_stays() -> None:
    assert shape(find_flights(units("c150 s25"))) == [([150], [25])]


def test_nothing_comes_of_nothing() -> None:
    assert len(find_flights(units(""))) == 0
    assert len(find_flights(units("s9 | c9", h2=True))) == 0


def test_latest_of_slices() -> None:
    values = np.array([5, 3, 9, 1], np.int64)
    first, stop = np.array([0, 2, 1, 4]), np.array([2, 4, 1, 4])
    assert latest(values, first, stop).tolist() == [5, 9, NO_TIME, NO_TIME]
