from __future__ import annotations

import random
import struct

import pytest

from capture_analyzer.model.packets import TCP, UDP
from capture_analyzer.pipeline.scan import fragments as module
from capture_analyzer.pipeline.scan import scan

DATA = bytes(range(256)) * 12


def split(datagram: bytes, *cuts: int) -> list[tuple[int, bytes, bool]]:
    """(place, bytes, more) of the parts between the cuts, multiples of 8."""
    ends = [*cuts, len(datagram)]
    begins = [0, *cuts]
    return [
        (begin, datagram[begin:end], end != len(datagram))
        for begin, end in zip(begins, ends, strict=True)
    ]


def v4(make, datagram: bytes, *cuts: int, **more) -> list[bytes]:
    return [
        make.ether(make.ip4(part, fragment=begin // 8 | 0x2000 * left, **more))
        for begin, part, left in split(datagram, *cuts)
    ]


def v6(make, datagram: bytes, *cuts: int, kind: int = 6, number: int = 5) -> list[bytes]:
    return [
        make.ether(make.ip6(struct.pack(">BBHI", kind, 0, begin | left, number) + part, 44), 0x86DD)
        for begin, part, left in split(datagram, *cuts)
    ]


@pytest.mark.parametrize("family", [v4, v6])
def test_a_datagram_belongs_to_the_packet_that_completes_it(make, family):
    parts = family(make, make.tcp(DATA), 800, 1600)
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        made = make.capture([parts[i] for i in order])
        packets, anomalies = scan(made)
        assert anomalies == []
        assert packets.protocol.tolist() == [0, 0, TCP]
        assert (packets.source >= 0).all()
        assert packets.payload_bytes.tolist() == [0, 0, len(DATA)]
        assert packets.buffer_no.tolist() == [0, 0, 1]
        at = packets.payload_offset[2]
        assert bytes(made.buffers[1][at : at + len(DATA)]) == DATA
        assert made.file_no.tolist() == [0, 0, 0]


def test_datagrams_are_told_apart_by_number_protocol_and_addresses(make):
    first = make.tcp(b"a" * 700)
    frames = v4(make, first, 400)
    frames += v4(make, make.tcp(b"b" * 700), 400, number=8)
    frames += v4(make, make.tcp(b"c" * 700), 400, ends=(3, 4))
    frames += v4(make, make.udp(b"d" * 700), 400, protocol=17)
    made = make.capture(frames[0::2] + frames[1::2])
    packets, anomalies = scan(made)
    assert anomalies == []
    assert packets.protocol.tolist() == [0] * 4 + [TCP, TCP, TCP, UDP]
    bytes_ = [bytes(made.buffers[1][a : a + 700]) for a in packets.payload_offset[4:].tolist()]
    assert bytes_ == [letter * 700 for letter in (b"a", b"b", b"c", b"d")]


def test_copies_are_passed_over_and_the_number_can_be_used_again(make):
    one = v4(make, make.tcp(b"a" * 700), 400)
    two = v4(make, make.tcp(b"b" * 700), 400)
    made = make.capture([one[0], one[0], one[1], one[1], one[0], two[0], two[1]])
    packets, anomalies = scan(made)
    assert anomalies == []
    assert packets.protocol.tolist() == [0, 0, TCP, 0, 0, 0, TCP]


def test_a_missing_part_is_counted(make):
    frames = v4(make, make.tcp(DATA), 800, 1600)
    _, anomalies = scan(make.capture([frames[0], frames[2]]))
    assert make.reasons(anomalies) == [("ip-fragment", 2, 1)]


def test_parts_too_far_apart_are_not_of_one_datagram(make):
    frames = v4(make, make.tcp(DATA), 800)
    late = module.TIMEOUT_NS + 1
    assert scan(make.capture(frames, times=[0, late - 1]))[1] == []
    _, anomalies = scan(make.capture(frames, times=[0, late]))
    assert make.reasons(anomalies) == [("ip-fragment", 2, 1)]


def test_parts_that_overlap_are_refused(make):
    frames = v4(make, make.tcp(DATA), 800)
    other = make.ether(make.ip4(DATA[:800], fragment=0x2000 | 50))
    for order in ([frames[0], other, frames[1]], [other, frames[0], frames[1]]):
        packets, anomalies = scan(make.capture(order))
        assert TCP not in packets.protocol
        assert sum(a.count for a in anomalies) == 3
        assert ("ip-malformed", 2, 1) in make.reasons(anomalies)


@pytest.mark.parametrize(
    ("place", "size", "more"),
    [(8, 12, True), (8, 0, True), (65_528, 16, False), (0, 0, True)],
)
def test_senseless_parts_are_refused(make, place, size, more):
    frame = make.ether(make.ip4(bytes(size), fragment=place // 8 | 0x2000 * more))
    _, anomalies = scan(make.capture([frame]))
    assert make.reasons(anomalies) == [("ip-malformed", 1, 1)]


def test_parts_behind_the_end_are_refused(make):
    frames = v4(make, make.tcp(DATA), 800, 1600)
    early = make.ether(make.ip4(DATA[:8], fragment=100))  # the last part ends at 808
    for order in ([frames[1], early], [early, frames[1]]):
        _, anomalies = scan(make.capture(order))
        assert make.reasons(anomalies) == [("ip-malformed", 2, 1)]


def test_what_the_snap_length_cut_is_missing_up_to_there(make):
    frames = v4(make, make.tcp(DATA), 800, 1600)
    originals = [len(frame) for frame in frames]
    frames[1] = frames[1][:100]
    made = make.capture(frames, originals=originals)
    packets, anomalies = scan(made)
    assert anomalies == []
    assert packets.payload_bytes[2] == len(DATA)
    captured = int(packets.payload_captured[2])
    assert captured == 800 - 20 + 100 - 34
    at = packets.payload_offset[2]
    assert bytes(made.buffers[1][at : at + captured]) == DATA[:captured]


def test_extension_headers_inside_of_a_datagram(make):
    options = struct.pack(">BB6x", 6, 0)  # destination options, then TCP
    frames = v6(make, options + make.tcp(DATA), 800, kind=60)
    packets, anomalies = scan(make.capture(frames))
    assert anomalies == []
    assert packets.payload_bytes.tolist() == [0, len(DATA)]


def test_a_fragment_inside_of_a_datagram_is_refused(make):
    inner = struct.pack(">BBHI", 6, 0, 1, 5) + make.tcp(DATA)
    packets, anomalies = scan(make.capture(v6(make, inner, 800, kind=44)))
    assert make.reasons(anomalies) == [("ip-malformed", 1, 2)]
    assert packets.protocol.tolist() == [0, 0]


def test_a_limit_bounds_what_is_kept(make, monkeypatch):
    monkeypatch.setattr(module, "MAX_ASSEMBLED_BYTES", 2000)
    frames = [f for n in range(3) for f in v4(make, make.tcp(b"a" * 900), 400, number=n)]
    packets, anomalies = scan(make.capture(frames))
    assert packets.protocol.tolist() == [0, TCP, 0, TCP, 0, 0]
    assert make.reasons(anomalies) == [("fragment-limit", 1, 6)]


def test_many_parts_in_any_order(make):
    rng = random.Random(4)
    frames = []
    for number in range(20):
        datagram = make.tcp(rng.randbytes(3000))
        cuts = sorted(rng.sample(range(8, 2900, 8), 30))
        frames += v4(make, datagram, *cuts, number=number)
    rng.shuffle(frames)
    packets, anomalies = scan(make.capture(frames))
    assert anomalies == []
    assert int((packets.protocol == TCP).sum()) == 20
    assert set(packets.payload_bytes[packets.protocol == TCP].tolist()) == {3000}
