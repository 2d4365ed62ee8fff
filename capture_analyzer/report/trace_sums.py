"""The figures of one direction of a connection, made from all of its packets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import rows_equal
from capture_analyzer.model.holes import HOLE_KINDS
from capture_analyzer.model.packets import LABELS, SPURIOUS
from capture_analyzer.model.rtt_samples import RttSamples
from capture_analyzer.model.sender_limits import SenderLimits
from capture_analyzer.model.tcp_segments import TcpSegments

_AGAIN = LABELS.index("retransmission")
_COPY = LABELS.index("capture_duplicate")
_NEEDLESS = SPURIOUS.index("true")


def sums(
    tables: Tables,
    segments: TcpSegments,
    samples: RttSamples,
    limits: SenderLimits,
    number: int,
    way: bool,
    unit: int,
) -> dict[str, Any]:
    """Sums of the data that the client (`way` True) or the server sent.

    `again` holds [mechanism code, segments, how many of them were needless]; `held` [limit
    code, how often, for how long, the longest], `limited` [sender limit code, for how long, the
    longest] of all its time; `trips` count, smallest, median and largest
    round trip between the capture point and the receiver, or None; `window` the smallest and
    largest window that the receiver offered, or None where it is not known; `flight` the most
    in flight, as seen at the capture point; `missing` the holes by kind, as counts.
    """
    packets = tables.packets
    rows = segments.rows_of(number)
    index = segments.packet_no[rows].astype(np.intp) - 1
    own = (segments.from_client[rows] == way) & (packets.label[index] != _COPY)
    mine = index[own]
    data = mine[packets.payload_bytes[mine] > 0]
    flight = (segments.sent[rows] - segments.peer_acked[rows])[own]
    return {
        "bytes": _bytes(tables, segments, rows, own),
        "segments": len(data),
        "flight": int(flight.max(initial=0)),
        "window": _window(segments, rows, way),
        "again": _again(tables, mine),
        "held": _held(tables, number, way, unit),
        "limited": _limited(limits, number, way, unit),
        "missing": _missing(tables, number, way),
        "trips": _trips(samples, number, way, unit),
    }


def _bytes(tables: Tables, segments: TcpSegments, rows: slice, own: NDArray[np.bool_]) -> int:
    """Behind the last byte sent; a FIN is none."""
    payload = tables.packets.payload_bytes[segments.packet_no[rows] - 1].astype(np.int64)
    data = own & (payload > 0)
    ends = (segments.offset[rows] + payload)[data]
    return int(np.minimum(ends, segments.sent[rows][data]).max(initial=0))


def _window(segments: TcpSegments, rows: slice, way: bool) -> list[int] | None:
    """What the other side offered, once data could flow."""
    offers = (segments.from_client[rows] != way) & (segments.window_bytes[rows] >= 0)
    windows = segments.window_bytes[rows][offers]
    return [int(windows.min()), int(windows.max())] if len(windows) else None


def _again(tables: Tables, mine: NDArray[np.intp]) -> list[list[int]]:
    packets = tables.packets
    again = mine[(packets.label[mine] == _AGAIN) | (packets.mechanism[mine] > 0)]
    codes = packets.mechanism[again]
    needless = packets.spurious[again] == _NEEDLESS
    return [
        [code, int(np.count_nonzero(codes == code)), int(np.count_nonzero(needless[codes == code]))]
        for code in np.unique(codes).tolist()
    ]


def _held(tables: Tables, number: int, way: bool, unit: int) -> list[list[int]]:
    limits = tables.limits
    rows = rows_equal(limits.connection_no, number)
    mine = np.flatnonzero(limits.from_client[rows] == way) + rows.start
    lasted = limits.to_ns[mine] - limits.from_ns[mine]
    result = []
    for code in np.unique(limits.kind[mine]).tolist():
        those = lasted[limits.kind[mine] == code]
        result.append([code, len(those), int(those.sum()) // unit, int(those.max()) // unit])
    return result


def _limited(limits: SenderLimits, number: int, way: bool, unit: int) -> list[list[int]]:
    rows = limits.rows_of(number)
    mine = np.flatnonzero(limits.from_client[rows] == way) + rows.start
    length = limits.to_ns[mine] - limits.from_ns[mine]
    result = []
    for code in np.unique(limits.limit[mine]).tolist():
        those = length[limits.limit[mine] == code]
        result.append([code, int(those.sum()) // unit, int(those.max()) // unit])
    return result


def _missing(tables: Tables, number: int, way: bool) -> list[int]:
    holes = tables.holes
    rows = rows_equal(holes.connection_no, number)
    kinds = holes.kind[rows][holes.from_client[rows] == way]
    return np.bincount(kinds, minlength=len(HOLE_KINDS)).tolist()  # type: ignore[no-any-return]


def _trips(samples: RttSamples, number: int, way: bool, unit: int) -> list[int] | None:
    rows = samples.rows_of(number)
    trips = np.sort(samples.rtt_ns[rows][samples.from_client[rows] == way])
    if not len(trips):
        return None
    return [len(trips), *(int(trips[at]) // unit for at in (0, (len(trips) - 1) // 2, -1))]
