"""Round trips measured on data, and the smallest one known at any instant.

A sample is the time from a segment to the acknowledgement that ends exactly at its end. A
segment that was sent again gives none (Karn's algorithm, RFC 6298, section 3): it can't be
told which copy was acknowledged. Samples hold the receiver's delayed acknowledgement, so
only the minimum is a round trip.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.tcp.coverage import Coverage
from capture_analyzer.pipeline.tcp.segments import SPAN, Ints, Segments

LONGEST: Final = 1 << 40  # a sample above this (18 minutes) is no round trip


@quick_dataclass
class Minima:
    """New minima of round-trip samples, by connection and time.

    Each is the round trip between the capture point and one side: the side that acknowledged.
    """

    connection_no: Ints
    time_ns: Ints
    rtt_ns: Ints

    def before(self, connection_nos: Ints, times: Ints) -> Ints:
        """The smallest sample of each connection up to each instant; NO_TIME = none yet."""
        low = np.searchsorted(self.connection_no, connection_nos, "left")
        first = low.copy()
        high = np.searchsorted(self.connection_no, connection_nos, "right")
        # Binary search inside each connection's slice, all questions in step.
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) // 2
            open_ = low < high
            early = open_.copy()
            early[open_] = self.time_ns[middle[open_]] <= times[open_]
            low = np.where(early, middle + 1, low)
            high = np.where(open_ & ~early, middle, high)
        known = low > first
        result = np.full(len(low), NO_TIME)
        result[known] = self.rtt_ns[low[known] - 1]
        return result

    def smallest(self, count: int) -> Ints:
        """Each of `count` connections' smallest sample; NO_TIME = none."""
        result = np.full(count, NO_TIME)
        result[self.connection_no] = self.rtt_ns  # minima descend: the last one stays
        return result


@quick_dataclass
class RoundTrips:
    """Minima of either side."""

    client: Minima
    server: Minima

    def side(self, name: Literal["client", "server"]) -> Minima:
        """Round trips between the capture point and the named side."""
        return self.client if name == "client" else self.server


def answered(segments: Segments) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Segments that an acknowledgement ends at exactly, by that acknowledgement.

    Returns:
        The segments (the first that reached that place), and the elements that acknowledge,
        ascending.
    """
    stream, top = segments.stream, segments.top
    acked = segments.ack_top
    advances = np.empty(len(acked), np.bool_)
    np.greater(acked[1:], acked[:-1], out=advances[1:])
    heads = segments.starts[segments.counts > 0]
    advances[heads] = acked[heads] > stream[heads] * SPAN
    advance = np.flatnonzero(advances)
    key = acked[advance] + (1 - 2 * (stream[advance] & 1)) * SPAN
    # The last packet of the other side mostly is the one; what it did not reach was not seen.
    last = segments.peer[advance]
    seen = np.flatnonzero((last >= 0) & (top[last] >= key))
    advance, key, at = advance[seen], key[seen], last[seen]
    earlier = np.flatnonzero(top[at - 1] >= key)
    earlier = earlier[at[earlier] > 0]
    at[earlier] = np.searchsorted(top, key[earlier])
    usable = (top[at] == key) & segments.carries[at] & (segments.length[at] > 0)
    kept = np.flatnonzero(usable)
    return at[kept], advance[kept]


def sample(segments: Segments, coverage: Coverage) -> tuple[NDArray[np.intp], Ints]:
    """Samples of a batch that are a new minimum of their stream.

    Returns:
        The elements that acknowledge, ascending, and the round trips in ns.
    """
    stream = segments.stream
    at, advance = answered(segments)
    resent = sent_again(segments, coverage)
    if resent is not None:
        once = np.flatnonzero(~resent[at])
        at, advance = at[once], advance[once]
    rtt = segments.time[advance] - segments.time[at]
    usable = np.flatnonzero((rtt >= 0) & (rtt < LONGEST))
    advance, rtt = advance[usable], rtt[usable]
    if not len(advance):
        return advance, rtt
    # One running minimum for all streams: later streams lie below all earlier ones.
    lowest = rtt - stream[advance] * LONGEST
    running = np.minimum.accumulate(lowest)
    new = np.empty(len(lowest), np.bool_)
    new[0] = True
    new[1:] = lowest[1:] < running[:-1]
    return advance[new], rtt[new]


def sent_again(segments: Segments, coverage: Coverage) -> NDArray[np.bool_] | None:
    """Elements some of whose bytes were sent again."""
    below = coverage.below
    if not len(below):
        return None
    floor = segments.stream[below] * SPAN
    begin = np.maximum(segments.begin[below], 0) + floor
    end = np.minimum(segments.end[below], segments.before[below]) + floor
    first = np.searchsorted(segments.top, begin, "right")
    last = np.searchsorted(segments.top, end, "left") + 1
    size = len(segments) + 1
    change = np.bincount(first, minlength=size)
    change -= np.bincount(np.clip(last, first, len(segments)), minlength=size)
    return np.cumsum(change[:-1]) > 0


def collect(connection_no: Ints, time_ns: Ints, rtt_ns: Ints) -> Minima:
    """Sort samples by connection and time and keep the new minima."""
    order = np.lexsort((rtt_ns, time_ns, connection_no))
    connection_no, time_ns, rtt_ns = connection_no[order], time_ns[order], rtt_ns[order]
    if len(order):
        lowest = np.minimum(rtt_ns, LONGEST - 1) - connection_no * LONGEST
        new = np.empty(len(order), np.bool_)
        new[0] = True
        new[1:] = lowest[1:] < np.minimum.accumulate(lowest)[:-1]
        connection_no, time_ns, rtt_ns = connection_no[new], time_ns[new], rtt_ns[new]
    return Minima(connection_no=connection_no, time_ns=time_ns, rtt_ns=rtt_ns)
