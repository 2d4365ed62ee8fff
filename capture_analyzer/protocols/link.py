"""From a captured frame to its IP header, for the link types that carry IP.

Link types are those of www.tcpdump.org/linktypes.html. What is not IP is told apart by its
EtherType, so that it can be counted.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.wire.windows import Offsets, Windows, column

NULL: Final = 0
ETHERNET: Final = 1
PPP: Final = 9
LOOP: Final = 108
LINUX_SLL: Final = 113
LINUX_SLL2: Final = 276
RAW_IP: Final = frozenset({12, 14, 101, 228, 229})
"""DLT_RAW as different systems number it, LINKTYPE_RAW, LINKTYPE_IPV4, LINKTYPE_IPV6."""

NAMES: Final = {
    NULL: "BSD loopback",
    ETHERNET: "Ethernet",
    PPP: "PPP",
    LOOP: "OpenBSD loopback",
    105: "IEEE 802.11",
    LINUX_SLL: "Linux cooked capture",
    127: "802.11 with radiotap",
    189: "USB",
    220: "USB",
    239: "NFLOG",
    LINUX_SLL2: "Linux cooked capture v2",
}
"""Names for people; not complete."""

IPV4: Final = 0x0800
IPV6: Final = 0x86DD
VLAN_TAGS: Final = (0x8100, 0x88A8, 0x9100)
"""EtherTypes of a VLAN tag: IEEE 802.1Q, 802.1ad, and the one used before 802.1ad."""

ETHERTYPE_NAMES: Final = {
    0x0806: "ARP",
    0x8035: "RARP",
    0x8847: "MPLS",
    0x8848: "MPLS",
    0x8863: "PPPoE discovery",
    0x8864: "PPPoE session",
    0x888E: "IEEE 802.1X",
    0x88CC: "LLDP",
    0x88E5: "MACsec",
    0x9000: "Ethernet loopback test",
}
"""Names for people; not complete."""

FIRST_ETHERTYPE: Final = 0x0600
"""Below this the field is an IEEE 802.3 length."""

MAX_TAGS: Final = 8
"""VLAN tags followed on one frame; networks use two, more is a loop or an attack."""

_ETHERTYPE_AT: Final = {ETHERNET: 12, LINUX_SLL: 14, LINUX_SLL2: 0}
_HEADER_BYTES: Final = {ETHERNET: 14, LINUX_SLL: 16, LINUX_SLL2: 20}
_LOOPBACK_FAMILIES: Final = (2, 10, 24, 28, 30)
"""AF_INET; AF_INET6 of Linux, NetBSD and OpenBSD, FreeBSD, macOS."""
_PPP_PROTOCOLS: Final = {0x0021: IPV4, 0x0057: IPV6}


SUPPORTED: Final = (ETHERNET, LINUX_SLL, LINUX_SLL2, *sorted(RAW_IP), NULL, LOOP, PPP)
"""Link types that can be decoded, the usual ones first."""


@dataclasses.dataclass(slots=True)
class Network:
    """Where the network layer of each packet lies.

    Attributes:
        header_bytes: bytes of link layer before it.
        ethertype: what it is; IPV4 or IPV6 for every IP packet (which of the two, its own
            version field says).
        is_ip: whether it is IP; None if all are.
        cut: whether the capture ends inside the link layer; None if nowhere.
    """

    header_bytes: NDArray[np.int64]
    ethertype: NDArray[np.uint16]
    is_ip: NDArray[np.bool_] | None = None
    cut: NDArray[np.bool_] | None = None


def describe(link_type: int) -> str:
    """A link type for people: "link type 239 (NFLOG)"."""
    name = NAMES.get(link_type)
    return f"link type {link_type}" + (f" ({name})" if name else "")


def describe_ethertype(number: int) -> str:
    """What is not IP, for people: "EtherType 0x0806 (ARP)"."""
    if number < FIRST_ETHERTYPE:
        return "a protocol without an EtherType"
    name = ETHERTYPE_NAMES.get(number)
    return f"EtherType 0x{number:04x}" + (f" ({name})" if name else "")


def network_layer(
    windows: Windows, offsets: Offsets, captured: NDArray[np.uint32], link_type: int
) -> Network:
    """Find the network layer of packets of one link type.

    Args:
        windows: of the buffer that holds the packets.
        offsets: where each packet begins in it.
        captured: how many bytes of it there are.
        link_type: a supported one.
    """
    if link_type in _ETHERTYPE_AT:
        return _by_ethertype(windows, offsets, captured, link_type)
    if link_type == PPP:
        return _ppp(windows, offsets, captured)
    if link_type in RAW_IP:
        return _fixed(captured, 0, None)
    family = column(windows.at(offsets, 4), 0, "<u4")  # either byte order: the capturing host's
    known = np.isin(family, _LOOPBACK_FAMILIES) | np.isin(family.byteswap(), _LOOPBACK_FAMILIES)
    return _fixed(captured, 4, known)


def _fixed(
    captured: NDArray[np.uint32], header_bytes: int, is_ip: NDArray[np.bool_] | None
) -> Network:
    count = len(captured)
    cut = captured < header_bytes
    ethertype = np.full(count, IPV4, np.uint16)
    if is_ip is not None:
        ethertype[~is_ip] = 0
    return Network(
        np.full(count, header_bytes, np.int64),
        ethertype,
        None if is_ip is None or is_ip.all() else is_ip,
        cut if cut.any() else None,
    )


def _by_ethertype(
    windows: Windows, offsets: Offsets, captured: NDArray[np.uint32], link_type: int
) -> Network:
    """Ethernet II and the two Linux cooked headers, with any stack of VLAN tags."""
    first = _HEADER_BYTES[link_type]
    at = _ETHERTYPE_AT[link_type]
    ethertype = column(windows.at(offsets + at, 2), 0, ">u2").astype(np.uint16)
    header_bytes = np.full(len(offsets), first, np.int64)
    is_ip = (ethertype == IPV4) | (ethertype == IPV6)
    if not is_ip.all():
        tagged = np.flatnonzero(_is_tag(ethertype))
        for _ in range(MAX_TAGS):
            if not len(tagged):
                break
            # A tag is two bytes of control information and the EtherType that follows.
            inner = column(windows.at(offsets[tagged] + header_bytes[tagged] + 2, 2), 0, ">u2")
            header_bytes[tagged] += 4
            ethertype[tagged] = inner
            tagged = tagged[_is_tag(inner)]
        is_ip = (ethertype == IPV4) | (ethertype == IPV6)
    cut = captured < header_bytes
    return Network(
        header_bytes,
        ethertype,
        None if is_ip.all() else is_ip,
        cut if cut.any() else None,
    )


def _is_tag(ethertype: NDArray[np.uint16]) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = ethertype == VLAN_TAGS[0]
    for tag in VLAN_TAGS[1:]:
        result |= ethertype == tag
    return result


def _ppp(windows: Windows, offsets: Offsets, captured: NDArray[np.uint32]) -> Network:
    """PPP (RFC 1661), with or without the address and control bytes of RFC 1662."""
    framed = column(windows.at(offsets, 2), 0, ">u2") == 0xFF03
    header_bytes = np.where(framed, 4, 2).astype(np.int64)
    protocol = column(windows.at(offsets + header_bytes - 2, 2), 0, ">u2")
    ethertype = np.zeros(len(offsets), np.uint16)
    for ppp_protocol, equivalent in _PPP_PROTOCOLS.items():
        ethertype[protocol == ppp_protocol] = equivalent
    is_ip = ethertype != 0
    cut = captured < header_bytes
    return Network(
        header_bytes,
        ethertype,
        None if is_ip.all() else is_ip,
        cut if cut.any() else None,
    )
