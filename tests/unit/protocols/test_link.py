from __future__ import annotations

import numpy as np
import pytest

from capture_analyzer.protocols import link
from capture_analyzer.protocols.link.layers import (
    AGGREGATED,
    ENCRYPTED,
    LLC,
    MANAGEMENT,
    PART,
    UNKNOWN,
)
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
        (14, LLC, False, False),
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
    most = MACS + (TAG_Q + b"\x00\x01") * link.MAX_STEPS + IPV4 + bytes(20)
    more = MACS + (TAG_Q + b"\x00\x01") * (link.MAX_STEPS + 1) + IPV4 + bytes(20)
    assert found(link.ETHERNET, most, more) == [
        (14 + 4 * link.MAX_STEPS, 0x0800, True, False),
        (14 + 4 * link.MAX_STEPS, 0x8100, False, False),
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


LABEL, LAST = b"\x00\x01\x00\x40", b"\x00\x02\x01\x40"
V4, V6 = b"\x45" + bytes(19), b"\x60" + bytes(39)


def test_mpls_labels_lead_to_ip_or_to_a_pseudowire():
    mpls = MACS + b"\x88\x47"
    control_word = bytes(4)
    frames = [
        mpls + LAST + V4,
        mpls + LABEL + LABEL + LAST + V6,
        mpls + LAST + control_word + MACS + IPV4 + V4,
        mpls + LAST + control_word + MACS + TAG_Q + b"\x00\x05" + IPV6 + V6,
        mpls + LAST + control_word + MACS + b"\x12\x34" + bytes(20),
        mpls + LAST + b"\x70" + bytes(20),
    ]
    assert found(link.ETHERNET, *frames) == [
        (18, 0x0800, True, False),
        (26, 0x0800, True, False),
        (36, 0x0800, True, False),
        (40, 0x86DD, True, False),
        (18, 0x8847, False, False),
        (18, 0x8847, False, False),
    ]


def test_pppoe_inside_two_tags():
    pppoe = b"\x88\x64\x11\x00\x00\x07\x00\x16"
    tags = TAG_AD + b"\x00\x05" + TAG_Q + b"\x00\x06"
    frames = [
        MACS + tags + pppoe + b"\x00\x21" + V4,
        MACS + pppoe + b"\x00\x57" + V6,
        MACS + pppoe + b"\xc0\x21" + bytes(20),
        MACS + b"\x88\x64\x11\x09" + bytes(20),  # not session data
    ]
    assert found(link.ETHERNET, *frames) == [
        (30, 0x0800, True, False),
        (22, 0x86DD, True, False),
        (22, 0x8864, False, False),
        (14, 0x8864, False, False),
    ]


def test_pppoe_says_how_much_follows():
    frames = [
        MACS + b"\x88\x64\x11\x00\x00\x07\x00\x16\x00\x21" + V4 + bytes(40),
        MACS + b"\x88\x64\x11\x00\x00\x07\x00\x00\x00\x21" + V4,  # nonsense
        MACS + IPV4 + V4 + bytes(40),
    ]
    buffer = b"".join(frames)
    sizes = np.array([len(frame) for frame in frames])
    network = link.network_layer(
        Windows(buffer), np.cumsum(sizes) - sizes, sizes.astype(np.uint32), link.ETHERNET
    )
    assert network.most is not None
    assert network.most[:2].tolist() == [20, 0]
    assert network.most[2] > 2**32
    without = link.network_layer(
        Windows(frames[2]), np.array([0]), sizes[2:].astype(np.uint32), link.ETHERNET
    )
    assert without.most is None


def test_snap_has_an_ethertype_and_llc_has_none():
    snap = MACS + b"\x00\x26\xaa\xaa\x03\x00\x00\x00" + IPV4 + V4
    other = MACS + b"\x00\x26\xaa\xaa\x03\x00\x00\x0c" + IPV4 + V4
    spanning_tree = MACS + b"\x00\x26\x42\x42\x03" + bytes(30)
    tagged = MACS + TAG_Q + b"\x00\x05\x00\x26\xaa\xaa\x03\x00\x00\x00" + IPV6 + V6
    assert found(link.ETHERNET, snap, other, spanning_tree, tagged) == [
        (22, 0x0800, True, False),
        (14, LLC, False, False),
        (14, LLC, False, False),
        (26, 0x86DD, True, False),
    ]


def test_point_to_point_framings():
    assert found(link.PPP, b"\x21" + V4, b"\xff\x03\x57" + V6) == [
        (1, 0x0800, True, False),
        (3, 0x86DD, True, False),
    ]
    assert found(link.PPP, b"\x02\x81" + LAST + V4) == [(6, 0x0800, True, False)]
    assert found(link.PPP_ETHER, b"\x11\x00\x00\x07\x00\x16\x00\x21" + V4) == [
        (8, 0x0800, True, False)
    ]
    assert found(link.PPP_PPPD, b"\x01\x03\x00\x21" + V4) == [(4, 0x0800, True, False)]
    hdlc = [b"\xff\x03\x00\x21" + V4, b"\x0f\x00\x08\x00" + V4]
    assert found(link.PPP_HDLC, *hdlc) == [(4, 0x0800, True, False)] * 2
    assert found(link.CISCO_HDLC, b"\x0f\x00\x86\xdd" + V6) == [(4, 0x86DD, True, False)]


def nflog(order: str, family: int, *parts: tuple[int, bytes]) -> bytes:
    made = bytes([family, 0, 0, 7])
    for kind, value in parts:
        size = 4 + len(value)
        made += size.to_bytes(2, order) + kind.to_bytes(2, order) + value
        made += bytes(-size % 4)
    return made


@pytest.mark.parametrize("order", ["little", "big"])
def test_nflog(order):
    head = (1, bytes(4)), (10, b"prefix\0")
    at = 4 + 8 + 12
    frames = [nflog(order, 2, *head, (9, V4)), nflog(order, 10, *head, (9, V6))]
    frames += [nflog(order, 7, *head, (9, V4)), nflog(order, 2, *head)]
    assert found(link.NFLOG, *frames) == [
        (at + 4, 0x0800, True, False),
        (at + 4, 0x86DD, True, False),
        (at + 4, 0, False, False),
        (at, 0, False, False),
    ]
    assert [row[2] for row in found(link.NFLOG, *frames[:1], captured=at + 3)] == [False]


def test_nflog_parts_that_lead_nowhere_end():
    stuck = bytes([2, 0, 0, 7]) + (b"\x04\x00\x05\x00" * 500)
    short = bytes([2, 0, 0, 7]) + b"\x03\x00\x09\x00" + bytes(40)
    assert [row[2] for row in found(link.NFLOG, stuck, short)] == [False, False]


WIFI = bytes(22)
SNAP = b"\xaa\xaa\x03\x00\x00\x00" + IPV4


def wifi(control: int, flags: int, rest: bytes = b"", body: bytes = SNAP + V4) -> bytes:
    return bytes([control, flags]) + WIFI + rest + body


def test_wireless_data_frames():
    frames = [
        wifi(0x08, 1),
        wifi(0x88, 2, b"\x05\x00"),
        wifi(0x88, 3, bytes(6) + b"\x05\x00"),
        wifi(0x88, 0x82, b"\x05\x00" + bytes(4)),
        wifi(0x88, 2, b"\x85\x00"),
        wifi(0x08, 0x41),
        wifi(0x48, 1),
        wifi(0x80, 0),
        wifi(0x08, 5),
    ]
    assert found(link.IEEE802_11, *frames) == [
        (32, 0x0800, True, False),
        (34, 0x0800, True, False),
        (40, 0x0800, True, False),
        (38, 0x0800, True, False),
        (26, AGGREGATED, False, False),
        (24, ENCRYPTED, False, False),
        (2, MANAGEMENT, False, False),
        (2, MANAGEMENT, False, False),
        (24, PART, False, False),
    ]


def radiotap(*words: int, rest: bytes = b"") -> bytes:
    fields = b"".join(word.to_bytes(4, "little") for word in words) + rest
    return b"\0\0" + (4 + len(fields)).to_bytes(2, "little") + fields


def test_radiotap_headers_of_any_length_and_their_padding():
    padded = b"\x05\x00" + bytes(2)  # 26 bytes of MAC header become 28
    frames = [
        radiotap(0) + wifi(0x08, 1),
        radiotap(2, rest=b"\x10") + wifi(0x08, 1),  # a frame check sequence at the end
        radiotap(2, rest=b"\x20") + wifi(0x88, 2, padded),
        radiotap(3, rest=bytes(8) + b"\x20") + wifi(0x88, 2, padded),
        radiotap(0x80000003, 0, rest=bytes(4) + bytes(8) + b"\x20") + wifi(0x88, 2, padded),
        radiotap(0x80000003, 0x80000000, 0, rest=bytes(8) + b"\x20") + wifi(0x88, 2, padded),
    ]
    assert found(link.IEEE802_11_RADIOTAP, *frames) == [
        (8 + 32, 0x0800, True, False),
        (9 + 32, 0x0800, True, False),
        (9 + 36, 0x0800, True, False),
        (17 + 36, 0x0800, True, False),
        (25 + 36, 0x0800, True, False),
        (25 + 36, 0x0800, True, False),
    ]


def pktap(link_type: int, *, record: int = 1) -> bytes:
    head = b"".join(number.to_bytes(4, "little") for number in (108, record, link_type))
    return head + bytes(96)


def test_pktap_packets_have_link_types_of_their_own():
    frames = [
        pktap(1) + MACS + IPV4 + V4,
        pktap(12) + V6,
        pktap(0) + b"\x1e\x00\x00\x00" + V6,
        pktap(1) + MACS + ARP + bytes(30),
        pktap(258) + pktap(1) + MACS + IPV4 + V4,
        pktap(1, record=0) + MACS + IPV4 + V4,
        bytes(60),
    ]
    assert found(link.PKTAP, *frames) == [
        (122, 0x0800, True, False),
        (108, 0x0800, True, False),
        (112, 0x0800, True, False),
        (122, 0x0806, False, False),
        (108, 0, False, False),
        (0, 0, False, False),
        (0, 0, False, False),
    ]
    assert found(link.PKTAP, frames[0], captured=121) == [(122, 0x0800, True, True)]


def test_cooked_llc():
    snap = bytes(14) + b"\x00\x04" + SNAP + V4
    assert found(link.LINUX_SLL, snap, bytes(14) + b"\x00\x01" + bytes(20)) == [
        (24, 0x0800, True, False),
        (16, UNKNOWN, False, False),
    ]


def test_what_has_no_ethertype_has_words():
    texts = [link.describe_ethertype(n) for n in (ENCRYPTED, MANAGEMENT, AGGREGATED, PART)]
    assert all("802.11" in text for text in texts)
    assert len(set(texts)) == 4
