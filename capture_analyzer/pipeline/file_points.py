"""Notices that files given together were captured at two points.

The same datagram then stands in two files, byte for byte (QUIC never sends one twice); the same
segment stands in two files: with its sequence and acknowledgement numbers, its
timestamp, its IP identification. A segment sent again has a new identification (RFC 6864) and
mostly a new timestamp, so that the files of a ring never look like this. Addresses are not
compared, since translators change them between two points; nor lengths, since network cards
cut and join segments; nor times, since clocks differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.errors import TwoPointsError
from capture_analyzer.model.capture import Capture, CaptureFile
from capture_analyzer.model.packets import FIN, HAS_TIMESTAMPS, RST, SYN, TCP, UDP, Packets
from capture_analyzer.wire.windows import Windows

LEAST_SEGMENTS: Final = 3
LEAST_SHARE: Final = 0.2
"""So many of a file's segments, and such a share of them, must stand in another file."""

MAX_COMPARED: Final = 1 << 20
"""Segments compared; of more those are taken that a hash of their numbers chooses, the same in
all files."""

DATAGRAM_BYTES: Final = 24
"""Compared of a datagram: a connection ID and some of what is encrypted, or a DNS question."""

_AT_ONCE: Final = 1 << 16

_MULTIPLIERS: Final = tuple(
    np.uint64(number)
    for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5)
)


def refuse_two_points(capture: Capture, packets: Packets) -> None:
    """Check that no two files hold the same segments or datagrams.

    Raises:
        TwoPointsError: two do.
    """
    files = capture.files
    if len(files) < 2:
        return
    _compare(packets, files, *_segments(packets))
    _compare(packets, files, *_datagrams(capture, packets))


def _compare(
    packets: Packets,
    files: Sequence[CaptureFile],
    rows: NDArray[np.intp],
    hashed: NDArray[np.uint64],
) -> None:
    """Compare packets of all files by a number that says what is in them."""
    if len(rows) > MAX_COMPARED:
        part = np.uint64(-(-len(rows) // MAX_COMPARED))
        chosen = hashed % part == 0
        rows, hashed = rows[chosen], hashed[chosen]
    order = np.lexsort((packets.file_no[rows], hashed))
    file_no, hashed = packets.file_no[rows[order]], hashed[order]
    same = hashed[1:] == hashed[:-1]
    # Of a file's own copies (a mirror port, all interfaces at once) one counts.
    first = np.ones(len(hashed), np.bool_)
    first[1:] = ~(same & (file_no[1:] == file_no[:-1]))
    file_no, hashed = file_no[first], hashed[first]
    totals = np.bincount(file_no, minlength=len(files))
    both = np.flatnonzero(hashed[1:] == hashed[:-1])
    pairs, counts = np.unique(
        file_no[both].astype(np.int64) * len(files) + file_no[both + 1], return_counts=True
    )
    for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
        one, other = divmod(pair, len(files))
        smaller = int(min(totals[one], totals[other]))
        if count >= LEAST_SEGMENTS and count >= LEAST_SHARE * smaller:
            raise TwoPointsError(files[one].name, files[other].name)


def _segments(packets: Packets) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """Segments that can be told from their repetitions, and a number for each.

    Those have a timestamp or an identification, and a payload or a SYN; an ACK alone has
    little that is its own.
    """
    rows = np.flatnonzero(packets.protocol == TCP)
    known = (packets.options[rows] & HAS_TIMESTAMPS) != 0
    known |= packets.ip_id[rows] != 0
    known &= (packets.payload_bytes[rows] > 0) | ((packets.flags[rows] & SYN) != 0)
    rows = rows[known]
    kinds = (packets.flags[rows] & (SYN | FIN | RST)).astype(np.uint64) << np.uint64(16)
    mixed = np.zeros(len(rows), np.uint64)
    columns = (packets.seq[rows], packets.ack[rows], packets.tsval[rows])
    for column, multiplier in zip(
        (*columns, packets.ip_id[rows] | kinds), _MULTIPLIERS, strict=True
    ):
        mixed = (mixed ^ column.astype(np.uint64)) * multiplier
        mixed ^= mixed >> np.uint64(29)
    return rows, mixed


def _datagrams(capture: Capture, packets: Packets) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """UDP datagrams with some payload, and a number for the first bytes of each."""
    rows = np.flatnonzero((packets.protocol == UDP) & (packets.payload_captured >= DATAGRAM_BYTES))
    mixed = np.zeros(len(rows), np.uint64)
    buffer_no = packets.buffer_no[rows]
    for number in np.unique(buffer_no).tolist():
        mine = np.flatnonzero(buffer_no == number)
        windows = Windows(capture.buffers[number])
        for start in range(0, len(mine), _AT_ONCE):
            some = mine[start : start + _AT_ONCE]
            words = windows.at(packets.payload_offset[rows[some]], DATAGRAM_BYTES).view(np.uint64)
            for word, multiplier in zip(words.T, _MULTIPLIERS, strict=False):
                mixed[some] = (mixed[some] ^ word) * multiplier
                mixed[some] ^= mixed[some] >> np.uint64(29)
    return rows, mixed
