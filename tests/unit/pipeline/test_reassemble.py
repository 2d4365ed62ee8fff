"""Segments put together: whatever the network did to them, the bytes are the same."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture_analyzer.model.packets import Packets
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.reassemble import reassemble

MS = 1_000_000


def server_stream(new_wire, segments, *, isn=5000, fin=None):
    """The server's stream from (ms, offset, payload) after a handshake, seen at the client."""
    wire = new_wire()
    wire.handshake(0, isn=1000, peer_isn=isn)
    for at, offset, payload in segments:
        wire.server(100 + at, "A", isn + 1 + offset, 1001, payload, ttl=57)
    if fin is not None:
        wire.server(*fin)
    return wire.analyse().streams.stream(0, False)


def test_plain(new_wire):
    stream = server_stream(new_wire, [(0, 0, b"abc"), (1, 3, b"de")])
    assert stream.read(0, 99) == b"abcde"
    assert stream.starts.tolist() == [0, 3]
    assert stream.packet_nos.tolist() == [4, 5]
    assert stream.seen_ns.tolist() == [100 * MS, 101 * MS]
    assert stream.in_order_ns.tolist() == [100 * MS, 101 * MS]
    assert not stream.begins_mid_stream
    assert stream.end == 5
    assert stream.fin_ns is None


def test_overtaken_bytes_are_in_order_when_all_before_are_there(new_wire):
    stream = server_stream(new_wire, [(0, 3, b"de"), (1, 5, b"f"), (2, 0, b"abc"), (3, 6, b"g")])
    assert stream.read(0, 99) == b"abcdefg"
    assert stream.seen_ns.tolist() == [102 * MS, 100 * MS, 101 * MS, 103 * MS]
    assert stream.in_order_ns.tolist() == [102 * MS, 102 * MS, 102 * MS, 103 * MS]
    assert stream.packet_nos.tolist() == [6, 4, 5, 7]


def test_of_overlapping_bytes_the_first_copy_counts(new_wire):
    stream = server_stream(new_wire, [(0, 0, b"abcd"), (1, 2, b"XYef"), (2, 0, b"QRSTUV")])
    assert stream.read(0, 99) == b"abcdef"
    assert stream.starts.tolist() == [0, 4]


def test_partly_overlapping_segments_in_a_hole(new_wire):
    segments = [(0, 10, b"k"), (1, 2, b"cde"), (2, 4, b"EFG"), (3, 0, b"abCDEFGhij"), (4, 11, b"l")]
    stream = server_stream(new_wire, segments)
    assert stream.read(0, 99) == b"abcdeFGhijkl"
    assert stream.gaps() == []


def test_a_gap_stays_a_gap(new_wire):
    stream = server_stream(new_wire, [(0, 0, b"abc"), (1, 10, b"xyz")])
    assert stream.gaps() == [(3, 7)]
    assert stream.read(0, 99) == b"abc"
    assert stream.read(10, 99) == b"xyz"


def test_a_missing_tail_is_known_from_the_acknowledgement(new_wire):
    wire = new_wire()
    wire.handshake(0, isn=1000, peer_isn=5000)
    wire.server(100, "A", 5001, 1001, b"abc")
    wire.client(101, "A", 1001, 5001 + 3 + 20)
    analysed = wire.analyse()
    stream = analysed.streams.stream(0, False)
    assert stream.end == 23
    assert stream.gaps() == [(3, 20)]
    assert analysed.facts.connections[0].missing_bytes == 20


def test_the_acknowledgement_of_a_fin_is_no_missing_byte(new_wire):
    wire = new_wire()
    wire.handshake(0, isn=1000, peer_isn=5000)
    wire.server(100, "A", 5001, 1001, b"abc")
    wire.client(102, "A", 1001, 5001 + 4)  # the FIN itself was not captured
    analysed = wire.analyse()
    assert analysed.streams.stream(0, False).gaps() == []
    assert analysed.facts.connections[0].missing_bytes == 0


def test_wrap_around_with_reordering_at_the_wrap(new_wire):
    isn = 2**32 - 4
    stream = server_stream(
        new_wire, [(0, 0, b"ab"), (1, 4, b"ef"), (2, 2, b"cd"), (3, 6, b"gh")], isn=isn
    )
    assert stream.read(0, 99) == b"abcdefgh"
    assert stream.starts.tolist() == [0, 2, 4, 6]


def test_more_than_4_gib(new_wire):
    wire = new_wire()
    wire.handshake(0, isn=1000, peer_isn=5000)
    at = 0
    # The capture lost most of it, but each place is continued, so it is believed.
    for i in range(6):
        wire.server(100 + i, "A", 5001 + at, 1001, b"x" * 10)
        wire.server(100.5 + i, "A", 5001 + at + 10, 1001, b"y" * 10)
        at += 2**30
    stream = wire.analyse().streams.stream(0, False)
    assert stream.starts.tolist() == [s for i in range(6) for s in (i * 2**30, i * 2**30 + 10)]


def test_data_on_syn_and_fin(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000, 0, b"early")
    wire.server(20, "SA", 5000, 1006)
    wire.client(21, "A", 1006, 5001, b" data")
    wire.client(22, "FA", 1011, 5001, b" end")
    wire.server(40, "A", 5001, 1016)
    streams = wire.analyse().streams
    stream = streams.stream(0, True)
    assert stream.read(0, 99) == b"early data end"
    assert stream.fin_ns == 22 * MS
    assert stream.end == 14
    assert len(streams.stream(0, False)) == 0


def test_a_syn_with_data_sent_again_without(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000, 0, b"early")
    wire.client(1000, "S", 1000)
    wire.server(1020, "SA", 5000, 1001)
    wire.client(1021, "A", 1001, 5001, b"early")
    assert wire.analyse().streams.stream(0, True).read(0, 99) == b"early"


def test_keep_alives_and_probes_add_nothing(new_wire):
    wire = new_wire()
    wire.handshake(0)
    wire.server(100, "A", 5001, 1001, b"abc")
    wire.client(101, "A", 1001, 5004)
    wire.server(9000, "A", 5003, 1001, b"\0")  # keep-alive with a byte of rubbish
    wire.client(9001, "A", 1001, 5004, window=0)
    wire.server(9500, "A", 5003, 1001)  # Linux's window probe
    wire.client(9501, "A", 1001, 5004, window=0)
    wire.server(9600, "A", 5004, 1001, b"d")  # a probe with the next byte
    wire.client(9601, "A", 1001, 5004, window=0)
    wire.server(9800, "A", 5004, 1001, b"def")
    stream = wire.analyse().streams.stream(0, False)
    assert stream.read(0, 99) == b"abcdef"
    assert stream.gaps() == []


def test_what_the_snap_length_cut_off_is_a_gap(new_wire):
    wire = new_wire()
    wire.handshake(0)
    wire.server(100, "A", 5001, 1001, b"abcdef", captured=2)
    wire.server(101, "A", 5007, 1001, b"ghi", captured=0)
    wire.server(102, "A", 5010, 1001, b"jk")
    stream = wire.analyse().streams.stream(0, False)
    assert stream.gaps() == [(2, 7)]
    assert stream.starts.tolist() == [0, 9]
    assert stream.read(9, 99) == b"jk"


def test_a_reset_ends_both_and_its_payload_is_not_stream_data(new_wire):
    wire = new_wire()
    wire.handshake(0)
    wire.server(100, "A", 5001, 1001, b"abc")
    wire.server(101, "R", 5004, 0, b"go away")
    streams = wire.analyse().streams
    assert streams.stream(0, False).read(0, 99) == b"abc"
    assert streams.stream(0, False).reset_ns == streams.stream(0, True).reset_ns == 101 * MS


def test_a_stream_that_begins_before_the_capture(new_wire):
    wire = new_wire()
    wire.server(0, "A", 7000, 300, b"second")  # overtook the next one
    wire.server(1, "A", 6995, 300, b"first")
    wire.client(2, "A", 300, 7006)
    wire.server(3, "A", 7006, 300, b"third")
    stream = wire.analyse().streams.stream(0, False)
    assert stream.begins_mid_stream
    assert stream.read(0, 99) == b"firstsecondthird"


def test_a_repeat_from_before_the_capture_is_not_its_begin(new_wire):
    wire = new_wire()
    wire.client(0, "A", 300, 7000)  # all below 7000 has arrived already
    wire.server(1, "A", 7000, 300, b"new")
    wire.server(2, "A", 6990, 300, b"old")
    wire.server(3, "A", 7003, 300, b"er")
    stream = wire.analyse().streams.stream(0, False)
    assert stream.read(0, 99) == b"newer"


def test_with_only_the_syn_ack_the_clients_stream_has_its_begin(new_wire):
    wire = new_wire()
    wire.server(0, "SA", 5000, 1001)
    wire.client(1, "A", 1006, 5001, b"56789")
    stream = wire.analyse().streams.stream(0, True)
    assert not stream.begins_mid_stream
    assert stream.gaps() == [(0, 5)]


def test_one_wild_sequence_number_is_set_aside(new_wire):
    wire = new_wire()
    wire.handshake(0)
    wire.server(100, "A", 5001, 1001, b"abc")
    wire.server(101, "A", 5001 + 2**31 - 9, 1001, b"boo")
    wire.server(102, "A", 5004, 1001, b"def")
    analysed = wire.analyse()
    stream = analysed.streams.stream(0, False)
    assert stream.read(0, 99) == b"abcdef"
    assert stream.end == 6
    [anomaly] = analysed.facts.anomalies
    assert (anomaly.code, anomaly.origin, anomaly.packet_no) == ("tcp-sequence-far", "peer", 5)
    assert analysed.facts.connections[0].missing_bytes == 0


def test_the_senders_capture_takes_the_copy_that_was_needed(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000, ttl=57)
    wire.server(0.05, "SA", 5000, 1001)
    wire.client(20, "A", 1001, 5001, ttl=57)
    wire.server(100, "A", 5001, 1001, b"abc")
    wire.server(101, "A", 5004, 1001, b"def")
    wire.client(121, "A", 1001, 5001, ttl=57, sack=[(5004, 5007)])
    wire.server(122, "A", 5001, 1001, b"abc")
    wire.client(142, "A", 1001, 5007, ttl=57)
    stream = wire.analyse().streams.stream(0, False)
    assert stream.packet_nos.tolist() == [4, 5]
    assert stream.seen_ns.tolist() == [100 * MS, 101 * MS]
    assert stream.in_order_ns.tolist() == [122 * MS, 122 * MS]


def test_of_a_large_segment_only_the_lost_part_came_later(new_wire):
    wire = new_wire()
    wire.client(0, "S", 1000, ttl=57)
    wire.server(0.05, "SA", 5000, 1001)
    wire.client(20, "A", 1001, 5001, ttl=57)
    wire.server(100, "A", 5001, 1001, b"abcdefghij")  # several segments on the wire
    wire.client(121, "A", 1001, 5005, ttl=57, sack=[(5007, 5011)])
    wire.server(122, "A", 5005, 1001, b"ef")
    wire.client(142, "A", 1001, 5011, ttl=57)
    stream = wire.analyse().streams.stream(0, False)
    assert stream.read(0, 99) == b"abcdefghij"
    assert stream.starts.tolist() == [0, 4]
    assert stream.packet_nos.tolist() == [4, 4]
    assert stream.in_order_ns.tolist() == [100 * MS, 122 * MS]


def test_needs_analysed_flows(new_wire):
    wire = new_wire()
    wire.handshake(0)
    capture, packets = wire.build()
    with pytest.raises(ValueError, match="analyse"):
        reassemble(capture, packets, group(packets), [])


def test_an_empty_capture(new_wire):
    streams = new_wire().analyse().streams
    assert len(streams) == 0
    assert isinstance(new_wire().build()[1], Packets)


@st.composite
def deliveries(draw):
    """A text, and segments of it in some order that together hold all of it."""
    text = draw(st.binary(min_size=1, max_size=300))
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=12))
    edges = sorted({0, len(text), *cuts})
    segments = list(pairwise(edges))
    extra = draw(
        st.lists(
            st.tuples(st.integers(0, len(text)), st.integers(1, 60)).map(
                lambda p: (p[0], min(p[0] + p[1], len(text)))
            ),
            max_size=12,
        )
    )
    segments += [s for s in extra if s[0] < s[1]]
    return text, draw(st.permutations(segments))


@settings(deadline=None, max_examples=300)
@given(deliveries(), st.sampled_from([5000, 2**32 - 1, 2**32 - 100]), st.booleans())
def test_any_order_any_repeats_give_the_same_bytes(new_wire, delivery, isn, begins_mid_stream):
    text, order = delivery
    wire = new_wire()
    if not begins_mid_stream:
        wire.handshake(0, isn=1000, peer_isn=isn)
    for i, (start, stop) in enumerate(order):
        wire.server(100 + i, "A", isn + 1 + start, 1001, text[start:stop], ttl=57)
    stream = wire.analyse().streams.stream(0, False)
    assert stream.read(0, 10_000) == text
    assert stream.gaps() == []
    if begins_mid_stream:
        return  # where it was captured isn't known then, nor which copy counts
    # In order: the latest first arrival of all bytes up to this one.
    arrived = {}
    for i, (start, stop) in enumerate(order):
        for byte in range(start, stop):
            arrived.setdefault(byte, (100 + i) * MS)
    for byte in range(len(text)):
        in_order = max(arrived[b] for b in range(byte + 1))
        assert int(stream.in_order_ns[stream.chunk_at(byte)]) == in_order


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 120), st.integers(1, 40)), max_size=14),
    st.sampled_from([5000, 2**32 - 50]),
)
def test_different_contents_first_copy_wins_byte_by_byte(new_wire, segments, isn):
    wire = new_wire()
    wire.handshake(0, isn=1000, peer_isn=isn)
    expected = {}
    for i, (start, length) in enumerate(segments):
        wire.server(100 + i, "A", isn + 1 + start, 1001, bytes([i + 1]) * length, ttl=57)
        for byte in range(start, start + length):
            expected.setdefault(byte, i + 1)
    stream = wire.analyse().streams.stream(0, False)
    got = {}
    for offset, view, _ in stream.segments():
        for k, value in enumerate(view):
            assert offset + k not in got
            got[offset + k] = value
    assert got == expected
