"""Notices that files given together were captured at two points.

The same datagram then stands in two files, byte for byte (QUIC never sends one twice), or the
same segment: with its sequence and acknowledgement numbers, its timestamp, its IP
identification. A segment sent again has a new identification (RFC 6864) and mostly a new
timestamp, so that the files of a ring never look like this. One end has to be the same (a
translator between two points changes the other), and only what stands in a file once is
compared, as traffic made by repeating a recording says nothing. Lengths are not compared, since
network cards cut and join segments; nor times, since clocks differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.errors import TwoPointsError
from capture_analyzer.model.capture import Capture, CaptureFile
from capture_analyzer.model.packets import FIN, HAS_TIMESTAMPS, RST, SYN, TCP, UDP, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.wire.windows import Windows

LEAST_SEGMENTS: Final = 3
LEAST_SHARE: Final = 0.2
"""So many of a file's segments, and such a share of them, must stand in another file."""

STEP_NS: Final = 1_000_000_000
LEAST_IN_STEP: Final = 0.8
"""So close has the distance of the two copies of a connection to be to that of the next
connection, for such a share of them: ways take less than a second, and clocks step rarely."""

MAX_COMPARED: Final = 1 << 18
"""Segments compared; of more those are taken that a hash of their numbers chooses, the same in
all files."""

DATAGRAM_BYTES: Final = 24
"""Compared of a datagram: a connection ID and some of what is encrypted, or a DNS question."""

_AT_ONCE: Final = 1 << 16

_MULTIPLIERS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""Of splitmix64, whose way of mixing bits this is."""


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
    matches = _match(packets, rows, hashed)
    pair = matches.one.astype(np.int64) * len(files) + matches.other
    totals = np.bincount(packets.file_no[rows], minlength=len(files))
    for number in np.unique(pair).tolist():
        one, other = divmod(number, len(files))
        mine = pair == number
        matched, smaller = int(mine.sum()), int(min(totals[one], totals[other]))
        if matched < max(LEAST_SEGMENTS, LEAST_SHARE * smaller):
            continue
        if _in_step(matches.connection[mine], matches.apart_ns[mine]):
            raise TwoPointsError(files[one].name, files[other].name)


@quick_dataclass
class _Matches:
    """Packets that stand in two files each, in order of the first file's packets.

    Attributes:
        one: the file with the lower number.
        other: the other file.
        connection: a number for the two ends in the first file.
        apart_ns: how much later it is in the second file.
    """

    one: NDArray[np.uint16]
    other: NDArray[np.uint16]
    connection: NDArray[np.uint64]
    apart_ns: NDArray[np.int64]


def _match(packets: Packets, rows: NDArray[np.intp], hashed: NDArray[np.uint64]) -> _Matches:
    """Find packets of different files with the same number and one end in common."""
    rows, hashed = _alone(packets, rows, hashed)
    # Each packet twice: as its source alone shows it, and as its destination does.
    seen = np.concatenate([_mixed(hashed, end) for end in _ends(packets, rows)])
    row = np.tile(rows, 2)
    order = np.lexsort((packets.file_no[row], seen))
    seen, row = seen[order], row[order]
    at = np.flatnonzero(_repeats(seen))
    found = np.column_stack((row[at - 1], row[at]))
    order = np.lexsort((found[:, 1], found[:, 0]))
    found = found[order]
    first, second = found[~(_repeats(found[:, 0]) & _repeats(found[:, 1]))].T
    return _Matches(
        one=packets.file_no[first],
        other=packets.file_no[second],
        connection=_connections(packets, first),
        apart_ns=packets.time_ns[second] - packets.time_ns[first],
    )


def _alone(
    packets: Packets, rows: NDArray[np.intp], hashed: NDArray[np.uint64]
) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """Those whose number stands in their file once.

    Of copies between the same ends (a mirror port, all interfaces at once) one counts.
    """
    connection = _connections(packets, rows)
    order = np.lexsort((connection, packets.file_no[rows], hashed))
    rows, hashed, connection = rows[order], hashed[order], connection[order]
    same = _repeats(hashed) & _repeats(packets.file_no[rows])
    copies = same & _repeats(connection)
    group = np.cumsum(~same)
    spoiled = np.zeros(len(rows) + 1, np.bool_)
    spoiled[group[same & ~copies]] = True
    kept = ~copies & ~spoiled[group]
    return rows[kept], hashed[kept]


def _ends(packets: Packets, rows: NDArray[np.intp]) -> list[NDArray[np.uint64]]:
    """Source and destination of packets, address and port in one number each."""
    return [
        (address[rows].astype(np.uint64) << np.uint64(16)) | port[rows]
        for address, port in (
            (packets.source, packets.source_port),
            (packets.destination, packets.destination_port),
        )
    ]


def _connections(packets: Packets, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """A number for the two ends of each packet, the same for both directions."""
    ends = _ends(packets, rows)
    return _mixed(np.minimum(*ends), np.maximum(*ends))


def _repeats(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Which elements are equal to the one before."""
    result = np.zeros(len(values), np.bool_)
    result[1:] = values[1:] == values[:-1]
    return result


def _in_step(connection: NDArray[np.uint64], apart_ns: NDArray[np.int64]) -> bool:
    """Whether one connection after the other is as far from its copy as the one before.

    The clocks of two points may be apart, and drift; but a recording that was played several
    times has its connections here and there.
    """
    _, first = np.unique(connection, return_index=True)
    apart = apart_ns[np.sort(first)]
    near = np.abs(np.diff(apart)) <= STEP_NS
    return not len(near) or float(near.mean()) >= LEAST_IN_STEP


def _mixed(values: NDArray[np.uint64], more: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of two numbers, row by row."""
    result = (values ^ more) * _MULTIPLIERS[0]
    result ^= result >> np.uint64(31)
    result *= _MULTIPLIERS[1]
    return result ^ (result >> np.uint64(29))


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
    mixed = packets.ip_id[rows] | kinds
    for column in (packets.seq, packets.ack, packets.tsval):
        mixed = _mixed(mixed, column[rows].astype(np.uint64))
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
            for word in words.T:
                mixed[some] = _mixed(mixed[some], word)
    return rows, mixed
