"""IPv4 (RFC 791) and IPv6 (RFC 8200) headers, decoded for many packets at once."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.wire.windows import Bytes, Offsets, Windows, column

IPV4_HEADER_BYTES: Final = 20
IPV6_HEADER_BYTES: Final = 40

NAMES: Final = {
    0: "hop-by-hop options",
    1: "ICMP",
    2: "IGMP",
    4: "IP in IP",
    6: "TCP",
    17: "UDP",
    41: "IPv6 in IP",
    47: "GRE",
    50: "ESP",
    51: "AH",
    58: "ICMPv6",
    59: "no next header",
    89: "OSPF",
    112: "VRRP",
    132: "SCTP",
}
"""Protocol names for people; not complete."""

HOP_BY_HOP: Final = 0
ROUTING: Final = 43
FRAGMENT: Final = 44
AUTHENTICATION: Final = 51
DESTINATION_OPTIONS: Final = 60
_SKIPPED: Final = (HOP_BY_HOP, ROUTING, AUTHENTICATION, DESTINATION_OPTIONS)

MAX_EXTENSION_HEADERS: Final = 16
"""Extension headers followed in one packet: RFC 8200 section 4.1 lists seven in sensible
order; a longer chain is an attack on parsers."""

OK: Final = 0
CUT: Final = 1
MALFORMED: Final = 2
A_FRAGMENT: Final = 3
"""Values of `Datagrams.status`: decoded; the capture ends inside the headers; the header
contradicts itself; a fragment, whose transport header (if any) is set aside."""


@quick_dataclass
class Datagrams:
    """The IP headers of some packets, all of one version.

    Attributes:
        protocol: number of what the datagram carries, behind extension headers.
        hop_limit: time to live or hop limit.
        identification: IPv4 identification; None for IPv6.
        source, destination: the addresses as numbers: IPv4 one uint32 a packet; IPv6 two
            uint64 (high half, low half).
        transport_offset: where the transport header begins, in the buffer.
        transport_bytes: its length with its payload, on the wire. Of an IPv6 fragment both
            are about its fragment header, which the data follow.
        status: OK, CUT, MALFORMED or A_FRAGMENT for each; None if all are OK.
        fragment: IPv4 flags and fragment offset, as sent; None for IPv6.
    """

    protocol: NDArray[np.uint8]
    hop_limit: NDArray[np.uint8]
    identification: NDArray[np.uint16] | None
    source: tuple[NDArray[np.unsignedinteger], ...]
    destination: tuple[NDArray[np.unsignedinteger], ...]
    transport_offset: Offsets
    transport_bytes: NDArray[np.int64]
    status: NDArray[np.uint8] | None
    fragment: NDArray[np.uint16] | None = None

    def take(self, kept: NDArray[np.bool_]) -> Datagrams:
        """Those of some packets only."""
        identification, fragment = self.identification, self.fragment
        return Datagrams(
            protocol=self.protocol[kept],
            hop_limit=self.hop_limit[kept],
            identification=None if identification is None else identification[kept],
            source=tuple(word[kept] for word in self.source),
            destination=tuple(word[kept] for word in self.destination),
            transport_offset=self.transport_offset[kept],
            transport_bytes=self.transport_bytes[kept],
            status=None if self.status is None else self.status[kept],
            fragment=None if fragment is None else fragment[kept],
        )


def version(first_bytes: Bytes) -> NDArray[np.uint8]:
    """The IP version that a header's first byte states."""
    return first_bytes >> np.uint8(4)


def ipv4(
    headers: Bytes,
    offsets: Offsets,
    captured: NDArray[np.int64],
    on_wire: NDArray[np.int64],
) -> Datagrams:
    """Decode IPv4 headers.

    Args:
        headers: windows of at least 20 bytes that begin at the header, one a packet.
        offsets: where each begins in the buffer.
        captured: bytes that the capture holds from there.
        on_wire: bytes that the packet had from there, padding included.
    """
    first = headers[:, 0]
    total = column(headers, 2, ">u2").astype(np.int64)
    # A total length of 0 comes from a network card that cuts the packet up itself
    # (segmentation offload, also above 64 KiB); one beyond the packet can't be true either.
    unusable = (total == 0) | (total > on_wire)
    if unusable.any():
        total = np.where(unusable, on_wire, total)
    header_bytes: NDArray[np.int64] | int = IPV4_HEADER_BYTES
    status: NDArray[np.uint8] | None = None
    short = captured < IPV4_HEADER_BYTES
    plain = first == 0x45
    fragment = column(headers, 6, ">u2")
    fragments = (fragment & 0x3FFF) != 0  # more fragments, or an offset
    if not plain.all():
        header_bytes = (first & np.uint8(15)).astype(np.int64) * 4
    if fragments.any() or short.any() or not plain.all() or bool((total < header_bytes).any()):
        status = np.zeros(len(offsets), np.uint8)
        status[fragments] = A_FRAGMENT
        status[(header_bytes < IPV4_HEADER_BYTES) | (total < header_bytes)] = MALFORMED
        status[captured < np.maximum(header_bytes, IPV4_HEADER_BYTES)] = CUT
    return Datagrams(
        protocol=headers[:, 9],
        hop_limit=headers[:, 8],
        identification=column(headers, 4, ">u2"),
        source=(column(headers, 12, ">u4").astype(np.uint32),),
        destination=(column(headers, 16, ">u4").astype(np.uint32),),
        transport_offset=offsets + header_bytes,
        transport_bytes=total - header_bytes,
        status=status,
        fragment=fragment,
    )


def ipv6(
    windows: Windows,
    headers: Bytes,
    offsets: Offsets,
    captured: NDArray[np.int64],
    on_wire: NDArray[np.int64],
) -> Datagrams:
    """Decode IPv6 headers and the extension headers that lead to a transport header.

    Args:
        windows: of the buffer that holds the packets.
        headers: windows of at least 40 bytes that begin at the header, one a packet.
        offsets: where each begins in the buffer.
        captured: bytes that the capture holds from there.
        on_wire: bytes that the packet had from there, padding included.
    """
    total = column(headers, 4, ">u2").astype(np.int64) + IPV6_HEADER_BYTES
    # A payload length of 0: a jumbogram (RFC 2675) or segmentation offload.
    unusable = (total == IPV6_HEADER_BYTES) | (total > on_wire)
    if unusable.any():
        total = np.where(unusable, on_wire, total)
    protocol = headers[:, 6].copy()
    header_bytes = np.full(len(offsets), IPV6_HEADER_BYTES, np.int64)
    status = np.zeros(len(offsets), np.uint8)
    status[captured < IPV6_HEADER_BYTES] = CUT
    skip_extensions(windows, offsets, captured, total, protocol, header_bytes, status)
    return Datagrams(
        protocol=protocol,
        hop_limit=headers[:, 7],
        identification=None,
        source=_halves(headers, 8),
        destination=_halves(headers, 24),
        transport_offset=offsets + header_bytes,
        transport_bytes=total - header_bytes,
        status=status if status.any() else None,
    )


def skip_extensions(
    windows: Windows,
    offsets: Offsets,
    captured: NDArray[np.int64],
    total: NDArray[np.int64],
    protocol: NDArray[np.uint8],
    header_bytes: NDArray[np.int64],
    status: NDArray[np.uint8],
) -> None:
    """Step over the extension headers of IPv6 packets (or authentication headers of IPv4).

    Args:
        windows: of the buffer that holds the packets.
        offsets: a place in each packet.
        captured: bytes that the capture holds from there.
        total: bytes that the packet has from there.
        protocol: what comes next, by packet; changed.
        header_bytes: where that begins, counted from `offsets`; changed.
        status: only what is OK is looked at; changed.
    """
    pending = np.flatnonzero(_is_extension(protocol) & (status == OK))
    for _ in range(MAX_EXTENSION_HEADERS):
        if not len(pending):
            break
        pending = _skip_extension(
            windows, offsets, captured, total, protocol, header_bytes, status, pending
        )
    status[pending] = MALFORMED


def _skip_extension(
    windows: Windows,
    offsets: Offsets,
    captured: NDArray[np.int64],
    total: NDArray[np.int64],
    protocol: NDArray[np.uint8],
    header_bytes: NDArray[np.int64],
    status: NDArray[np.uint8],
    pending: NDArray[np.intp],
) -> NDArray[np.intp]:
    """Step over one extension header of the pending packets; returns those with another.

    Changes protocol, header_bytes and status in place.
    """
    extension = windows.at(offsets[pending] + header_bytes[pending], 8)
    kind = protocol[pending]
    # RFC 8200 section 4: the length counts units of 8 bytes after the first. A fragment
    # header has no length, it is 8 bytes. RFC 4302: units of 4 bytes after the second.
    stated = extension[:, 1].astype(np.int64)
    length = np.where(kind == FRAGMENT, 8, (stated + 1) * 8)
    length = np.where(kind == AUTHENTICATION, (stated + 2) * 4, length)
    after = header_bytes[pending] + length
    # RFC 6946: a fragment header with offset 0 and no more fragments is a whole packet.
    is_part = (kind == FRAGMENT) & ((column(extension, 2, ">u2") & 0xFFF9) != 0)
    beyond = after > total[pending]
    cut = captured[pending] < np.minimum(after, header_bytes[pending] + 8)
    status[pending[is_part]] = A_FRAGMENT
    status[pending[beyond]] = MALFORMED
    status[pending[cut]] = CUT
    going = ~(is_part | beyond | cut)
    pending = pending[going]
    protocol[pending] = extension[going, 0]
    header_bytes[pending] = after[going]
    return pending[_is_extension(protocol[pending])]


def _is_extension(protocol: NDArray[np.uint8]) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = protocol == FRAGMENT
    for number in _SKIPPED:
        result |= protocol == number
    return result


def _halves(headers: Bytes, offset: int) -> tuple[NDArray[np.unsignedinteger], ...]:
    return (
        column(headers, offset, ">u8").astype(np.uint64),
        column(headers, offset + 8, ">u8").astype(np.uint64),
    )


def describe(protocol: int) -> str:
    """An IP protocol for people: "IP protocol 1 (ICMP)"."""
    name = NAMES.get(protocol)
    return f"IP protocol {protocol}" + (f" ({name})" if name else "")


def ipv4_text(address: int) -> str:
    """An IPv4 address in dotted form."""
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"


def ipv6_text(high: int, low: int) -> str:
    """An IPv6 address as RFC 5952 writes it; IPv4-mapped ones in mixed form (section 5)."""
    if high == 0 and low >> 32 == 0xFFFF:
        return "::ffff:" + ipv4_text(low & 0xFFFFFFFF)
    groups = [number >> shift & 0xFFFF for number in (high, low) for shift in (48, 32, 16, 0)]
    best, best_length, start = 0, 1, 0  # the first of the longest runs of two zeros or more
    while start < 8:
        stop = start
        while stop < 8 and not groups[stop]:
            stop += 1
        if stop - start > best_length:
            best, best_length = start, stop - start
        start = stop + 1
    text = [f"{group:x}" for group in groups]
    if best_length < 2:
        return ":".join(text)
    return ":".join(text[:best]) + "::" + ":".join(text[best + best_length :])
