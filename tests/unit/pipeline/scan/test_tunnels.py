from __future__ import annotations

import struct

import pytest

from capture_analyzer.model.packets import TCP, UDP
from capture_analyzer.pipeline.scan import scan, tunnels

MACS = bytes(12)


def inner(make, text: bytes = b"inside", ends: tuple = (5, 6)) -> bytes:
    return make.ip4(make.tcp(text), ends=ends)


def gre(protocol: int, flags: int = 0, fields: bytes = b"") -> bytes:
    return struct.pack(">HH", flags, protocol) + fields


def vxlan(network: int, flags: int = 8) -> bytes:
    return struct.pack(">II", flags << 24, network << 8)


def to_port(make, port: int, payload: bytes) -> bytes:
    return make.ip4(struct.pack(">HHHH", 50_000, port, 8 + len(payload), 0) + payload, 17)


def frame4(make) -> bytes:
    return MACS + b"\x08\x00" + inner(make)


def cases(make) -> dict[str, tuple[bytes, str, int | None]]:
    """Outer packets, kind, identifier."""
    body, frame = inner(make), frame4(make)
    tagged = MACS + b"\x81\x00\x00\x05\x08\x00" + body
    six = make.ip6(make.tcp(b"inside"))
    key = b"\x00\x00\x00\x2a"
    session = b"\x10\x00\x00\x07" + bytes(4)
    return {
        "IPv4 in IPv4": (make.ip4(body, 4), "ipip", None),
        "IPv6 in IPv4": (make.ip4(six, 41), "ipip", None),
        "IPv4 in IPv6": (make.ip6(body, 4), "ipip", None),
        "IPv6 in IPv6": (make.ip6(six, 41), "ipip", None),
        "EtherIP": (make.ip4(b"\x30\x00" + frame, 97), "etherip", None),
        "MPLS": (make.ip4(b"\x00\x01\x01\x40" + body, 137), "mpls", None),
        "GRE": (make.ip4(gre(0x0800) + body, 47), "gre", None),
        "GRE with a key": (make.ip4(gre(0x0800, 0x2000, key) + body, 47), "gre", 42),
        "GRE with all": (
            make.ip4(gre(0x86DD, 0xB000, bytes(4) + key + bytes(4)) + six, 47),
            "gre",
            42,
        ),
        "GRE with Ethernet": (make.ip4(gre(0x6558) + tagged, 47), "gre", None),
        "PPTP": (
            make.ip4(
                gre(0x880B, 0x3081, b"\x00\x40\x00\x09" + bytes(8)) + b"\xff\x03\x00\x21" + body, 47
            ),
            "gre",
            9,
        ),
        "ERSPAN I": (make.ip4(gre(0x88BE) + frame, 47), "erspan", None),
        "ERSPAN II": (make.ip4(gre(0x88BE, 0x1000, bytes(4)) + session + frame, 47), "erspan", 7),
        "ERSPAN III": (
            make.ip4(gre(0x22EB, 0x1000, bytes(4)) + session + bytes(4) + frame, 47),
            "erspan",
            7,
        ),
        "ERSPAN III with a subheader": (
            make.ip4(
                gre(0x22EB, 0x1000, bytes(4)) + session + b"\0\0\0\x01" + bytes(8) + frame, 47
            ),
            "erspan",
            7,
        ),
        "VXLAN": (to_port(make, 4789, vxlan(42) + frame), "vxlan", 42),
        "VXLAN of Linux": (to_port(make, 8472, vxlan(42) + tagged), "vxlan", 42),
        "VXLAN-GPE": (
            to_port(make, 4790, b"\x0c\0\0\x01" + struct.pack(">I", 42 << 8) + body),
            "vxlan",
            42,
        ),
        "GENEVE": (
            to_port(make, 6081, b"\x00\x00\x65\x58" + struct.pack(">I", 42 << 8) + frame),
            "geneve",
            42,
        ),
        "GENEVE with options": (
            to_port(make, 6081, b"\x02\x40\x08\x00" + struct.pack(">I", 9 << 8) + bytes(8) + body),
            "geneve",
            9,
        ),
        "GTP": (to_port(make, 2152, b"\x30\xff\0\0\0\0\0\x2a" + body), "gtp", 42),
        "GTP with extensions": (
            to_port(
                make,
                2152,
                b"\x34\xff\0\0\0\0\0\x2a" + b"\0\0\0\x85" + b"\x01\0\0\x85" + b"\x01\0\0\0" + body,
            ),
            "gtp",
            42,
        ),
    }


def test_every_kind_leads_to_the_packet_inside(make):
    for name, (outer, kind, identifier) in cases(make).items():
        link = 0x86DD if outer[0] >> 4 == 6 else 0x0800
        made = make.capture([make.ether(outer, link)])
        packets, anomalies = scan(made)
        assert anomalies == [], name
        assert packets.protocol.tolist() == [TCP], name
        assert make.payloads(made, packets) == [b"inside"], name
        assert packets.payload_bytes.tolist() == [6], name
        source = packets.addresses[packets.source[0]]
        assert source in ("10.0.0.5", "::1"), name
        assert packets.tunnel_no.tolist() == [1], name
        tunnel = packets.tunnels[0]
        assert (tunnel.kind, tunnel.identifier) == (kind, identifier), name
        assert tunnel.source_ip == ("::1" if outer[0] >> 4 == 6 else "10.0.0.1"), name
        assert (tunnel.first_packet_no, tunnel.packet_count, tunnel.outer_no) == (1, 1, 0)


@pytest.mark.parametrize(
    ("port", "payload"),
    [
        (4789, vxlan(42, flags=0)),
        (4789, vxlan(42) + MACS + b"\x08\x06" + bytes(30)),
        (6081, b"\x40\x00\x65\x58" + bytes(60)),
        (6081, b"\x00\x80\x08\x00" + bytes(4)),
        (2152, b"\x32\x01\0\0" + bytes(20)),
        (2152, b"\x34\xff\0\0\0\0\0\x2a" + b"\0\0\0\x85" + bytes(40)),
        (443, vxlan(42) + MACS + b"\x08\x00" + b"\x45" + bytes(40)),
    ],
)
def test_what_is_no_tunnel_stays_a_datagram(make, port, payload):
    made = make.capture([make.ether(to_port(make, port, payload))])
    packets, anomalies = scan(made)
    assert anomalies == []
    assert packets.protocol.tolist() == [UDP]
    assert packets.destination_port.tolist() == [port]
    assert make.payloads(made, packets) == [payload]
    assert packets.tunnels == []


def test_gre_without_ip_is_counted(make):
    frames = [make.ip4(gre(0), 47), make.ip4(gre(0x0800, 0x4000) + inner(make), 47)]
    packets, anomalies = scan(make.capture([make.ether(frame) for frame in frames]))
    assert packets.protocol.tolist() == [47, 47]
    assert [(a.code, a.detail, a.count) for a in anomalies] == [
        ("protocol-not-decoded", "IP protocol 47 (GRE)", 2)
    ]


def test_tunnels_inside_of_tunnels(make):
    frame = MACS + b"\x08\x00" + make.ip4(gre(0x0800) + inner(make), 47, ends=(3, 4))
    once = make.ether(to_port(make, 4789, vxlan(7) + frame))
    plain = make.ether(inner(make))
    packets, anomalies = scan(make.capture([plain, once, once]))
    assert anomalies == []
    assert packets.tunnel_no.tolist() == [0, 2, 2]
    assert packets.addresses[:2] == ["10.0.0.5", "10.0.0.6"]
    assert len(packets.addresses) == 6
    rows = [
        (t.tunnel_no, t.kind, t.source_ip, t.outer_no, t.first_packet_no, t.packet_count)
        for t in packets.tunnels
    ]
    assert rows == [(1, "vxlan", "10.0.0.1", 0, 2, 0), (2, "gre", "10.0.0.3", 1, 2, 2)]
    assert set(packets.source.tolist()) == {0}


def test_depth_is_limited(make):
    packet = inner(make)
    for _ in range(6):
        packet = make.ip4(packet, 4)
    packets, anomalies = scan(make.capture([make.ether(packet)]))
    assert packets.protocol.tolist() == [4]
    assert make.reasons(anomalies) == [("protocol-not-decoded", 1, 1)]
    assert len(packets.tunnels) == 4


def test_either_direction_and_either_network_is_a_tunnel_of_its_own(make):
    def outer(network: int, ends: tuple) -> bytes:
        udp = struct.pack(">HHHH", 50_000, 4789, 0, 0) + vxlan(network) + frame4(make)
        return make.ether(make.ip4(udp, 17, ends=ends))

    frames = [outer(1, (1, 2)), outer(1, (2, 1)), outer(2, (1, 2)), outer(1, (1, 2))]
    packets, _ = scan(make.capture(frames))
    assert packets.tunnel_no.tolist() == [1, 2, 3, 1]
    assert [t.packet_count for t in packets.tunnels] == [2, 1, 1]


def test_a_broken_packet_inside_leaves_nothing_of_the_outer_one(make):
    broken = make.ip4(make.tcp()[:12] + b"\x10" + make.tcp()[13:], ends=(5, 6))
    frames = [make.ether(to_port(make, 8472, vxlan(1) + MACS + b"\x08\x00" + broken))]
    packets, anomalies = scan(make.capture(frames))
    assert make.reasons(anomalies) == [("tcp-malformed", 1, 1)]
    assert (packets.protocol[0], packets.destination_port[0]) == (0, 0)
    assert packets.payload_captured.tolist() == [0]


def test_cut_inside_of_a_tunnel(make):
    whole = make.ether(to_port(make, 4789, vxlan(1) + frame4(make)))
    for size, expected in ((14 + 28 + 20, UDP), (14 + 28 + 22 + 10, UDP), (14 + 28 + 22 + 30, 0)):
        made = make.capture([whole[:size]], originals=[len(whole)])
        packets, anomalies = scan(made)
        assert packets.protocol.tolist() == [expected], size
        assert make.reasons(anomalies) == [("truncated-header", 1, 1)], size


def test_fragments_of_outer_packets_and_of_packets_inside(make):
    udp = struct.pack(">HHHH", 50_000, 4789, 0, 0)
    whole = udp + vxlan(3) + MACS + b"\x08\x00" + inner(make, b"x" * 3000)
    outer = [
        make.ether(make.ip4(whole[:1600], 17, fragment=0x2000)),
        make.ether(make.ip4(whole[1600:], 17, fragment=200)),
    ]
    segment = make.tcp(b"y" * 3000)
    parts = [
        make.ip4(segment[:1600], fragment=0x2000, ends=(5, 6)),
        make.ip4(segment[1600:], fragment=200, ends=(5, 6)),
    ]
    inside = [make.ether(make.ip4(gre(0x0800) + part, 47)) for part in parts]
    made = make.capture([*outer, *inside])
    packets, anomalies = scan(made)
    assert anomalies == []
    assert packets.protocol.tolist() == [0, TCP, 0, TCP]
    assert packets.payload_bytes.tolist() == [0, 3000, 0, 3000]
    assert packets.tunnel_no.tolist() == [0, 1, 2, 2]
    for row, letter in ((1, b"x"), (3, b"y")):
        buffer, at = made.buffers[packets.buffer_no[row]], packets.payload_offset[row]
        assert bytes(buffer[at : at + 3000]) == letter * 3000


def test_authentication_headers_are_gone_over(make):
    header = struct.pack(">BBHII", 6, 4, 0, 1, 1) + bytes(12)
    four = make.ether(make.ip4(header + make.tcp(b"four"), 51))
    six = make.ether(make.ip6(header + make.tcp(b"six"), 51), 0x86DD)
    made = make.capture([four, six])
    packets, anomalies = scan(made)
    assert anomalies == []
    assert make.payloads(made, packets) == [b"four", b"six"]


def test_more_tunnels_than_are_told_apart(make, monkeypatch):
    monkeypatch.setattr(tunnels, "MAX_TUNNELS", 3)
    frames = [
        make.ether(make.ip4(gre(0x0800, 0x2000, bytes([0, 0, 0, n])) + inner(make), 47))
        for n in range(6)
    ]
    packets, _ = scan(make.capture(frames))
    assert packets.tunnel_no.tolist() == [1, 2, 3, 3, 3, 3]
    assert len(packets.tunnels) == 3
