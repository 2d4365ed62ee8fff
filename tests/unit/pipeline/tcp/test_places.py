"""Where segments stand in their streams: offsets, acknowledgements, windows, SACK blocks."""

from __future__ import annotations

import functools

import pytest

from capture_analyzer.model.packets import HAS_WINDOW_SCALE, OPTIONS_BROKEN
from capture_analyzer.model.tcp_segments import TcpSegments
from capture_analyzer.pipeline.tcp.places import add_places


def places(wire, numbers=None):
    table = TcpSegments()
    add_places(table, numbers, packets=wire.analyse().packets)
    return table


def opened(wire, client=None, server=None, **server_only):
    """A handshake; `client` and `server` are the shifts of their windows, None without."""

    def option(shift):
        return {} if shift is None else {"options": HAS_WINDOW_SCALE, "window_scale": shift}

    wire.client(0, "S", 1000, 0, window=1000, **option(client))
    wire.server(30, "SA", 5000, 1001, window=1000, **{**option(server), **server_only})
    wire.client(30, "A", 1001, 5001, window=1000)
    return wire


def test_offsets_and_what_is_in_flight(new_wire):
    wire = opened(new_wire())
    wire.client(40, "A", 1001, 5001, b"ask")
    wire.server(70, "A", 5001, 1004, b"0123456789")
    wire.server(71, "A", 5011, 1004, b"0123456789")
    wire.client(72, "A", 1004, 5011)
    wire.server(73, "A", 5001, 1004, b"0123456789")  # again
    rows = places(wire)
    columns = (rows.packet_no, rows.offset, rows.sent, rows.acked, rows.peer_sent, rows.peer_acked)
    assert list(zip(*(column[3:].tolist() for column in columns), strict=True)) == [
        (4, 0, 3, 0, 0, 0),
        (5, 0, 10, 3, 3, 0),
        (6, 10, 20, 3, 3, 0),
        (7, 3, 3, 10, 20, 3),
        (8, 0, 20, 3, 3, 10),
    ]
    assert rows.from_client.tolist() == [True, False, True, True, False, False, True, False]


@pytest.mark.parametrize(
    ("shifts", "windows"),
    [
        ((7, 2), [-1, 1000, 128_000, 4000]),  # a SYN's own window is not shifted
        ((7, None), [-1, 1000, 1000, 1000]),  # one does not want it: neither does
        ((None, 2), [-1, 1000, 1000, 1000]),
        ((15, 0), [-1, 1000, 1000 << 14, 1000]),  # no more than 14
    ],
)
def test_windows_are_shifted_if_both_sides_want_it(new_wire, shifts, windows):
    wire = opened(new_wire(), *shifts)
    wire.server(40, "A", 5001, 1001, window=1000)
    assert places(wire).window_bytes.tolist() == windows


def test_no_window_without_the_handshake(new_wire):
    wire = new_wire()
    wire.client(0, "A", 1001, 5001, b"a", window=1000)
    wire.server(1, "A", 5001, 1002, b"b", window=1000)
    assert places(wire).window_bytes.tolist() == [-1, -1]


def test_no_window_where_the_options_of_a_syn_were_cut(new_wire):
    wire = opened(new_wire(), 7, options=OPTIONS_BROKEN)
    wire.server(40, "A", 5001, 1001, window=1000)
    assert places(wire).window_bytes.tolist() == [-1, 1000, 128_000, -1]


def test_sack_blocks_are_offsets(new_wire):
    wire = opened(new_wire())
    for at, seq in enumerate((5001, 5021, 5041)):
        wire.server(40 + at, "A", seq, 1001, b"0123456789")
    wire.client(43, "A", 1001, 5011, sack=[(5021, 5031)])
    wire.client(44, "A", 1001, 5011, sack=[(5041, 5051), (5021, 5031)])
    rows = places(wire)
    assert rows.sack_count.tolist() == [0] * 6 + [1, 2]
    assert rows.sack_first[6:].tolist() == [0, 1]
    assert rows.sack_from.tolist() == [20, 40, 20]
    assert rows.sack_to.tolist() == [30, 50, 30]


def test_across_the_wrap_of_sequence_numbers(new_wire):
    wire = new_wire()
    wire.server(0, "A", 2**32 - 4, 1001, b"01234567")
    wire.server(1, "A", 4, 1001, b"01234567")
    wire.client(2, "A", 1001, 4, sack=[(4, 12)])
    rows = places(wire)
    assert rows.offset.tolist()[:2] == [0, 8]
    assert rows.acked.tolist()[2] == 8
    assert (rows.sack_from.tolist(), rows.sack_to.tolist()) == ([8], [16])


def test_of_some_connections_only(new_wire, monkeypatch):
    monkeypatch.setattr("capture_analyzer.pipeline.tcp.regroup.BATCH_PACKETS", 2)
    wire = new_wire()
    for port in (1, 2, 3):
        wire.client(port, "A", 1001, 5001, b"a", client_port=port)
        wire.server(port + 20, "A", 5001, 1002, client_port=port, sack=[(1005, 1006)])
    packets = wire.analyse().packets
    table = TcpSegments(unfinished=functools.partial(add_places, packets=packets))
    some = table.of([2, 0, 99])
    assert some.connection_no.tolist() == [0, 0, 2, 2]
    assert some.packet_no.tolist() == [1, 2, 5, 6]
    assert some.sack_first.tolist() == [0, 0, 0, 1]
    assert len(table) == 0
    assert table.complete().connection_no.tolist() == [0, 0, 1, 1, 2, 2]
    assert table.of([1]) is table
    assert table.rows_of(1) == slice(2, 4)


def test_no_packets(new_wire):
    assert len(places(new_wire())) == 0
