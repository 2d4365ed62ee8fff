"""Link headers that systems put before packets they hand to a capturing program."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.protocols.link.layers import IPV4, IPV6, UNKNOWN, Layers
from capture_analyzer.wire.windows import Offsets, Windows, column

_NFLOG_HEAD_BYTES: Final = 4
_NFLOG_PAYLOAD: Final = 9
_NFLOG_FAMILIES: Final = {2: IPV4, 10: IPV6}
_MOST_NFLOG_PARTS: Final = 64  # there are some twenty kinds, each at most once

_PKTAP_LEAST_BYTES: Final = 108


def nflog(windows: Windows, offsets: Offsets, captured: NDArray[np.uint32]) -> Layers:
    """NFLOG: an address family, then parts of length, type and value; one is the packet.

    Lengths and types are in the byte order of the capturing host, which the file does not
    tell for sure: the one in which the first part makes sense is taken.
    """
    count = len(offsets)
    layers = Layers(
        windows, offsets, np.full(count, _NFLOG_HEAD_BYTES, np.int64), np.zeros(count, np.uint16)
    )
    heads = windows.at(offsets, 8)
    limit = captured.astype(np.int64)
    little = column(heads, 4, "<u2")
    big = column(heads, 4, ">u2")
    is_big = ((little < 4) | (little > limit)) & (big >= 4)
    rows = np.flatnonzero(heads[:, 1] == 0)  # version
    at = layers.header_bytes
    for _ in range(_MOST_NFLOG_PARTS):
        rows = rows[at[rows] + 4 <= limit[rows]]
        if not len(rows):
            break
        part = windows.at(offsets[rows] + at[rows], 4)
        size, kind = (
            np.where(is_big[rows], column(part, i, ">u2"), column(part, i, "<u2")).astype(np.int64)
            for i in (0, 2)
        )
        found = (kind == _NFLOG_PAYLOAD) & (size >= 4)
        at[rows[found]] += 4
        for family, ethertype in _NFLOG_FAMILIES.items():
            layers.ethertype[rows[found & (heads[rows, 0] == family)]] = ethertype
        going = ~found & (size >= 4)
        rows, size = rows[going], size[going]
        at[rows] += size + -size % 4
    return layers


def pktap(windows: Windows, offsets: Offsets) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Apple's PKTAP: length of each header, and link type of what is behind it.

    The header is in the byte order of the capturing host: little-endian on every Mac since 2006.
    Where it makes no sense the link type is -1.
    """
    heads = windows.at(offsets, 12)
    length = column(heads, 0, "<u4").astype(np.int64)
    record = column(heads, 4, "<u4")
    link_type = column(heads, 8, "<u4").astype(np.int64)
    usable = (length >= _PKTAP_LEAST_BYTES) & (length <= 1024) & (record == 1)
    return np.where(usable, length, 0), np.where(usable, link_type, -1)


def loopback(windows: Windows, offsets: Offsets) -> Layers:
    """BSD's loopback: the address family, in either byte order."""
    family = column(windows.at(offsets, 4), 0, "<u4")
    known = np.zeros(len(offsets), np.bool_)
    for order in (family, family.byteswap()):
        known |= np.isin(order, _LOOPBACK_FAMILIES)
    ethertype = np.where(known, IPV4, UNKNOWN).astype(np.uint16)
    return Layers(windows, offsets, np.full(len(offsets), 4, np.int64), ethertype)


_LOOPBACK_FAMILIES: Final = (2, 10, 24, 28, 30)
"""AF_INET; AF_INET6 of Linux, NetBSD and OpenBSD, FreeBSD, macOS."""
