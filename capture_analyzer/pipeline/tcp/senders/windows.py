"""In flight, offered window and congestion window at each segment (table `windows`).

The congestion window is the sender's own secret. What can be seen is that it was at least as
large as what was in flight, since it last became smaller: on a loss (RFC 5681, section 3.1;
RFC 6675, section 5), or after an idle time (RFC 5681, section 4.1).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME, concatenate
from capture_analyzer.model.packets import Packets
from capture_analyzer.model.windows import UNKNOWN_BYTES, Windows
from capture_analyzer.pipeline.tcp.limits import Path
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments
from capture_analyzer.pipeline.tcp.senders.view import Elements, View, knowledge, repeats, views

IDLE_NS: Final = 200_000_000
"""What a retransmission timer has above two round trips at least (Linux): a sender that was
silent for so long starts over."""

_ROOM: Final = 1 << 36  # for what can be in flight: the largest window is 2^30 (RFC 7323)


def add_windows(
    table: Windows, packets: Packets, path: Path, numbers: NDArray[np.int64] | None = None
) -> None:
    """Fill the table.

    Args:
        table: an empty one.
        packets: with labels and mechanisms.
        path: what is known of all streams.
        numbers: of these connections; None = of all.
    """
    parts = [_batch(packets, view) for view in views(packets, path, numbers)]
    table.take(concatenate(Windows, parts))


def _batch(packets: Packets, view: View) -> Windows:
    segments = view.segments
    elements = np.flatnonzero(segments.carries & (segments.length > 0))
    told = knowledge(view, elements)
    stream = segments.stream[elements]
    sent = np.maximum(segments.top[elements] - stream * SPAN, 0)
    in_flight = np.where(told.known, np.maximum(sent - told.acked, 0), UNKNOWN_BYTES)
    again = np.zeros(len(segments), np.bool_)
    again[repeats(packets, segments)] = True
    repairing = _repairing(segments, elements, again[elements], told.acked)
    unknown = ~told.known | repairing
    congestion = _most_since(
        np.where(unknown, 0, in_flight),
        _epochs(view, elements, repairing),
    )
    order = np.lexsort((segments.index[elements], stream // 2))
    elements, stream = elements[order], stream[order]
    return Windows(
        connection_no=view.numbers[stream // 2],
        from_client=stream % 2 == 0,
        time_ns=segments.time[elements],
        packet_no=(segments.index[elements] + 1).astype(np.int32),
        in_flight_bytes=in_flight[order],
        window_bytes=np.where(told.known, told.window, UNKNOWN_BYTES)[order],
        congestion_window_bytes=np.where(unknown, UNKNOWN_BYTES, congestion)[order],
    )


def _repairing(segments: Segments, elements: Elements, again: Bools, acked: Ints) -> Bools:
    """Which elements were sent while a loss was being repaired.

    A repair lasts until all is acknowledged that had been sent when it began (RFC 6675, section
    5: the recovery point).
    """
    stream = segments.stream[elements]
    point = np.where(again, segments.before[elements], 0) + stream * SPAN
    latest = np.maximum.accumulate(np.maximum(point, stream * SPAN)) if len(point) else point
    repairing: Bools = again | (acked < latest - stream * SPAN)
    return repairing


def _epochs(view: View, elements: Elements, repairing: Bools) -> Ints:
    """A number for each element that grows where its sender's window may have become smaller."""
    if not len(elements):
        return np.empty(0, np.int64)
    segments = view.segments
    stream, time = segments.stream[elements], segments.time[elements]
    whole = view.path.whole[stream]
    patience = 2 * np.where(whole == NO_TIME, 0, whole) + IDLE_NS
    new = np.ones(len(elements), np.bool_)
    new[1:] = (stream[1:] != stream[:-1]) | repairing[:-1]
    new[1:] |= time[1:] - time[:-1] > patience[1:]
    epochs: Ints = np.cumsum(new)
    return epochs


def _most_since(values: Ints, epochs: Ints) -> Ints:
    """The running maximum of values, begun anew with each epoch."""
    if not len(values):
        return values
    most: Ints = np.maximum.accumulate(np.minimum(values, _ROOM - 1) + epochs * _ROOM)
    return most - epochs * _ROOM
