"""Several captures → one, in time order.

As `mergecap` does it: the next packet is always the one with the earliest time among the
first packets left of all files. So each file keeps its own order, also where its clock went
back, and packets with equal times come in the order of the files. Files are ordered by their
first packets: the names of a ring say little once it has wrapped round.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.errors import OptionError
from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.capture import INDEX, Capture
from capture_analyzer.model.column import NO_TIME, constant, is_constant
from capture_analyzer.model.room import IN_MEMORY, Room
from capture_analyzer.readers.repeats import find_repeats

MAX_INTERFACES: Final = 65_535
"""What the packets table can number."""


def merge(captures: Sequence[Capture], room: Room = IN_MEMORY) -> Capture:
    """Merge captures of one file each.

    Packets that are in several of the files are kept once, which is said.

    Args:
        captures: at least one; their arrays may be changed.
        room: where columns lie.

    Raises:
        OptionError: there are more interfaces than can be numbered.
    """
    captures = sorted(captures, key=_first_time)
    epoch_ns = captures[0].epoch_ns
    keys = [_prepare(capture, number, epoch_ns) for number, capture in enumerate(captures)]
    _renumber_interfaces(captures)
    merged = Capture(
        files=[file for capture in captures for file in capture.files],
        interfaces=[interface for capture in captures for interface in capture.interfaces],
        buffers=[buffer for capture in captures for buffer in capture.buffers],
        epoch_ns=epoch_ns,
        **{name: _joined(captures, name, room) for name in INDEX},
        secrets=[secret for capture in captures for secret in capture.secrets],
        anomalies=[anomaly for capture in captures for anomaly in _named(capture)],
        names={k: name for capture in reversed(captures) for k, name in capture.names.items()},
    )
    if _in_order(keys):
        return merged
    key = np.concatenate(keys)
    order = np.argsort(key, kind="stable")
    _take(merged, order, room)
    repeats = find_repeats(merged, key[order])
    merged.anomalies.extend(repeats.anomalies)
    if repeats.dropped.any():
        _take(merged, np.flatnonzero(~repeats.dropped), room)
        _count_again(merged)
    return merged


def _first_time(capture: Capture) -> tuple[bool, int]:
    """Sorts captures by their first instant; those without any come last."""
    timed = bool((capture.time_ns != NO_TIME).any())
    return not timed, capture.epoch_ns if timed else 0


def _prepare(capture: Capture, number: int, epoch_ns: int) -> NDArray[np.int64]:
    """Count times from `epoch_ns`, number the file; returns what to order packets by."""
    time_ns = capture.time_ns
    timed = time_ns != NO_TIME
    if timed.all():
        time_ns += capture.epoch_ns - epoch_ns
        key = time_ns
    else:
        time_ns[timed] += capture.epoch_ns - epoch_ns
        key = np.where(timed, time_ns, NO_TIME)
        if timed.any():  # a packet without a time stays behind the one before it
            key[: int(np.argmax(timed))] = time_ns[int(np.argmax(timed))]
    capture.file_no = constant(number, len(capture), np.uint16)
    for file in capture.files:
        file.file_no = number
    for interface in capture.interfaces:
        interface.file_no = number
    if (key[1:] >= key[:-1]).all():
        return key
    result: NDArray[np.int64] = np.maximum.accumulate(key)
    return result


def _renumber_interfaces(captures: Sequence[Capture]) -> None:
    first = 0
    for capture in captures:
        for interface in capture.interfaces:
            interface.interface_no += first
        if first + len(capture.interfaces) > MAX_INTERFACES:
            raise OptionError(f"more than {MAX_INTERFACES:,} interfaces in all of the files")
        if is_constant(capture.interface_no):  # a pcap file has one interface
            capture.interface_no = constant(first, len(capture), np.uint16)
        else:
            capture.interface_no += np.uint16(first)
        first += len(capture.interfaces)


def _joined(captures: Sequence[Capture], name: str, room: Room) -> NDArray[Any]:
    """A column of all captures; those of the captures are given up, which saves memory."""
    column = room.joined([getattr(capture, name) for capture in captures])
    if name != "time_ns":  # what packets are ordered by may be this array
        for capture in captures:
            setattr(capture, name, np.empty(0, column.dtype))
    return column


def _named(capture: Capture) -> list[Anomaly]:
    """A capture's anomalies, saying which file they are about."""
    name = capture.files[0].name
    return [
        dataclasses.replace(anomaly, detail=f"{name}: {anomaly.detail}")
        for anomaly in capture.anomalies
    ]


def _in_order(keys: list[NDArray[np.int64]]) -> bool:
    """Whether every file ends before the next one begins."""
    last = None
    for key in keys:
        if not len(key):
            continue
        if last is not None and key[0] < last:
            return False
        last = key[-1]
    return True


def _take(capture: Capture, rows: NDArray[np.intp], room: Room) -> None:
    for name in INDEX:
        column = getattr(capture, name)
        taken = room.zeros(len(rows), column.dtype)
        np.take(column, rows, out=taken)
        setattr(capture, name, taken)


def _count_again(capture: Capture) -> None:
    counts = np.bincount(capture.file_no, minlength=len(capture.files))
    sizes = np.bincount(capture.file_no, capture.original_bytes, len(capture.files))
    for file in capture.files:
        file.packet_count = int(counts[file.file_no])
        file.byte_count = int(sizes[file.file_no])
