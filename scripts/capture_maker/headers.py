"""Headers of the link, IP, TCP and UDP, with right checksums."""

from __future__ import annotations

import ipaddress
import struct

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
TCP, UDP = 6, 17

LINK_TYPES = {"ethernet": 1, "vlan": 1, "rawip": 101, "sll": 113, "sll2": 276}
"""LINKTYPE_ numbers (www.tcpdump.org/linktypes.html)."""


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _pseudo_header(source: str, destination: str, protocol: int, length: int) -> bytes:
    a, b = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    if a.version == 4:
        return a.packed + b.packed + struct.pack("!BBH", 0, protocol, length)
    return a.packed + b.packed + struct.pack("!IHBB", length, 0, 0, protocol)


def tcp_options(
    *,
    mss: int | None = None,
    window_scale: int | None = None,
    sack_permitted: bool = False,
    timestamps: tuple[int, int] | None = None,
    sack: list[tuple[int, int]] | None = None,
) -> bytes:
    """TCP options as Linux lays them out, padded to whole words with NOPs."""
    options = b""
    if mss is not None:
        options += struct.pack("!BBH", 2, 4, mss)
    if sack_permitted and timestamps:
        options += b"\x04\x02"
    elif sack_permitted:
        options += b"\x01\x01\x04\x02"
    if timestamps:
        options += b"" if sack_permitted else b"\x01\x01"
        options += struct.pack("!BBII", 8, 10, *timestamps)
    if window_scale is not None:
        options += struct.pack("!BBBB", 1, 3, 3, window_scale)
    if sack:
        options += struct.pack("!BBBB", 1, 1, 5, 2 + 8 * len(sack))
        for left, right in sack:
            options += struct.pack("!II", left, right)
    return options


def tcp(
    source: tuple[str, int],
    destination: tuple[str, int],
    seq: int,
    ack: int,
    flags: int,
    window: int,
    options: bytes,
    payload: bytes,
) -> bytes:
    """A TCP segment (RFC 9293, section 3.1)."""
    head = struct.pack(
        "!HHIIBBHHH",
        source[1],
        destination[1],
        seq,
        ack,
        (20 + len(options)) << 2,
        flags,
        window,
        0,
        0,
    )
    segment = head + options + payload
    total = checksum(_pseudo_header(source[0], destination[0], TCP, len(segment)) + segment)
    return segment[:16] + struct.pack("!H", total) + segment[18:]


def udp(source: tuple[str, int], destination: tuple[str, int], payload: bytes) -> bytes:
    """A UDP datagram (RFC 768)."""
    length = 8 + len(payload)
    head = struct.pack("!HHHH", source[1], destination[1], length, 0)
    pseudo = _pseudo_header(source[0], destination[0], UDP, length)
    total = checksum(pseudo + head + payload) or 0xFFFF
    return head[:6] + struct.pack("!H", total) + payload


def ip(source: str, destination: str, protocol: int, ttl: int, ip_id: int, body: bytes) -> bytes:
    """An IPv4 packet with DF set (RFC 791), or an IPv6 packet (RFC 8200)."""
    a, b = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    if a.version == 6:
        return struct.pack("!IHBB", 6 << 28, len(body), protocol, ttl) + a.packed + b.packed + body
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), ip_id, 0x4000, ttl, protocol, 0)
    head += a.packed + b.packed
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body


def link(kind: str, packet: bytes, *, outgoing: bool) -> bytes:
    """Put a link header before an IP packet, as seen on the capturing host.

    Args:
        kind: a key of LINK_TYPES.
        packet: the IP packet.
        outgoing: whether the capturing host sent it (its MAC address ends in 01).
    """
    ether_type = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    ours, router = bytes.fromhex("020000000001"), bytes.fromhex("0200000000fe")
    source, destination = (ours, router) if outgoing else (router, ours)
    if kind == "rawip":
        return packet
    if kind == "ethernet":
        # Short frames are padded on the wire; the sender's own capture sees them unpadded.
        frame = destination + source + struct.pack("!H", ether_type) + packet
        return frame if outgoing else frame.ljust(60, b"\0")
    if kind == "vlan":
        return destination + source + struct.pack("!HHH", 0x8100, 0x2064, ether_type) + packet
    packet_type = 4 if outgoing else 0
    if kind == "sll":
        return struct.pack("!HHH8sH", packet_type, 1, 6, source, ether_type) + packet
    if kind == "sll2":
        head = struct.pack("!HHIHBB8s", ether_type, 0, 2, 1, packet_type, 6, source)
        return head + packet
    raise ValueError(kind)
