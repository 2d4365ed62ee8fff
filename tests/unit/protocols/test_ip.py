from __future__ import annotations

import ipaddress
import random
import struct

import numpy as np
import pytest

from capture_analyzer.protocols import ip
from capture_analyzer.wire.windows import Windows

SOURCE, DESTINATION = bytes([192, 0, 2, 1]), bytes([198, 51, 100, 255])
SOURCE6 = ipaddress.ip_address("2001:db8::1").packed
DESTINATION6 = ipaddress.ip_address("2001:db8:ffff:ffff::2").packed


def header4(
    total: int, *, first: int = 0x45, fragment: int = 0, protocol: int = 6, options: bytes = b""
) -> bytes:
    fixed = struct.pack(">BBHHHBBH", first, 0, total, 0xABCD, fragment, 61, protocol, 0)
    return fixed + SOURCE + DESTINATION + options


def header6(length: int, following: int, *extensions: bytes) -> bytes:
    head = struct.pack(">IHBB", 0x60000000, length, following, 64) + SOURCE6 + DESTINATION6
    return head + b"".join(extensions)


def decode4(packet: bytes, captured: int = -1, on_wire: int = -1) -> ip.Datagrams:
    captured = len(packet) if captured < 0 else captured
    on_wire = len(packet) if on_wire < 0 else on_wire
    headers = Windows(b"xyz" + packet).at(np.array([3]), 40)
    return ip.ipv4(headers, np.array([3]), np.array([captured]), np.array([on_wire]))


def decode6(packet: bytes, captured: int = -1, on_wire: int = -1) -> ip.Datagrams:
    captured = len(packet) if captured < 0 else captured
    on_wire = len(packet) if on_wire < 0 else on_wire
    windows = Windows(b"xyz" + packet)
    headers = windows.at(np.array([3]), 40)
    return ip.ipv6(windows, headers, np.array([3]), np.array([captured]), np.array([on_wire]))


def status(datagrams: ip.Datagrams) -> int:
    return ip.OK if datagrams.status is None else int(datagrams.status[0])


def test_a_plain_ipv4_header():
    got = decode4(header4(30) + bytes(10))
    assert got.status is None
    assert got.source[0].tolist() == [int.from_bytes(SOURCE, "big")]
    assert got.destination[0].tolist() == [int.from_bytes(DESTINATION, "big")]
    assert (got.protocol[0], got.hop_limit[0], got.identification[0]) == (6, 61, 0xABCD)
    assert (got.transport_offset[0], got.transport_bytes[0]) == (23, 10)


def test_padding_does_not_count():
    got = decode4(header4(25) + bytes(26))
    assert got.transport_bytes[0] == 5


@pytest.mark.parametrize("total", [0, 41, 65535])
def test_an_unusable_total_length_means_the_whole_packet(total):
    got = decode4(header4(total) + bytes(20), on_wire=40)
    assert (status(got), got.transport_bytes[0]) == (ip.OK, 20)


def test_the_wire_length_holds_where_the_capture_is_cut():
    got = decode4(header4(1500) + bytes(20), captured=40, on_wire=1500)
    assert got.transport_bytes[0] == 1480
    big = decode4(header4(0) + bytes(20), captured=40, on_wire=90_000)
    assert big.transport_bytes[0] == 89_980


def test_ipv4_options():
    got = decode4(header4(40, first=0x48, options=bytes(12)) + bytes(8))
    assert (status(got), got.transport_offset[0], got.transport_bytes[0]) == (ip.OK, 35, 8)


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        (header4(20, first=0x44), ip.MALFORMED),  # header of 16 bytes
        (header4(28, first=0x48) + bytes(12), ip.MALFORMED),  # header longer than the packet
        (header4(19), ip.MALFORMED),
        (header4(20), ip.OK),
        (header4(40, fragment=0x2000) + bytes(20), ip.A_FRAGMENT),
        (header4(40, fragment=0x0001) + bytes(20), ip.A_FRAGMENT),
        (header4(40, fragment=0x4000) + bytes(20), ip.OK),  # don't fragment
        (header4(40, fragment=0x8000) + bytes(20), ip.OK),  # the reserved bit
    ],
)
def test_ipv4_status(packet, expected):
    assert status(decode4(packet)) == expected


@pytest.mark.parametrize(("captured", "expected"), [(19, ip.CUT), (20, ip.OK)])
def test_ipv4_cut(captured, expected):
    assert status(decode4(header4(40) + bytes(20), captured=captured)) == expected


def test_ipv4_cut_inside_its_options():
    packet = header4(40, first=0x46, options=bytes(4)) + bytes(16)
    assert status(decode4(packet, captured=23, on_wire=40)) == ip.CUT
    assert status(decode4(packet, captured=24, on_wire=40)) == ip.OK


def test_a_plain_ipv6_header():
    got = decode6(header6(10, 17) + bytes(16))
    assert got.status is None
    assert got.source[0].tolist() == [int.from_bytes(SOURCE6[:8], "big")]
    assert got.source[1].tolist() == [1]
    assert got.destination[1].tolist() == [2]
    assert (got.protocol[0], got.hop_limit[0]) == (17, 64)
    assert (got.transport_offset[0], got.transport_bytes[0]) == (43, 10)


@pytest.mark.parametrize("length", [0, 61, 65535])
def test_an_unusable_payload_length_means_the_whole_packet(length):
    got = decode6(header6(length, 6) + bytes(60))
    assert got.transport_bytes[0] == 60


def extension(following: int, units: int = 0) -> bytes:
    return bytes([following, units]) + bytes(6 + 8 * units)


def fragment(following: int, offset: int, more: int) -> bytes:
    return struct.pack(">BBHI", following, 0, offset << 3 | more, 7)


def test_extension_headers_are_passed_over():
    chain = (extension(60, 1), extension(43), extension(44), fragment(6, 0, 0))
    got = decode6(header6(40 + 20, 0, *chain) + bytes(20))
    assert (status(got), got.protocol[0]) == (ip.OK, 6)
    assert (got.transport_offset[0], got.transport_bytes[0]) == (3 + 40 + 40, 20)


@pytest.mark.parametrize(
    ("offset", "more", "expected"),
    [(0, 0, ip.OK), (0, 1, ip.A_FRAGMENT), (5, 0, ip.A_FRAGMENT), (5, 1, ip.A_FRAGMENT)],
)
def test_only_atomic_fragments_are_whole(offset, more, expected):
    got = decode6(header6(28, 44, fragment(6, offset, more)) + bytes(20))
    assert status(got) == expected


def test_an_endless_chain_ends():
    most = [extension(0)] * (ip.MAX_EXTENSION_HEADERS - 1) + [extension(6)]
    got = decode6(header6(8 * len(most) + 20, 0, *most) + bytes(20))
    assert (status(got), got.protocol[0]) == (ip.OK, 6)
    more = [extension(0)] * ip.MAX_EXTENSION_HEADERS + [extension(6)]
    assert status(decode6(header6(8 * len(more) + 20, 0, *more) + bytes(20))) == ip.MALFORMED


def test_an_extension_header_beyond_the_packet():
    assert status(decode6(header6(8, 0, extension(6, 1)))) == ip.MALFORMED


@pytest.mark.parametrize(("captured", "expected"), [(39, ip.CUT), (47, ip.CUT), (48, ip.OK)])
def test_ipv6_cut(captured, expected):
    got = decode6(header6(28, 0, extension(6)) + bytes(20), captured=captured)
    assert status(got) == expected


def test_other_protocols_end_the_chain():
    got = decode6(header6(28, 0, extension(59)) + bytes(20))
    assert (status(got), got.protocol[0]) == (ip.OK, 59)


def test_ipv4_text():
    assert ip.ipv4_text(0) == "0.0.0.0"
    assert ip.ipv4_text(0xC0000201) == "192.0.2.1"


@pytest.mark.parametrize(
    "text",
    [
        "::",
        "::1",
        "1::",
        "2001:db8::1",
        "2001:0:0:1::1",
        "2001:db8:0:1:1:1:1:1",  # one zero group is not shortened
        "1::2:3:0:0:4",  # the first of two equal runs
        "ff02::1:ff00:1",
        "fe80::abcd:0:0:1",
        "::ffff:192.0.2.1",
        "::fffe:c000:201",
        "::c000:201",
    ],
)
def test_ipv6_text(text):
    packed = ipaddress.ip_address(text).packed
    high, low = struct.unpack(">QQ", packed)
    assert ip.ipv6_text(high, low) == text


def test_ipv6_text_against_the_standard_library():
    rng = random.Random(2)
    for _ in range(2000):
        groups = [rng.choice((0, 0, 1, rng.randrange(65536))) for _ in range(8)]
        packed = struct.pack(">8H", *groups)
        if packed.startswith(bytes(10) + b"\xff\xff"):
            continue  # mixed form, which older versions of the library don't write
        high, low = struct.unpack(">QQ", packed)
        assert ip.ipv6_text(high, low) == str(ipaddress.IPv6Address(packed))
