"""Steps of the capturing host's clock (anomaly `clock-step`).

Two kinds of evidence:

* the time stamps of the file run backwards, and stay behind: packets that a capture takes from
  several queues can be out of order, but then later ones are in place again;
* the timestamps that a host near the capture point writes into its segments (RFC 7323) run
  evenly, at a rate that is known. Where the difference between them and the time of capture
  jumps, for good, the one clock moved against the other. A host writes them from a clock that
  is not set (RFC 7323, section 5.4), so it is the capture's that moved.
"""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.packets import HAS_TIMESTAMPS, LABELS, SYN, Packets
from capture_analyzer.model.room import stretches

LEAST_BACK_NS: Final = 1_000_000
"""Less than this backwards is the order of queues."""

LEAST_STEP_NS: Final = 10_000_000
"""Timestamps move in steps of 1 to 10 ms, and a busy host sends some ms late."""

_AROUND: Final = 8  # packets on either side of a step that must agree

MAX_CONNECTIONS: Final = 64
"""Connections whose timestamps are looked at: a step shows on all that are open."""

MAX_STEPS: Final = 100  # reported one by one; more are no steps but a clock that is no clock

_SAME_NS: Final = 1_000_000_000  # steps on several connections within this are one

_HERTZ: Final = (10, 100, 250, 1000, 1_000_000)  # timestamp clocks of known systems
_DUPLICATE: Final = LABELS.index("capture_duplicate")

_LEAST_SPAN_NS: Final = 500_000_000  # shorter connections don't show the rate


def find_clock_steps(packets: Packets, connections: list[Connection]) -> list[Anomaly]:
    """The steps of a capture's clock, in order of time."""
    steps = _backwards(packets)
    for connection in _longest(connections):
        steps += _against_timestamps(packets, connection)
    steps.sort()
    anomalies: list[Anomaly] = []
    last = None
    for packet_no, step in steps:
        time = int(packets.time_ns[packet_no - 1])
        if last is not None and abs(time - last) <= _SAME_NS + abs(step):
            continue
        last = time
        way = "back" if step < 0 else "ahead"
        anomalies.append(
            Anomaly(
                "clock-step",
                "capture",
                f"the capture's clock was set {way} by {abs(step) / 1e6:,.0f} ms",
                packet_no=packet_no,
            )
        )
        if len(anomalies) >= MAX_STEPS:
            break
    return anomalies


def _backwards(packets: Packets) -> list[tuple[int, int]]:
    """(packet_no, step) where time stamps run backwards for good."""
    time = packets.time_ns
    index: NDArray[np.intp] | range = range(len(time))
    if any(bool((time[part] == NO_TIME).any()) for part in stretches(len(time))):
        index = np.flatnonzero(time != NO_TIME)
        time = time[index]
    backs = [
        part.start + np.flatnonzero(np.diff(time[part.start : part.stop + 1]) < -LEAST_BACK_NS)
        for part in stretches(len(time))
    ]
    found = np.concatenate(backs) + 1 if backs else np.empty(0, np.int64)
    steps = []
    for at in found[:MAX_STEPS].tolist():
        behind = time[at : at + _AROUND]
        before = int(time[max(at - _AROUND, 0) : at].max())
        # At the very end only a step that is no order of queues.
        least = LEAST_BACK_NS if len(behind) >= _AROUND // 2 else _SAME_NS
        if int(behind.max()) < before - least:
            steps.append((int(index[at]) + 1, int(time[at]) - int(time[at - 1])))
    return steps


def _longest(connections: list[Connection]) -> list[Connection]:
    """The connections that last longest and have a side near the capture point."""
    near = [
        connection
        for connection in connections
        if connection.vantage_side in ("client", "server")
        and connection.vantage_confidence >= 0.7
        and connection.packet_count > 2 * _AROUND
    ]
    near.sort(key=lambda row: (row.start_ns - row.end_ns, row.connection_no))
    return near[:MAX_CONNECTIONS]


def _against_timestamps(packets: Packets, connection: Connection) -> list[tuple[int, int]]:
    """(packet_no, step) where capture time and the near host's timestamps part."""
    first, last = connection.first_packet_no - 1, connection.last_packet_no
    side = 1 if connection.vantage_side == "client" else 0
    mine = first + np.flatnonzero(
        (packets.connection_no[first:last] == connection.connection_no)
        & (packets.from_client[first:last] == side)
        & ((packets.options[first:last] & HAS_TIMESTAMPS) != 0)
        & ((packets.flags[first:last] & SYN) == 0)
        & (packets.label[first:last] != _DUPLICATE)
        & (packets.time_ns[first:last] != NO_TIME)
    )
    if len(mine) < 2 * _AROUND:
        return []
    time = packets.time_ns[mine]
    stamps = (packets.tsval[mine] - packets.tsval[mine[0]]).view(np.int32).astype(np.int64)
    unit = _unit(time, stamps)
    if unit is None:
        return []
    apart = time - stamps * unit
    # Element i covers the packets i to i + _AROUND - 1, element i + _AROUND those behind them.
    highest, lowest = _window(apart, np.maximum), _window(apart, np.minimum)
    noise = max(LEAST_STEP_NS, 3 * unit)
    ahead = lowest[_AROUND:] - highest[:-_AROUND]
    back = highest[_AROUND:] - lowest[:-_AROUND]
    steps = []
    for at in np.flatnonzero((ahead > noise) | (back < -noise)).tolist():
        where = at + _AROUND
        step = int(np.median(apart[where : where + _AROUND]) - np.median(apart[at:where]))
        steps.append((int(mine[where]) + 1, step))
    # Around a step several places pass the test; the first of them is taken.
    return steps[:1] + [b for a, b in itertools.pairwise(steps) if b[0] - a[0] > 4 * _AROUND]


def _unit(time: NDArray[np.int64], stamps: NDArray[np.int64]) -> int | None:
    """Nanoseconds that a step of the timestamps stands for; None if unknown.

    The rate is the median one between packets that are far enough apart, so that a step of a
    clock in between does not matter.
    """
    lag = max(len(time) // 4, 1)
    spans, moved = time[lag:] - time[:-lag], stamps[lag:] - stamps[:-lag]
    usable = (spans >= _LEAST_SPAN_NS // 4) & (moved > 0)
    if not usable.any() or int(time[-1] - time[0]) < _LEAST_SPAN_NS:
        return None
    hertz = float(np.median(moved[usable] * 1e9 / spans[usable]))
    for known in _HERTZ:
        if abs(hertz - known) <= 0.1 * known:
            return 1_000_000_000 // known
    return None


def _window(values: NDArray[np.int64], reduce: np.ufunc) -> NDArray[np.int64]:
    """The extreme of each run of `_AROUND` neighbours."""
    result = values
    step = 1
    while step < _AROUND:  # _AROUND is a power of two
        result = reduce(result[:-step], result[step:])
        step *= 2
    return result
