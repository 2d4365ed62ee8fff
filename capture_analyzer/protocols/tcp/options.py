"""The options of TCP headers (RFC 9293 section 3.2), decoded for many packets at once."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.packets import (
    HAS_MSS,
    HAS_SACK,
    HAS_TIMESTAMPS,
    HAS_WINDOW_SCALE,
    OPTIONS_BROKEN,
    SACK_PERMITTED,
)
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.wire.windows import Bytes, column

END: Final = 0
NO_OPERATION: Final = 1
MSS: Final = 2  # RFC 9293 section 3.7.1
WINDOW_SCALE: Final = 3  # RFC 7323 section 2.2
SACK_PERMIT: Final = 4  # RFC 2018 section 2
SACK: Final = 5  # RFC 2018 section 3
TIMESTAMPS: Final = 8  # RFC 7323 section 3.2

OPTION_BYTES: Final = 40
"""Most that fits: the header's length field ends at 60 bytes."""

MAX_SACK_BLOCKS: Final = 4
"""RFC 2018 section 3: 8n + 2 bytes for n blocks, of 40."""

_USUAL: Final = 0x0101080A
"""Two no-operations and a timestamps option of 10 bytes: what nearly every segment of a
connection with timestamps carries, and nothing else."""


@quick_dataclass
class Options:
    """What was found, one element a packet (see the columns of `Packets`), and SACK blocks.

    `sack_left` and `sack_right` have one element a block, ordered by packet and place;
    `sack_count` says how many are whose.
    """

    options: NDArray[np.uint8]
    mss: NDArray[np.uint16]
    window_scale: NDArray[np.uint8]
    tsval: NDArray[np.uint32]
    tsecr: NDArray[np.uint32]
    sack_count: NDArray[np.uint8]
    sack_left: NDArray[np.uint32]
    sack_right: NDArray[np.uint32]


def decode(areas: Bytes, lengths: NDArray[np.int64], captured: NDArray[np.int64]) -> Options:
    """Decode option lists.

    Args:
        areas: (packets, 40) bytes behind the fixed header.
        lengths: how many of them are options, by the header, 0 to 40.
        captured: how many of them the capture holds.
    """
    count = len(areas)
    found = Options(
        options=np.zeros(count, np.uint8),
        mss=np.zeros(count, np.uint16),
        window_scale=np.zeros(count, np.uint8),
        tsval=np.zeros(count, np.uint32),
        tsecr=np.zeros(count, np.uint32),
        sack_count=np.zeros(count, np.uint8),
        sack_left=np.empty(0, np.uint32),
        sack_right=np.empty(0, np.uint32),
    )
    stamped = (column(areas, 0, ">u4") == _USUAL) & (lengths >= 12) & (captured >= 12)
    if stamped.all():
        found.options[:] = HAS_TIMESTAMPS
        found.tsval[:] = column(areas, 4, ">u4")
        found.tsecr[:] = column(areas, 8, ">u4")
    elif stamped.any():
        found.options[stamped] = HAS_TIMESTAMPS
        np.copyto(found.tsval, column(areas, 4, ">u4"), where=stamped)
        np.copyto(found.tsecr, column(areas, 8, ">u4"), where=stamped)
    begin = np.where(stamped, np.int64(12), np.int64(0))
    rest = np.flatnonzero(lengths > begin)
    if len(rest):
        _walk(areas[rest], begin[rest], lengths[rest], captured[rest], rest, found)
    return found


def _walk(
    areas: Bytes,
    at: NDArray[np.int64],
    lengths: NDArray[np.int64],
    captured: NDArray[np.int64],
    packets: NDArray[np.intp],
    found: Options,
) -> None:
    """Walk the lists of these packets in step: each round reads one option of every list.

    Args:
        areas: their options.
        at: where in them the walk begins; changed.
        lengths: as in `decode`.
        captured: likewise.
        packets: what they are in `found`.
        found: where the options go.
    """
    # Two bytes more than an area, so that reading a length past its end stays in the row;
    # the limits decide, not what is read there.
    padded = np.zeros((len(areas), OPTION_BYTES + 2), np.uint8)
    padded[:, :OPTION_BYTES] = areas
    end = np.minimum(lengths, captured)
    sack_at = np.full(len(areas), -1, np.int64)
    live = np.arange(len(areas))
    found.options[packets[captured < lengths]] |= OPTIONS_BROKEN
    while len(live):
        live = live[at[live] < end[live]]
        kind = padded[live, at[live]]
        step = kind == NO_OPERATION
        idle = live[step]
        at[idle] += 1 + (padded[idle, at[idle] + 1] == NO_OPERATION)  # mostly two of them
        other = ~step & (kind != END)
        one, kind = live[other], kind[other]
        length = padded[one, at[one] + 1].astype(np.int64)
        broken = (length < 2) | (at[one] + length > end[one])
        found.options[packets[one[broken]]] |= OPTIONS_BROKEN
        one, kind, length = one[~broken], kind[~broken], length[~broken]
        _read(padded, at, one, kind, length, packets, found)
        sacks = (kind == SACK) & (length >= 10) & ((length - 2) % 8 == 0) & (sack_at[one] < 0)
        sack_at[one[sacks]] = at[one[sacks]] + 2
        found.sack_count[packets[one[sacks]]] = (length[sacks] - 2) // 8
        at[one] += length
        live = np.concatenate((idle, one))
    _read_sacks(padded, sack_at, packets, found)


def _read(
    areas: Bytes,
    at: NDArray[np.int64],
    rows: NDArray[np.intp],
    kind: NDArray[np.uint8],
    length: NDArray[np.int64],
    packets: NDArray[np.intp],
    found: Options,
) -> None:
    """Read one option of each row, save SACK; one of the wrong length is passed over."""

    def where(number: int, size: int) -> NDArray[np.intp]:
        chosen: NDArray[np.intp] = rows[(kind == number) & (length == size)]
        return chosen

    one = where(TIMESTAMPS, 10)
    if len(one):
        found.options[packets[one]] |= HAS_TIMESTAMPS
        found.tsval[packets[one]] = _number(areas, one, at[one] + 2, 4)
        found.tsecr[packets[one]] = _number(areas, one, at[one] + 6, 4)
    one = where(MSS, 4)
    if len(one):
        found.options[packets[one]] |= HAS_MSS
        found.mss[packets[one]] = _number(areas, one, at[one] + 2, 2)
    one = where(WINDOW_SCALE, 3)
    if len(one):
        found.options[packets[one]] |= HAS_WINDOW_SCALE
        found.window_scale[packets[one]] = areas[one, at[one] + 2]
    one = where(SACK_PERMIT, 2)
    if len(one):
        found.options[packets[one]] |= SACK_PERMITTED


def _read_sacks(
    areas: Bytes, sack_at: NDArray[np.int64], packets: NDArray[np.intp], found: Options
) -> None:
    rows = np.flatnonzero(sack_at >= 0)
    if not len(rows):
        return
    found.options[packets[rows]] |= HAS_SACK
    counts = found.sack_count[packets[rows]].astype(np.int64)
    row = np.repeat(rows, counts)
    firsts = np.cumsum(counts) - counts
    place = sack_at[row] + 8 * (np.arange(len(row)) - np.repeat(firsts, counts))
    found.sack_left = _number(areas, row, place, 4)
    found.sack_right = _number(areas, row, place + 4, 4)


def _number(
    areas: Bytes, rows: NDArray[np.intp], at: NDArray[np.int64], size: int
) -> NDArray[np.uint32]:
    """Big-endian numbers of `size` bytes at a place in each row."""
    value = np.zeros(len(rows), np.uint32)
    for index in range(size):
        value = (value << np.uint32(8)) | areas[rows, at + index]
    return value
