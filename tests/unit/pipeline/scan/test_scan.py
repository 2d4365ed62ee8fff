from __future__ import annotations

import struct

import numpy as np
import pytest

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import ACK, SYN, TCP, UDP
from capture_analyzer.pipeline.scan import scan
from capture_analyzer.pipeline.scan import scanner as module

ETHERNET, RAW, USB = 1, 101, 189


def test_tcp_over_ethernet_and_ipv4(make):
    usual = b"\x01\x01\x08\x0a" + struct.pack(">II", 5, 6)
    made = make.capture(
        [
            make.ether(make.ip4(make.tcp(b"hello", options=usual))),
            make.ether(make.ip4(make.tcp(), ends=(2, 1))),
        ]
    )
    packets, anomalies = scan(made)
    assert anomalies == []
    assert packets.addresses == ["10.0.0.1", "10.0.0.2"]
    assert packets.source.tolist() == [0, 1]
    assert packets.destination.tolist() == [1, 0]
    assert packets.ip_version.tolist() == [4, 4]
    assert packets.protocol.tolist() == [TCP, TCP]
    assert (packets.ttl[0], packets.ip_id[0]) == (60, 7)
    assert (packets.source_port[0], packets.destination_port[0]) == (1000, 443)
    assert (packets.seq[0], packets.ack[0], packets.window[0]) == (1111, 2222, 500)
    assert (packets.flags[0], packets.tcp_header_bytes[0]) == (ACK, 32)
    assert (packets.tsval[0], packets.tsecr[0]) == (5, 6)
    assert packets.payload_bytes.tolist() == [5, 0]
    assert make.payloads(made, packets) == [b"hello", b""]
    assert packets.connection_no.tolist() == [-1, -1]


def test_udp(make):
    made = make.capture(
        [
            make.ether(make.ip4(make.udp(b"query"), 17)),
            make.ether(make.ip6(make.udp(b"six"), 17), 0x86DD),
        ]
    )
    packets, anomalies = scan(made)
    assert anomalies == []
    assert packets.protocol.tolist() == [UDP, UDP]
    assert packets.destination_port.tolist() == [5353, 5353]
    assert make.payloads(made, packets) == [b"query", b"six"]
    assert packets.tcp_header_bytes.tolist() == [0, 0]


@pytest.mark.parametrize(("length", "expected"), [(10, 2), (0, 5), (7, 5), (100, 5), (13, 5)])
def test_the_udp_length_counts_where_it_can_be_true(make, length, expected):
    packets, _ = scan(make.capture([make.ether(make.ip4(make.udp(b"query", length), 17))]))
    assert packets.payload_bytes.tolist() == [expected]


def test_ethernet_padding_is_no_payload(make):
    made = make.capture(
        [
            make.ether(make.ip4(make.tcp(b"ab"))) + bytes(8),
            make.ether(make.ip4(make.tcp())) + bytes(6),
        ]
    )
    packets, _ = scan(made)
    assert packets.payload_bytes.tolist() == packets.payload_captured.tolist() == [2, 0]


def test_payload_cut_by_the_snap_length(make):
    frames = [
        make.ether(make.ip4(make.tcp(b"ab"), total=1040)),
        make.ether(make.ip4(make.tcp(), total=1040)),
    ]
    made = make.capture(frames, originals=[1054, 1054])
    packets, anomalies = scan(made)
    assert anomalies == []
    assert packets.payload_bytes.tolist() == [1000, 1000]
    assert packets.payload_captured.tolist() == [2, 0]
    assert make.payloads(made, packets) == [b"ab", b""]


def test_packets_above_64_kib(make):
    frame = make.ether(make.ip4(make.tcp(b"abc"), total=0))
    packets, _ = scan(make.capture([frame], originals=[14 + 40 + 100_000]))
    assert packets.payload_bytes.tolist() == [100_000]
    assert packets.payload_captured.tolist() == [3]


def test_options_of_a_syn_and_sack_blocks(make):
    syn = b"\x02\x04\x05\xb4\x04\x02\x01\x03\x03\x09\x00\x00"
    sack = b"\x01\x01\x05\x12" + struct.pack(">IIII", 1, 2, 3, 4)
    one = b"\x01\x01\x05\x0a" + struct.pack(">II", 8, 9)
    frames = [
        make.tcp(options=o, flags=f) for o, f in ((sack, ACK), (syn, SYN), (one, ACK), (b"", ACK))
    ]
    packets, _ = scan(make.capture([make.ether(make.ip4(frame)) for frame in frames]))
    assert packets.mss.tolist() == [0, 1460, 0, 0]
    assert packets.window_scale.tolist() == [0, 9, 0, 0]
    assert packets.ack.tolist() == [2222, 0, 2222, 2222]
    assert packets.sack_count.tolist() == [2, 0, 1, 0]
    assert packets.sack_first.tolist() == [0, 0, 2, 0]
    assert packets.sack_left.tolist() == [1, 3, 8]
    assert packets.sack_right.tolist() == [2, 4, 9]


def test_sack_blocks_stay_in_packet_order_when_versions_mix(make):
    one = b"\x01\x01\x05\x0a" + struct.pack(">II", 8, 9)
    two = b"\x01\x01\x05\x0a" + struct.pack(">II", 1, 2)
    frames = [
        make.ether(make.ip6(make.tcp(options=one)), 0x86DD),
        make.ether(make.ip4(make.tcp(options=two))),
    ]
    packets, _ = scan(make.capture(frames))
    assert packets.sack_first.tolist() == [0, 1]
    assert packets.sack_left.tolist() == [8, 1]


def test_batches_join(make, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 3)
    sack = b"\x01\x01\x05\x0a" + struct.pack(">II", 8, 9)
    frames = []
    for i in range(10):
        body = make.tcp(bytes([i]) * i, options=sack if i % 4 == 1 else b"")
        frames.append(
            make.ether(make.ip4(body, ends=(i, 200)) if i % 3 else make.ip6(body), 0x0800)
        )
    made = make.capture(frames)
    told: list[tuple[int, int]] = []
    packets, anomalies = scan(made, progress=lambda step, done, total: told.append((done, total)))
    assert anomalies == []
    assert told == [(3, 10), (6, 10), (9, 10), (10, 10)]
    assert packets.payload_bytes.tolist() == list(range(10))
    assert make.payloads(made, packets) == [bytes([i]) * i for i in range(10)]
    names = [packets.addresses[number] for number in packets.source.tolist()]
    assert names == [f"10.0.0.{i}" if i % 3 else "::1" for i in range(10)]
    assert packets.addresses[:4] == ["::1", "::2", "10.0.0.1", "10.0.0.200"]
    assert packets.sack_first[packets.sack_count > 0].tolist() == [0, 1, 2]


def test_every_link_type_in_one_capture(make):
    frames = [
        make.ether(make.ip4(make.tcp(b"a"))),
        make.ip4(make.tcp(b"b")),
        b"\x02\x00\x00\x00" + make.ip4(make.tcp(b"c")),
        b"?",
    ]
    made = make.capture(frames, link_types=[ETHERNET, RAW, 0, USB])
    packets, anomalies = scan(made)
    assert make.payloads(made, packets)[:3] == [b"a", b"b", b"c"]
    assert packets.protocol.tolist() == [TCP, TCP, TCP, 0]
    assert [(a.code, a.detail, a.count) for a in anomalies] == [
        ("link-type-unsupported", "link type 189 (USB)", 1)
    ]


def test_what_is_not_decoded_is_counted_by_reason(make):
    whole = make.ether(make.ip4(make.tcp(b"abc")))
    frames = [
        whole,
        make.ether(b"arp", 0x0806),
        make.ether(b"arp", 0x0806),
        make.ether(b"lldp", 0x88CC),
        make.ether(make.ip4(make.tcp(b"four"), fragment=0x2000)),
        make.ether(make.ip4(make.tcp(), fragment=9)),
        whole[:10],
        whole[:30],
        whole[:50],
        make.ether(make.ip4(b"icmp....", 1)),
        make.ether(b"\x50" + bytes(30)),
        make.ether(make.ip4(make.tcp()[:12] + b"\x40" + make.tcp()[13:])),
        make.ether(make.ip4(make.udp(b"")[:6], 17)),
        make.ether(make.ip4(make.tcp(options=bytes(8))[:24])),
    ]
    originals = [
        max(len(frame), 14 + 43 if i in (6, 7, 8) else 0) for i, frame in enumerate(frames)
    ]
    packets, anomalies = scan(make.capture(frames, originals=originals))
    assert make.reasons(anomalies) == [
        ("ip-fragment", 2, 5),
        ("ip-malformed", 1, 11),
        ("not-ip", 2, 2),
        ("not-ip", 1, 4),
        ("protocol-not-decoded", 1, 10),
        ("tcp-malformed", 2, 12),
        ("truncated-header", 1, 7),
        ("truncated-header", 1, 8),
        ("truncated-header", 1, 9),
        ("udp-malformed", 1, 13),
    ]
    assert sum(a.count for a in anomalies) == len(frames) - 1
    assert packets.protocol.tolist() == [TCP] + [0] * 8 + [1] + [0] * 4
    undecoded = packets.protocol != TCP
    for name in ("source_port", "seq", "flags", "tcp_header_bytes", "payload_bytes", "window"):
        assert not getattr(packets, name)[undecoded].any(), name
    # A fragment's addresses are known, those of a cut header are not.
    assert (packets.source[4] >= 0, packets.source[7], packets.source[8] >= 0) == (True, -1, True)


def test_many_kinds_are_summed_up(make, monkeypatch):
    from capture_analyzer.pipeline.scan import tally

    monkeypatch.setattr(tally, "MAX_REASONS", 3)
    frames = [make.ether(b"x", 0x9000 + i % 10) for i in range(100)]
    _, anomalies = scan(make.capture(frames))
    assert len(anomalies) == 4
    assert sum(a.count for a in anomalies) == 100
    assert anomalies[0].detail == "other kinds"


def test_packets_without_a_time_are_left_aside(make):
    frames = [make.ether(make.ip4(make.tcp(b"a")))] * 3
    packets, anomalies = scan(make.capture(frames, times=[0, NO_TIME, 5]))
    assert make.reasons(anomalies) == [("packet-without-time", 1, 2)]
    assert packets.protocol.tolist() == [TCP, 0, TCP]
    assert packets.time_ns.tolist() == [0, NO_TIME, 5]


def test_an_empty_capture(make):
    packets, anomalies = scan(make.capture([]))
    assert (len(packets), anomalies, packets.addresses) == (0, [], [])


def test_several_files(make):
    one, two = [make.ether(make.ip4(make.tcp(b"a")))], [make.ip6(make.tcp(b"bb"))]
    made = make.capture(one + two, link_types=[ETHERNET, RAW])
    made.buffers = [made.buffers[0], b"..." + two[0]]
    made.file_no[:] = [0, 1]
    made.data_offset[1] = 3
    packets, anomalies = scan(made)
    assert anomalies == []
    assert packets.payload_bytes.tolist() == [1, 2]
    assert packets.ip_version.tolist() == [4, 6]
    assert packets.payload_offset[1] == 3 + 40 + 20


def test_columns_of_a_capture_are_not_changed(make):
    made = make.capture([make.ether(make.ip4(make.tcp(b"a")))] * 4)
    before = [made.time_ns.copy(), made.data_offset.copy(), made.captured_bytes.copy()]
    scan(made)
    after = [made.time_ns, made.data_offset, made.captured_bytes]
    assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))
