"""TCP analysis on nonsense: nothing escapes, and what holds always holds."""

from __future__ import annotations

import sys
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from capture_analyzer.model.capture import Capture
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.holes import HOLE_KINDS
from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS, TCP, Packets
from capture_analyzer.model.rtt_samples import RttSamples
from capture_analyzer.pipeline.flows import group
from capture_analyzer.pipeline.reassemble import reassemble
from capture_analyzer.pipeline.tcp import analyse
from capture_analyzer.pipeline.tcp.samples import add_samples
from capture_analyzer.pipeline.tcp.senders import sender_tables
from capture_analyzer.pipeline.tcp.wireshark import add_labels
from capture_analyzer.pipeline.tcp.wireshark.labelling import find_flags

module = sys.modules["capture_analyzer.pipeline.tcp.analyse"]  # the name is the function's

NUMBERS = st.sampled_from(
    [0, 1, 2, 5, 10, 11, 12, 40, 2**31 - 1, 2**31, 2**31 + 7, 2**32 - 3, 2**32 - 1, 9**9]
)
FLAGS = st.sampled_from([0, 0x01, 0x02, 0x04, 0x10, 0x10, 0x10, 0x11, 0x12, 0x14, 0x18, 0x3F])
PACKET = st.tuples(
    st.integers(0, 3),  # 4-tuple and direction
    FLAGS,
    NUMBERS,
    NUMBERS,
    st.sampled_from([0, 0, 1, 2, 5, 30, 1448]),
    st.integers(-5, 400),  # ms since the last, seldom before it
    st.sampled_from([0, 1, 1000, 65535]),  # window
    st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4),
    st.integers(0, 255),  # options
    st.sampled_from([0, 1, 2, 2**32 - 1]),  # timestamps and identification
)


def packets_of(rows):
    packets = Packets.blank(len(rows))
    sacks = [block for row in rows for block in row[7]]
    at = first = 0
    for i, row in enumerate(rows):
        which, flags, seq, ack, length, later, window, blocks, options, number = row
        at += later * 1_000_000
        packets.time_ns[i] = at
        packets.source[i], packets.destination[i] = which % 2, 1 - which % 2
        ports = (1000 + which // 2, 80)
        packets.source_port[i], packets.destination_port[i] = ports[:: 1 if which % 2 else -1]
        packets.flags[i], packets.seq[i], packets.ack[i] = flags, seq, ack
        packets.payload_bytes[i] = packets.payload_captured[i] = length
        packets.window[i], packets.options[i] = window, options
        packets.tsval[i], packets.tsecr[i], packets.ip_id[i] = number, number, number & 0xFFFF
        packets.sack_count[i], packets.sack_first[i] = len(blocks), first
        first += len(blocks)
    packets.protocol[:] = TCP
    packets.tcp_header_bytes[:] = 20
    packets.addresses = ["a", "b"]
    packets.sack_left = np.array([left for left, _ in sacks], np.uint32)
    packets.sack_right = np.array([right for _, right in sacks], np.uint32)
    return packets


def capture_of(packets):
    columns = (packets.time_ns, packets.file_no, packets.frame_no, packets.file_no)
    sizes = (packets.payload_offset, packets.captured_bytes, packets.original_bytes)
    return Capture([], [], [bytes(1448)], 0, *columns, *sizes)


@settings(deadline=None, max_examples=100)
@given(st.lists(PACKET, max_size=30))
def test_nothing_escapes_and_invariants_hold(rows):
    packets = packets_of(rows)
    flows = group(packets)
    facts = analyse(packets, flows)
    streams = reassemble(capture_of(packets), packets, flows, facts.connections)

    assert sorted(flows.order.tolist()) == list(range(len(packets)))
    assert [c.connection_no for c in facts.connections] == list(range(len(flows)))
    assert len(streams) == 2 * len(flows)
    for connection in facts.connections:
        sent = 0
        for side in (True, False):
            stream = streams.stream(connection.connection_no, side)
            ends = stream.starts + stream.lengths
            assert (stream.lengths > 0).all()
            assert (stream.starts >= 0).all()
            assert (stream.starts[1:] >= ends[:-1]).all()
            assert (np.diff(stream.in_order_ns) >= 0).all()
            assert (stream.in_order_ns >= stream.seen_ns).all()
            assert stream.end >= (ends[-1] if len(ends) else 0)
            assert all(length > 0 for _, length in stream.gaps())
            sent += int(stream.lengths.sum())
        assert connection.client_bytes + connection.server_bytes == sent
        assert connection.missing_bytes >= 0
        assert 0 <= connection.vantage_confidence <= 1
        by_mechanism = sum(connection.retransmissions_by_mechanism.values())
        assert by_mechanism == connection.retransmissions >= connection.retransmissions_spurious
    label = packets.label
    assert (label > 0).all()
    assert (label < len(LABELS)).all()
    assert (packets.mechanism < len(MECHANISMS)).all()
    assert (packets.spurious < len(SPURIOUS)).all()
    again = label == LABELS.index("retransmission")
    assert (packets.payload_bytes[again] > 0).all()
    assert (packets.mechanism[again] > 0).all()
    assert (packets.spurious[~again] == 0).all()

    holes = facts.holes
    filled = holes.filled_ns != NO_TIME
    assert (holes.length > 0).all()
    assert (holes.offset >= 0).all()
    assert (holes.filled_ns[filled] >= holes.opened_ns[filled]).all()
    assert (holes.offset < 2**43).all()
    assert (holes.kind < len(HOLE_KINDS)).all()
    assert ((holes.confidence > 0) & (holes.confidence <= 1)).all()
    assert (holes.opened_packet_no > 0).all()
    assert ((holes.filled_packet_no > 0) == filled).all()
    assert (np.diff(holes.connection_no) >= 0).all()


@settings(deadline=None, max_examples=40)
@given(st.lists(PACKET, max_size=30))
def test_batches_change_nothing(rows):
    results = []
    for limit in (65536, 1):
        packets = packets_of(rows)
        flows = group(packets)
        with mock.patch.object(module, "BATCH_PACKETS", limit):
            facts = analyse(packets, flows)
        results.append(
            (
                facts.connections,
                [getattr(facts.holes, name).tolist() for name in ("offset", "opened_ns", "kind")],
                packets.label.tolist(),
                packets.mechanism.tolist(),
                packets.spurious.tolist(),
                flows.pieces.begin.tolist(),
                flows.pieces.bounds.tolist(),
            )
        )
    assert results[0] == results[1]


@settings(deadline=None, max_examples=200)
@given(st.lists(PACKET, max_size=30), st.sampled_from([0, 10**18]))
def test_what_is_worked_out_later(rows, epoch):
    packets = packets_of(rows)
    facts = analyse(packets, group(packets))
    masks = find_flags(packets, epoch)
    assert masks.tolist() == find_flags(packets, epoch, walk_all=True).tolist()
    add_labels(packets, epoch)
    assert len(packets.wireshark_label) == len(packets)
    samples = RttSamples()
    add_samples(samples, packets=packets)
    assert (samples.rtt_ns >= 0).all()
    assert (samples.packet_no < samples.answer_packet_no).all()
    assert (np.diff(samples.connection_no) >= 0).all()
    windows, limits, stalls = sender_tables(packets, facts)
    windows.complete()
    data = (packets.label != LABELS.index("capture_duplicate")) & (packets.payload_bytes > 0)
    assert len(windows) <= data.sum()
    assert (windows.in_flight_bytes >= -1).all()
    assert (windows.congestion_window_bytes <= windows.in_flight_bytes.max(initial=-1)).all()
    limits.complete()
    assert (limits.to_ns > limits.from_ns).all()
    key = limits.connection_no * 2 + ~limits.from_client
    assert (np.diff(key) >= 0).all()
    same = key[1:] == key[:-1]
    assert (limits.from_ns[1:][same] == limits.to_ns[:-1][same]).all()
    assert (limits.limit[1:][same] != limits.limit[:-1][same]).all()
    assert (limits.bytes >= 0).all()
    stalls.complete()
    assert (stalls.to_ns - stalls.from_ns > stalls.least_ns).all()
    assert (stalls.least_ns >= 1_000_000).all()
