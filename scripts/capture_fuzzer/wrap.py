"""Packets inside other headers: tags, tunnels, fragments, other link types."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

from capture_fuzzer.seeds import Frame

ETHERNET = 1
_IPV4, _IPV6 = 0x0800, 0x86DD
_KNOWN = {_IPV4: 4, _IPV6: 6}  # EtherType: IP version

_Around = Callable[[random.Random, bytes, int], bytes]


def wrapped(rng: random.Random, link_type: int, frames: Sequence[Frame]) -> int:
    """Put a capture's packets (over Ethernet) into something, all alike or a part of them.

    Returns:
        The link type that they have now.
    """
    if link_type != ETHERNET:
        return link_type
    kind = rng.randrange(3)
    if kind == 0:
        number, head = rng.choice(LINKS)
        for frame in frames:
            _replace(frame, _network(frame.data, head))
        return number
    inside = rng.choice(TAGS if kind == 1 else TUNNELS)
    depth = rng.choice((1, 1, 1, 1, 2, 3, 9, 40))
    share = rng.choice((1, 1, 1, 0.5, 0.1))
    for frame in frames:
        if rng.random() < share:
            for _ in range(depth):
                _replace(frame, inside(rng, frame.data, _ethertype(frame.data)))
    return link_type


def fragmented(rng: random.Random, frames: list[Frame]) -> None:
    """Cut IP packets over Ethernet into fragments, in order or not, whole or not."""
    share = rng.choice((1, 0.3, 0.05))
    result = []
    for frame in frames:
        parts = _fragments(rng, frame) if rng.random() < share else []
        if rng.random() < 0.1:
            rng.shuffle(parts)
        if parts and rng.random() < 0.1:
            del parts[rng.randrange(len(parts))]
        if parts and rng.random() < 0.1:
            parts.append(parts[0])
        result += parts or [frame]
    frames[:] = result


def _replace(frame: Frame, data: bytes) -> None:
    """New headers in front of the same payload."""
    more = len(data) - len(frame.data)
    frame.data = data
    frame.original += more
    if frame.payload:
        frame.payload = range(frame.payload.start + more, frame.payload.stop + more)
    if frame.transport:
        frame.transport += more


def _ethertype(data: bytes) -> int:
    return int.from_bytes(data[12:14], "big") if len(data) > 14 else 0


def _network(data: bytes, head: Callable[[int], bytes]) -> bytes:
    return head(_ethertype(data)) + data[14:]


# --- between Ethernet and IP --------------------------------------------------------------


def _vlan(rng: random.Random, data: bytes, ethertype: int) -> bytes:
    return data[:12] + rng.choice((b"\x81\x00", b"\x88\xa8", b"\x91\x00")) + b"\x20\x64" + data[12:]


def _mpls(rng: random.Random, data: bytes, ethertype: int) -> bytes:
    if ethertype not in _KNOWN:
        return data
    labels = rng.randbytes(3 * rng.choice((1, 1, 2, 5)))
    stack = b"".join(
        labels[i : i + 2] + bytes([labels[i + 2] & 0xF0 | (i + 3 >= len(labels)), 64])
        for i in range(0, len(labels), 3)
    )
    return data[:12] + b"\x88\x47" + stack + data[14:]


def _pppoe(rng: random.Random, data: bytes, ethertype: int) -> bytes:
    if ethertype not in _KNOWN:
        return data
    protocol = b"\x00\x21" if ethertype == _IPV4 else b"\x00\x57"
    size = struct.pack("!H", (len(data) - 12) & 0xFFFF)
    return data[:12] + b"\x88\x64\x11\x00\x00\x07" + size + protocol + data[14:]


TAGS: tuple[_Around, ...] = (_vlan, _mpls, _pppoe)


# --- inside IP ----------------------------------------------------------------------------


def _outer(rng: random.Random, protocol: int, body: bytes) -> bytes:
    ends = b"\x0a\x09\x08\x07\x0a\x09\x08\x06"
    if rng.random() < 0.7:
        head = struct.pack(
            "!BBHHHBBH",
            0x45,
            0,
            (20 + len(body)) & 0xFFFF,
            rng.randrange(65536),
            0,
            64,
            protocol,
            0,
        )
        return bytes(12) + b"\x08\x00" + head + ends + body
    head = struct.pack("!IHBB", 6 << 28, len(body) & 0xFFFF, protocol, 64)
    return bytes(12) + b"\x86\xdd" + head + bytes(8) + ends + bytes(8) + ends + body


def _udp(rng: random.Random, port: int, body: bytes) -> bytes:
    return _outer(rng, 17, struct.pack("!HHHH", 4444, port, (8 + len(body)) & 0xFFFF, 0) + body)


def _vxlan(rng: random.Random, data: bytes, ethertype: int) -> bytes:
    return _udp(rng, rng.choice((4789, 8472)), b"\x08\x00\x00\x00\x00\x00\x2a\x00" + data)


def _geneve(rng: random.Random, data: bytes, ethertype: int) -> bytes:
    words = rng.choice((0, 0, 1, 3))
    options = b"".join(b"\x01\x02\x03\x00" for _ in range(words))
    return _udp(rng, 6081, bytes([words]) + b"\x00\x65\x58\x00\x00\x07\x00" + options + data)


def _gre(rng: random.Random, data: bytes, ethertype: int) -> bytes:
    key = rng.choice((b"", b"\x00\x00\x00\x05"))
    flags = b"\x20\x00" if key else b"\x00\x00"
    if ethertype in _KNOWN and rng.random() < 0.5:
        return _outer(rng, 47, flags + data[12:14] + key + data[14:])
    return _outer(rng, 47, flags + b"\x65\x58" + key + data)


def _ip_in_ip(rng: random.Random, data: bytes, ethertype: int) -> bytes:
    if ethertype not in _KNOWN:
        return data
    return _outer(rng, 4 if ethertype == _IPV4 else 41, data[14:])


def _gtp(rng: random.Random, data: bytes, ethertype: int) -> bytes:
    if ethertype not in _KNOWN:
        return data
    return _udp(rng, 2152, b"\x30\xff" + struct.pack("!HI", len(data[14:]) & 0xFFFF, 9) + data[14:])


TUNNELS: tuple[_Around, ...] = (_vxlan, _geneve, _gre, _ip_in_ip, _gtp)


# --- other links --------------------------------------------------------------------------


def _ppp(ethertype: int) -> bytes:
    return b"\xff\x03\x00\x21" if ethertype == _IPV4 else b"\xff\x03\x00\x57"


def _family(order: str) -> Callable[[int], bytes]:
    return lambda ethertype: struct.pack(order + "I", 2 if ethertype == _IPV4 else 10)


def _nflog(ethertype: int) -> bytes:
    head = bytes([2 if ethertype == _IPV4 else 10, 0, 0, 0])
    return head + b"\x08\x00\x01\x00\x86\xdd\x00\x00" + b"\x04\x00\x09\x00"


def _wireless(ethertype: int) -> bytes:
    snap = b"\xaa\xaa\x03\x00\x00\x00" + struct.pack("!H", ethertype)
    return b"\x08\x01\x00\x00" + bytes(18) + b"\x00\x00" + snap


LINKS: tuple[tuple[int, Callable[[int], bytes]], ...] = (
    (113, lambda ethertype: b"\x00\x04\x00\x01\x00\x06" + bytes(8) + struct.pack("!H", ethertype)),
    (276, lambda ethertype: struct.pack("!HHIHBB8s", ethertype, 0, 2, 1, 4, 6, bytes(8))),
    (101, lambda ethertype: b""),
    (12, lambda ethertype: b""),
    (228, lambda ethertype: b""),
    (0, _family("<")),
    (0, _family(">")),
    (108, _family(">")),
    (9, _ppp),
    (50, _ppp),
    (239, _nflog),
    (105, _wireless),
    (127, lambda ethertype: b"\x00\x00\x08\x00\x00\x00\x00\x00" + _wireless(ethertype)),
)
"""(link type, what stands before the network layer of an EtherType)."""


# --- fragments ----------------------------------------------------------------------------


def _fragments(rng: random.Random, frame: Frame) -> list[Frame]:
    data, ethertype = frame.data, _ethertype(frame.data)
    if ethertype == _IPV4:
        headers = 14 + 4 * (data[14] & 15)
    elif ethertype == _IPV6:
        headers = 54
    else:
        return []
    body = data[headers:]
    size = 8 * rng.choice((1, 2, 3, 10, 60, 150))
    if len(body) <= size or len(body) > 60 * size:
        return []
    number = rng.randrange(65536)
    parts = []
    for at in range(0, len(body), size):
        piece, more = body[at : at + size], at + size < len(body)
        head = bytearray(data[:headers])
        if ethertype == _IPV4:
            head[16:18] = struct.pack("!H", (headers - 14 + len(piece)) & 0xFFFF)
            head[18:22] = struct.pack("!HH", number, more << 13 | at // 8)
        else:
            after, head[20] = head[20], 44
            head[18:20] = struct.pack("!H", 8 + len(piece))
            head += struct.pack("!BBHI", after, 0, at & 0xFFF8 | more, number)
        whole = bytes(head) + piece
        parts.append(Frame(frame.time_ns, whole, len(whole), range(0), 0))
    return parts
