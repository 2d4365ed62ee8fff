"""Packets inside packets: IP, GRE and Ethernet inside IP; VXLAN, GENEVE and GTP inside UDP."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.link.layers import (
    ETHERNET,
    IPV4,
    IPV6,
    MPLS,
    UNKNOWN,
    Layers,
    Network,
)
from capture_analyzer.wire.windows import Bytes, Offsets, Windows, column

KINDS: Final = ("ipip", "gre", "erspan", "etherip", "mpls", "vxlan", "geneve", "gtp")
IPIP, GRE, ERSPAN, ETHERIP, MPLS_IN_IP, VXLAN, GENEVE, GTP = range(len(KINDS))

NO_IDENTIFIER: Final = -1

PROTOCOLS: Final = (4, 41, 47, 97, 137)
"""IP protocols that are tunnels: IPv4 (RFC 2003), IPv6 (RFC 4213), GRE (RFC 2784), EtherIP
(RFC 3378), MPLS (RFC 4023)."""

PORTS: Final = (4789, 8472, 4790, 6081, 2152)
"""UDP destination ports of tunnels: VXLAN (RFC 7348), the one Linux took for it before, VXLAN-GPE
(draft-ietf-nvo3-vxlan-gpe), GENEVE (RFC 8926), GTP-U (3GPP TS 29.281)."""
_VXLAN_GPE_PORT: Final = 4790
_GENEVE_PORT: Final = 6081
_GTP_PORT: Final = 2152

_ERSPAN_2: Final = 0x88BE  # also type I, told by the missing sequence number
_ERSPAN_3: Final = 0x22EB
_GPE_PROTOCOLS: Final = {1: IPV4, 2: IPV6, 3: ETHERNET, 5: MPLS[0]}
_MOST_GTP_EXTENSIONS: Final = 8


@quick_dataclass
class Inside:
    """What some packets carry.

    Attributes:
        kind: index into KINDS.
        identifier: of the tunnel; NO_IDENTIFIER without.
        network: where the inner network layer lies, from the place asked about.
    """

    kind: NDArray[np.uint8]
    identifier: NDArray[np.int64]
    network: Network

    def take(self, kept: NDArray[np.bool_]) -> Inside:
        """Of some packets only, all of which carry IP that was captured."""
        network = Network(self.network.header_bytes[kept], self.network.ethertype[kept])
        return Inside(self.kind[kept], self.identifier[kept], network)


def in_ip(windows: Windows, offsets: Offsets, captured: NDArray[np.int64], protocol: int) -> Inside:
    """Look into what IP packets carry, of one protocol of PROTOCOLS.

    Args:
        windows: of the buffer that holds the packets.
        offsets: where the IP packet's payload begins.
        captured: how many bytes of it there are.
        protocol: the IP protocol.
    """
    count = len(offsets)
    header_bytes = np.zeros(count, np.int64)
    identifier = np.full(count, NO_IDENTIFIER, np.int64)
    if protocol == 47:
        return _gre(windows, offsets, captured)
    kind, ethertype = IPIP, IPV4
    if protocol == 97:
        kind, ethertype = ETHERIP, ETHERNET
        header_bytes += 2
    elif protocol == 137:
        kind, ethertype = MPLS_IN_IP, MPLS[0]
    layers = Layers(windows, offsets, header_bytes, np.full(count, ethertype, np.uint16))
    return _inside(np.full(count, kind, np.uint8), identifier, layers, captured)


def in_udp(
    windows: Windows,
    offsets: Offsets,
    captured: NDArray[np.int64],
    ports: NDArray[np.uint16],
) -> Inside:
    """Look into UDP payloads sent to PORTS; what is no tunnel is not IP in the result.

    Args:
        windows: of the buffer that holds the packets.
        offsets: where each UDP payload begins.
        captured: how many bytes of it there are.
        ports: the destination ports.
    """
    count = len(offsets)
    heads = windows.at(offsets, 16)
    header_bytes = np.full(count, 8, np.int64)
    ethertype = np.full(count, UNKNOWN, np.uint16)
    kind = np.full(count, VXLAN, np.uint8)
    number = column(heads, 4, ">u4").astype(np.int64)
    identifier = number >> 8

    # VXLAN: a flag says that the network number is there; the last byte is reserved.
    ours = ((heads[:, 0] & 0x08) != 0) & (heads[:, 7] == 0)
    generic = ports == _VXLAN_GPE_PORT
    ethertype[ours & ~generic] = ETHERNET
    for protocol, equivalent in _GPE_PROTOCOLS.items():
        named = generic & ours & ((heads[:, 0] & 0x04) != 0) & (heads[:, 3] == protocol)
        ethertype[named] = equivalent

    geneve = ports == _GENEVE_PORT
    kind[geneve] = GENEVE
    header_bytes[geneve] += (heads[geneve, 0] & 0x3F).astype(np.int64) * 4
    protocol_type = column(heads, 2, ">u2")
    data = (heads[:, 0] >> 6 == 0) & ((heads[:, 1] & 0x80) == 0)  # version 0, no control packet
    ethertype[geneve] = np.where(data, protocol_type, UNKNOWN)[geneve]

    gtp = np.flatnonzero(ports == _GTP_PORT)
    if len(gtp):
        kind[gtp] = GTP
        identifier[gtp] = number[gtp]
        good, header_bytes[gtp] = _gtp(windows, offsets[gtp], heads[gtp])
        ethertype[gtp] = np.where(good, IPV4, UNKNOWN)
    layers = Layers(windows, offsets, header_bytes, ethertype)
    return _inside(kind, identifier, layers, captured)


def _inside(
    kind: NDArray[np.uint8],
    identifier: NDArray[np.int64],
    layers: Layers,
    captured: NDArray[np.int64],
) -> Inside:
    layers.follow()
    return Inside(kind, identifier, layers.network(captured))


def _gre(windows: Windows, offsets: Offsets, captured: NDArray[np.int64]) -> Inside:
    """GRE (RFC 2784, RFC 2890; RFC 2637 for PPTP) and ERSPAN inside it."""
    count = len(offsets)
    heads = windows.at(offsets, 16)
    flags = column(heads, 0, ">u2").astype(np.int64)
    protocol = column(heads, 2, ">u2").astype(np.uint16)
    version = flags & 7
    checksum, routing = (flags & 0x8000) != 0, (flags & 0x4000) != 0
    key, sequence = (flags & 0x2000) != 0, (flags & 0x1000) != 0
    acknowledged = (version == 1) & ((flags & 0x80) != 0)
    key_at = np.where(checksum, 8, 4)
    header_bytes = key_at + 4 * (key.astype(np.int64) + sequence + acknowledged)
    # Source routes were never used (RFC 2784 drops them); there are two versions.
    usable = ~routing & (version <= 1)
    number = column(windows.at(offsets + key_at, 4), 0, ">u4").astype(np.int64)
    number = np.where(version == 1, number & 0xFFFF, number)  # the other half is a length
    identifier = np.where(key & usable, number, NO_IDENTIFIER)
    kind = np.full(count, GRE, np.uint8)
    ethertype = np.where(usable, protocol, UNKNOWN).astype(np.uint16)

    rows = np.flatnonzero((ethertype == _ERSPAN_2) | (ethertype == _ERSPAN_3))
    if len(rows):
        kind[rows] = ERSPAN
        inner = windows.at(offsets[rows] + header_bytes[rows], 12)
        third = ethertype[rows] == _ERSPAN_3
        second = ~third & sequence[rows]
        session = column(inner, 2, ">u2").astype(np.int64) & 0x3FF
        identifier[rows] = np.where(second | third, session, NO_IDENTIFIER)
        header_bytes[rows[second]] += 8
        header_bytes[rows[third]] += 12 + 8 * (inner[third, 11] & 1).astype(np.int64)
        ethertype[rows] = ETHERNET
    return _inside(kind, identifier, Layers(windows, offsets, header_bytes, ethertype), captured)


def _gtp(
    windows: Windows, offsets: Offsets, heads: Bytes
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which of these are user data of GTP version 1, and the lengths of their headers."""
    good = ((heads[:, 0] & 0xF0) == 0x30) & (heads[:, 1] == 0xFF)
    optional = (heads[:, 0] & 7) != 0  # then all three fields are there
    length = np.where(optional, 12, 8).astype(np.int64)
    rows = np.flatnonzero(good & ((heads[:, 0] & 4) != 0) & (heads[:, 11] != 0))
    for _ in range(_MOST_GTP_EXTENSIONS):
        if not len(rows):
            break
        size = windows.at(offsets[rows] + length[rows], 1)[:, 0].astype(np.int64) * 4
        length[rows] += size
        good[rows[size == 0]] = False
        following = windows.at(offsets[rows] + length[rows] - 1, 1)[:, 0]
        rows = rows[(size > 0) & (following != 0)]
    good[rows] = False
    return good, length
