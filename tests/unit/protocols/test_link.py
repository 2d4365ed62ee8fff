from __future__ import annotations

import numpy as np
import pytest

from capture_analyzer.protocols import link
from capture_analyzer.wire.windows import Windows

MACS = bytes(12)
IPV4, IPV6, ARP = b"\x08\x00", b"\x86\xdd", b"\x08\x06"
TAG_Q, TAG_AD, TAG_OLD = b"\x81\x00", b"\x88\xa8", b"\x91\x00"


def found(link_type: int, *frames: bytes, captured: int = -1) -> list[tuple[int, int, bool, bool]]:
    """(header bytes, EtherType, is IP, cut) of each frame."""
    buffer = b"##" + b"".join(frames)
    sizes = np.array([len(frame) for frame in frames])
    offsets = 2 + np.cumsum(sizes) - sizes
    lengths = np.array(sizes if captured < 0 else [captured] * len(frames), np.uint32)
    network = link.network_layer(Windows(buffer), offsets, lengths, link_type)
    count = len(frames)
    is_ip = np.ones(count, bool) if network.is_ip is None else network.is_ip
    cut = np.zeros(count, bool) if network.cut is None else network.cut
    return list(
        zip(
            network.header_bytes.tolist(),
            network.ethertype.tolist(),
            is_ip.tolist(),
            cut.tolist(),
            strict=True,
        )
    )


def test_ethernet():
    frames = [MACS + kind + bytes(30) for kind in (IPV4, IPV6, ARP, b"\x00\x26")]
    assert found(link.ETHERNET, *frames) == [
        (14, 0x0800, True, False),
        (14, 0x86DD, True, False),
        (14, 0x0806, False, False),
        (14, 0x0026, False, False),
    ]


def test_all_ip_needs_no_mask():
    network = link.network_layer(
        Windows(MACS + IPV4 + bytes(30)), np.array([0]), np.array([44], np.uint32), link.ETHERNET
    )
    assert network.is_ip is None
    assert network.cut is None


def test_stacks_of_vlan_tags():
    one = MACS + TAG_Q + b"\x00\x05" + IPV4 + bytes(20)
    two = MACS + TAG_AD + b"\x20\x05" + TAG_Q + b"\x00\x01" + IPV6 + bytes(20)
    arp = MACS + TAG_OLD + b"\x81\x00" + ARP + bytes(20)  # a tag whose VLAN looks like a tag
    plain = MACS + IPV4 + b"\x81\x00" + bytes(20)
    assert found(link.ETHERNET, one, plain, two, arp) == [
        (18, 0x0800, True, False),
        (14, 0x0800, True, False),
        (22, 0x86DD, True, False),
        (18, 0x0806, False, False),
    ]


def test_a_stack_of_tags_ends_somewhere():
    most = MACS + (TAG_Q + b"\x00\x01") * link.MAX_TAGS + IPV4 + bytes(20)
    more = MACS + (TAG_Q + b"\x00\x01") * (link.MAX_TAGS + 1) + IPV4 + bytes(20)
    assert found(link.ETHERNET, most, more) == [
        (14 + 4 * link.MAX_TAGS, 0x0800, True, False),
        (14 + 4 * link.MAX_TAGS, 0x8100, False, False),
    ]


@pytest.mark.parametrize(("captured", "cut"), [(13, True), (14, False)])
def test_cut_inside_ethernet(captured, cut):
    frame = MACS + IPV4 + bytes(30)
    assert found(link.ETHERNET, frame, captured=captured) == [(14, 0x0800, True, cut)]


def test_cut_inside_a_tag():
    frame = MACS + TAG_Q + b"\x00\x05" + IPV4 + bytes(20)
    assert found(link.ETHERNET, frame, captured=17)[0][3]
    assert not found(link.ETHERNET, frame, captured=18)[0][3]


def test_cooked_captures():
    sll = bytes(14) + IPV4 + bytes(20)
    tagged = bytes(14) + TAG_Q + b"\x00\x05" + IPV6 + bytes(40)
    assert found(link.LINUX_SLL, sll, tagged, bytes(14) + ARP) == [
        (16, 0x0800, True, False),
        (20, 0x86DD, True, False),
        (16, 0x0806, False, False),
    ]
    sll2 = IPV6 + bytes(18) + bytes(40)
    assert found(link.LINUX_SLL2, sll2, ARP + bytes(18)) == [
        (20, 0x86DD, True, False),
        (20, 0x0806, False, False),
    ]
    assert found(link.LINUX_SLL2, sll2, captured=19)[0][3]


@pytest.mark.parametrize("link_type", sorted(link.RAW_IP))
def test_raw_ip(link_type):
    assert found(link_type, b"\x45" + bytes(19)) == [(0, 0x0800, True, False)]


@pytest.mark.parametrize("link_type", [link.NULL, link.LOOP])
@pytest.mark.parametrize("order", ["little", "big"])
def test_loopback_families_in_either_byte_order(link_type, order):
    frames = [
        family.to_bytes(4, order) + bytes(20) for family in (2, 10, 24, 28, 30, 7, 0x02000002)
    ]
    assert [row[2] for row in found(link_type, *frames)] == [True] * 5 + [False] * 2
    assert {row[0] for row in found(link_type, *frames)} == {4}


def test_ppp_with_and_without_framing():
    assert found(link.PPP, b"\xff\x03\x00\x21\x45", b"\x00\x57\x60", b"\xc0\x21\x01") == [
        (4, 0x0800, True, False),
        (2, 0x86DD, True, False),
        (2, 0, False, False),
    ]


def test_descriptions():
    assert link.describe(239) == "link type 239 (NFLOG)"
    assert link.describe(9999) == "link type 9999"
    assert link.describe_ethertype(0x0806) == "EtherType 0x0806 (ARP)"
    assert link.describe_ethertype(0x1234) == "EtherType 0x1234"
    assert "without" in link.describe_ethertype(0x05FF)
