"""Packets that several of the files given together hold: copies of files, overlapping rings.

Such packets have the same time stamp, to the last digit, and the same bytes. (A packet that
was captured at two points has different times; that is noticed elsewhere.)
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.capture import Capture
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.wire.windows import Windows

COMPARED_BYTES: Final = 96
"""Of each packet: all headers up to TCP's numbers."""

_AT_ONCE: Final = 1 << 17  # packets whose bytes are held at a time

_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio


@quick_dataclass
class Repeats:
    """What was found.

    Attributes:
        dropped: by packet, whether an earlier file holds it as well.
        anomalies: one for each file that holds such packets.
    """

    dropped: NDArray[np.bool_]
    anomalies: list[Anomaly] = dataclasses.field(default_factory=list)


def find_repeats(capture: Capture, key: NDArray[np.int64]) -> Repeats:
    """Find packets that more than one file holds.

    Args:
        capture: in merged order.
        key: what its packets are ordered by: ascending.
    """
    repeats = Repeats(np.zeros(len(capture), np.bool_))
    rows = _candidates(capture.file_no, key)
    if not len(rows):
        return repeats
    words = _fingerprints(capture, rows)
    columns = (
        capture.time_ns[rows],
        capture.captured_bytes[rows],
        capture.original_bytes[rows],
        words,
    )
    order = np.lexsort((capture.file_no[rows], *columns))
    rows = rows[order]
    new = np.ones(len(rows), np.bool_)
    new[1:] = False
    for column in columns:
        new[1:] |= column[order][1:] != column[order][:-1]
    group = np.cumsum(new)
    # A file can hold a packet several times: its n-th copy is that of the other file's n-th.
    part = new.copy()
    part[1:] |= capture.file_no[rows][1:] != capture.file_no[rows][:-1]
    starts = np.flatnonzero(part)
    rank = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
    again = np.lexsort((capture.file_no[rows], rank, group))
    pairs = (group[again][1:] == group[again][:-1]) & (rank[again][1:] == rank[again][:-1])
    later = rows[again[1:][pairs]]
    earlier = rows[again[:-1][pairs]]
    equal = _equal(capture, later, earlier)
    later, earlier = later[equal], earlier[equal]
    repeats.dropped[later] = True
    repeats.anomalies = _describe(capture, later, earlier)
    return repeats


def _candidates(file_no: NDArray[np.uint16], key: NDArray[np.int64]) -> NDArray[np.intp]:
    """Packets for which another file has one of the same time."""
    same = key[1:] == key[:-1]
    across = same & (file_no[1:] != file_no[:-1])
    if not across.any():
        return np.empty(0, np.intp)
    run = np.concatenate(([0], np.cumsum(~same)))
    wanted = np.zeros(int(run[-1]) + 1, np.bool_)
    wanted[run[1:][across]] = True
    return np.flatnonzero(wanted[run])


def _windows(capture: Capture, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """The first bytes of some packets, zero behind what was captured."""
    result = np.zeros((len(rows), COMPARED_BYTES), np.uint8)
    file_no = capture.file_no[rows]
    for number in np.unique(file_no).tolist():
        mine = np.flatnonzero(file_no == number)
        offsets = capture.data_offset[rows[mine]]
        result[mine] = Windows(capture.buffers[number]).at(offsets, COMPARED_BYTES)
    behind = np.arange(COMPARED_BYTES) >= capture.captured_bytes[rows][:, np.newaxis]
    result[behind] = 0
    return result.view(np.uint64)


def _fingerprints(capture: Capture, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """A number for the first bytes of each packet."""
    result = np.zeros(len(rows), np.uint64)
    for start in range(0, len(rows), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        mixed = np.zeros(len(rows[part]), np.uint64)
        for word in _windows(capture, rows[part]).T:
            mixed = (mixed ^ word) * _MULTIPLIER
            mixed ^= mixed >> np.uint64(32)
        result[part] = mixed
    return result


def _equal(capture: Capture, some: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether packets have the same first bytes, pair by pair."""
    result = np.zeros(len(some), np.bool_)
    for start in range(0, len(some), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        left, right = _windows(capture, some[part]), _windows(capture, others[part])
        result[part] = (left == right).all(axis=1)
    return result


def _describe(
    capture: Capture, later: NDArray[np.intp], earlier: NDArray[np.intp]
) -> list[Anomaly]:
    result = []
    file_no, other_no = capture.file_no[later], capture.file_no[earlier]
    for number in np.unique(file_no).tolist():
        mine = file_no == number
        name, count = capture.files[number].name, int(mine.sum())
        others = [capture.files[other].name for other in np.unique(other_no[mine]).tolist()]
        where = others[0] if len(others) == 1 else f"{len(others)} other files"
        if count == capture.files[number].packet_count:
            detail = f"{name} holds nothing but packets that are in {where} as well; read once"
            code = "file-repeated"
        else:
            detail = f"{count:,} packets of {name} are in {where} as well; read once"
            code = "packets-repeated"
        result.append(Anomaly(code, "capture", detail))
    return result
