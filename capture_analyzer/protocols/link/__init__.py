"""From a captured frame to its IP header, for the link types that carry IP.

=========  =======================================================================
types      link types and their names
layers     what may lie between a link header and IP: VLAN tags, MPLS, PPPoE, LLC
wireless   IEEE 802.11
wrappers   headers made by the capturing system: NFLOG, PKTAP, BSD loopback
=========  =======================================================================

What is not IP is told apart by its EtherType, so that it can be counted.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.protocols.link import wireless, wrappers
from capture_analyzer.protocols.link.layers import (
    FIRST_ETHERTYPE,
    IPV4,
    LLC,
    MAX_STEPS,
    UNKNOWN,
    Layers,
    Network,
    describe_ethertype,
    is_ip,
)
from capture_analyzer.protocols.link.types import (
    CISCO_HDLC,
    ETHERNET,
    IEEE802_11,
    IEEE802_11_RADIOTAP,
    LINUX_SLL,
    LINUX_SLL2,
    LOOP,
    NFLOG,
    NULL,
    PKTAP,
    PPP,
    PPP_ETHER,
    PPP_HDLC,
    PPP_PPPD,
    RAW_IP,
    describe,
)
from capture_analyzer.wire.windows import Bytes, Offsets, Windows, column

__all__ = [
    "CISCO_HDLC",
    "ETHERNET",
    "IEEE802_11",
    "IEEE802_11_RADIOTAP",
    "LINUX_SLL",
    "LINUX_SLL2",
    "LOOP",
    "MAX_STEPS",
    "NFLOG",
    "NULL",
    "PKTAP",
    "PPP",
    "PPP_ETHER",
    "PPP_HDLC",
    "PPP_PPPD",
    "RAW_IP",
    "SUPPORTED",
    "Layers",
    "Network",
    "describe",
    "describe_ethertype",
    "network_layer",
]

SUPPORTED: Final = (
    ETHERNET,
    LINUX_SLL,
    LINUX_SLL2,
    *sorted(RAW_IP),
    NULL,
    LOOP,
    PPP,
    PPP_HDLC,
    PPP_ETHER,
    PPP_PPPD,
    CISCO_HDLC,
    NFLOG,
    IEEE802_11,
    IEEE802_11_RADIOTAP,
    PKTAP,
)
"""Link types that can be decoded, the usual ones first."""

_ETHERTYPE_AT: Final = {ETHERNET: 12, LINUX_SLL: 14, LINUX_SLL2: 0, CISCO_HDLC: 2}
_COOKED_LLC: Final = 4  # what Linux has for an EtherType where LLC follows
_CISCO_ADDRESSES: Final = (0x0F, 0x8F)  # unicast, broadcast: Cisco's HDLC among PPP
_HEADER_BYTES: Final = {ETHERNET: 14, LINUX_SLL: 16, LINUX_SLL2: 20, CISCO_HDLC: 4}


def network_layer(
    windows: Windows,
    offsets: Offsets,
    captured: NDArray[np.uint32],
    link_type: int,
    heads: Bytes | None = None,
) -> Network:
    """Find the network layer of packets of one link type.

    Args:
        windows: of the buffer that holds the packets.
        offsets: where each packet begins in it.
        captured: how many bytes of it there are.
        link_type: a supported one.
        heads: the first bytes of each packet, at least 16, if they were gathered already.
    """
    count = len(offsets)
    if link_type in _ETHERTYPE_AT:
        return _by_ethertype(windows, offsets, captured, link_type, heads)
    if link_type in RAW_IP:
        return Network(np.zeros(count, np.int64), np.full(count, IPV4, np.uint16))
    if link_type in (NULL, LOOP):
        layers = wrappers.loopback(windows, offsets)
    elif link_type == NFLOG:
        layers = wrappers.nflog(windows, offsets, captured)
    elif link_type in (IEEE802_11, IEEE802_11_RADIOTAP):
        layers = wireless.frames(windows, offsets, radiotap=link_type == IEEE802_11_RADIOTAP)
    elif link_type == PKTAP:
        return _pktap(windows, offsets, captured)
    else:
        layers = _point_to_point(windows, offsets, link_type)
    return layers.network(captured)


def _by_ethertype(
    windows: Windows,
    offsets: Offsets,
    captured: NDArray[np.uint32],
    link_type: int,
    heads: Bytes | None,
) -> Network:
    """Ethernet, the two Linux cooked headers and Cisco's HDLC: nearly always IP at once."""
    first = _HEADER_BYTES[link_type]
    at = _ETHERTYPE_AT[link_type]
    raw = windows.at(offsets + at, 2) if heads is None else heads[:, at : at + 2]
    ethertype = column(raw, 0, ">u2").astype(np.uint16)
    layers = Layers(windows, offsets, np.full(len(offsets), first, np.int64), ethertype)
    if not is_ip(ethertype).all():
        without = ethertype < FIRST_ETHERTYPE
        with_llc = without if link_type == ETHERNET else ethertype == _COOKED_LLC
        ethertype[without] = UNKNOWN
        ethertype[with_llc] = LLC
        layers.follow()
    return layers.network(captured)


def _point_to_point(windows: Windows, offsets: Offsets, link_type: int) -> Layers:
    """PPP in its framings."""
    count = len(offsets)
    layers = Layers(windows, offsets, np.zeros(count, np.int64), np.zeros(count, np.uint16))
    rows = np.arange(count)
    if link_type == PPP_PPPD:  # a byte for the direction in place of the address
        layers.header_bytes += 2
    if link_type == PPP_ETHER:
        layers.pppoe(rows)
    if link_type == PPP_HDLC:
        cisco = np.isin(layers.number(rows, 0, 1), _CISCO_ADDRESSES)
        of_cisco, rows = rows[cisco], rows[~cisco]
        layers.ethertype[of_cisco] = layers.number(of_cisco, 2, 2)
        layers.header_bytes[of_cisco] += 4
    layers.ppp(rows)
    layers.follow()
    return layers


def _pktap(windows: Windows, offsets: Offsets, captured: NDArray[np.uint32]) -> Network:
    """Apple's PKTAP: each packet with a link type of its own."""
    length, types = wrappers.pktap(windows, offsets)
    result = Network(length, np.zeros(len(offsets), np.uint16), np.zeros(len(offsets), np.bool_))
    assert result.is_ip is not None
    cut = captured < np.maximum(length, 1)
    for link_type in SUPPORTED:
        rows = np.flatnonzero(types == link_type)
        if not len(rows) or link_type == PKTAP:
            continue
        left = np.maximum(captured[rows].astype(np.int64) - length[rows], 0).astype(np.uint32)
        inner = network_layer(windows, offsets[rows] + length[rows], left, link_type)
        result.header_bytes[rows] += inner.header_bytes
        result.ethertype[rows] = inner.ethertype
        result.is_ip[rows] = True if inner.is_ip is None else inner.is_ip
        if inner.cut is not None:
            cut[rows] |= inner.cut
    result.cut = cut if cut.any() else None
    return result
