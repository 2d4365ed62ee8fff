"""The packets of a batch as their senders saw them.

An acknowledgement that is captured away from the sender reaches it later, and the segment that
it lets go passes the capture point later still: one round trip between the two in all. So what
a sender knew when it sent a segment is what had passed such a round trip before the segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import (
    ACK,
    LABELS,
    MECHANISMS,
    RST,
    SPURIOUS,
    SYN,
    Packets,
)
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.intervals import bisect_right
from capture_analyzer.pipeline.tcp.limits import Path
from capture_analyzer.pipeline.tcp.regroup import regroup
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments, arrange

Elements = NDArray[np.intp]

SLACK_NS: Final = 50_000
"""An acknowledgement counts as heard that reached the sender so much behind the segment, and a
little more on long paths: the error of time stamps and of the smallest round trip."""

_AGAIN: Final = LABELS.index("retransmission")
_PROBE: Final = MECHANISMS.index("tlp")
_NEEDLESS: Final = SPURIOUS.index("true")


@quick_dataclass
class View:
    """A batch.

    Attributes:
        segments: its packets; its connections are numbered anew, from 0.
        numbers: `connection_no` of each.
        path: what is known of its streams.
    """

    segments: Segments
    numbers: NDArray[np.int32]
    path: Path

    def rows_of(self, connection_no: NDArray[np.int32]) -> tuple[Elements, Elements]:
        """Rows of a table, sorted by connection, that belong to the batch.

        Returns:
            Their indices, and the batch's own number of the connection of each.
        """
        low = np.searchsorted(connection_no, self.numbers, "left")
        counts = np.searchsorted(connection_no, self.numbers, "right") - low
        offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(low, counts) + offsets, np.repeat(np.arange(len(counts)), counts)


def views(packets: Packets, path: Path, numbers: NDArray[np.int64] | None = None) -> Iterator[View]:
    """All TCP packets, a batch of whole connections at a time.

    Args:
        packets: with `connection_no` and `from_client`.
        path: of all streams.
        numbers: those of these connections only; None = of all.
    """
    groups = regroup(packets, numbers)
    for first, last in groups.batches():
        segments = arrange(packets, groups.flows, first, last, groups.from_client)
        these = groups.numbers[first:last]
        streams = np.stack((2 * these.astype(np.intp), 2 * these.astype(np.intp) + 1), axis=1)
        streams = streams.ravel()
        own = Path(0, path.mss[streams], path.scale[streams], path.near[streams])
        yield View(segments, these, own)


@quick_dataclass
class Knowledge:
    """What senders knew when they sent some elements.

    Attributes:
        heard: the last packet of the peer that had reached them; -1 = none.
        acked: offset acknowledged by then.
        known: it can be told: the way to the sender was measured.
        window: the receiver's window in bytes; -1 unknown.
    """

    heard: Elements
    acked: Ints
    known: Bools
    window: Ints


def knowledge(view: View, elements: Elements) -> Knowledge:
    """What the senders of some elements knew."""
    segments, path = view.segments, view.path
    mine = segments.stream[elements]
    near = path.near[mine]
    known = near != NO_TIME
    near = np.where(known, near, 0)
    other = mine ^ 1
    low = segments.starts[other]
    wanted = segments.time[elements] - near + SLACK_NS + near // 128
    heard = bisect_right(segments.time, low, low + segments.counts[other], wanted) - 1
    # At the sender itself nothing counts that was captured behind the segment.
    heard = np.where(near < SLACK_NS, np.minimum(heard, segments.peer[elements]), heard)
    some = heard >= low
    at = np.maximum(heard, 0)
    acked = np.where(some, segments.ack_top[at] - other * SPAN, 0)
    scale = path.scale[other]
    shift = np.where((segments.flags[at] & SYN) != 0, 0, np.maximum(scale, 0))
    offers = some & ((segments.flags[at] & (ACK | RST)) == ACK) & (scale >= 0)
    window = np.where(offers, segments.window[at].astype(np.int64) << shift, -1)
    return Knowledge(np.where(some, heard, -1), np.maximum(acked, 0), known, window)


def repeats(packets: Packets, segments: Segments) -> Elements:
    """Elements that were sent again for the network's sake, needless tail loss probes apart."""
    index = segments.index
    again = (packets.label[index] == _AGAIN) & (segments.length > 0)
    again &= ~((packets.mechanism[index] == _PROBE) & (packets.spurious[index] == _NEEDLESS))
    elements: Elements = np.flatnonzero(again)
    return elements
