"""IEEE 802.11 data frames, bare or behind a radiotap header (www.radiotap.org)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.protocols.link.layers import (
    AGGREGATED,
    ENCRYPTED,
    LLC,
    MANAGEMENT,
    PART,
    UNKNOWN,
    Layers,
)
from capture_analyzer.wire.windows import Bytes, Offsets, Windows, column

_MOST_RADIOTAP_BITMAPS = 8
"""Present-words of a radiotap header that are followed; drivers write one to four."""


def frames(windows: Windows, offsets: Offsets, *, radiotap: bool) -> Layers:
    """Follow some frames up to what is behind their LLC header."""
    count = len(offsets)
    header_bytes = np.zeros(count, np.int64)
    padded = np.zeros(count, np.bool_)
    if radiotap:
        header_bytes, padded = _radiotap(windows, offsets)
    layers = Layers(windows, offsets, header_bytes, np.full(count, UNKNOWN, np.uint16))
    _data(layers, padded)
    layers.follow()
    return layers


def _radiotap(windows: Windows, offsets: Offsets) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Length of each radiotap header, and whether it says that the frame's header is padded."""
    heads = windows.at(offsets, 8)
    length = column(heads, 2, "<u2").astype(np.int64)
    present = column(heads, 4, "<u4")
    at = np.full(len(offsets), 8, np.int64)  # behind the first present-word
    more = np.flatnonzero(present >> np.uint32(31))
    for _ in range(_MOST_RADIOTAP_BITMAPS):
        if not len(more):
            break
        word = column(windows.at(offsets[more] + at[more], 4), 0, "<u4")
        at[more] += 4
        more = more[(word >> np.uint32(31)) != 0]
    has_clock, has_flags = (present & 1) != 0, (present & 2) != 0
    at = np.where(has_clock, at + -at % 8 + 8, at)  # TSFT: 8 bytes, aligned
    flags = windows.at(offsets + at, 1)[:, 0]
    return length, has_flags & (at < length) & ((flags & 0x20) != 0)


def _data(layers: Layers, padded: NDArray[np.bool_]) -> None:
    """Go over the MAC headers (IEEE 802.11-2020, section 9.3.2.1)."""
    heads: Bytes = layers.windows.at(layers.offsets + layers.header_bytes, 32)
    control, flags = heads[:, 0], heads[:, 1]
    is_data = (control & 0x0F) == 0x08  # version 0, type data
    with_content = is_data & ((control & 0x40) == 0)
    four = (flags & 3) == 3  # to and from a distribution system: a fourth address
    quality = (control & 0x80) != 0
    at = np.where(four, 30, 24)
    quality_at = np.where(four, 30, 24)
    quality_control = heads[np.arange(len(heads)), quality_at]
    at = np.where(quality, at + 2, at)
    at = np.where(quality & ((flags & 0x80) != 0), at + 4, at)  # HT control
    at = np.where(padded, at + -at % 4, at)
    sequence = column(heads, 22, "<u2")
    part = ((sequence & 0xF) != 0) | ((flags & 0x04) != 0)
    kind = np.full(len(heads), LLC, np.uint16)
    kind[part] = PART
    kind[quality & ((quality_control & 0x80) != 0)] = AGGREGATED
    kind[(flags & 0x40) != 0] = ENCRYPTED
    kind[~with_content] = MANAGEMENT
    layers.ethertype[:] = kind
    # Of a frame without data nothing but the frame control needs to be there.
    layers.header_bytes += np.where(with_content, at, 2)
