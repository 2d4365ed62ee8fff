"""Segments sent again, and segments overtaken on the way.

Bytes that the capture saw before were sent again, without doubt. Bytes that fall into a
hole may have been overtaken (reordering) or lost and sent again; what tells is, in this
order: the timestamp and the IP identification that the sender gave the segment, against
those of the segment that opened the hole; and the time since, against the round trip
(a sender can't repair a loss sooner than it can hear of it).

Bytes that no later segment overtook (the tail of a flight) leave no hole. That they were
sent before is inferred: from a packet that is missing, by the sender's count of packets,
when no other packet than data can be missing, and from the pause before the repeat.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import FIN, HAS_TIMESTAMPS, RST, SYN, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.tcp.coverage import Coverage
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments

_NO_ROUND_TRIP_NS: Final = 3_000_000  # stands in where no round trip was measured

_LEAST_TAIL_PAUSE_NS: Final = 10_000_000
"""A tail loss probe waits two round trips (RFC 8985, section 7.2), and timers run in steps
of milliseconds; shorter pauses prove nothing."""

_LINUX_TTL: Final = 64  # initial TTL of Linux and the BSDs; it only falls on the way
_LEAST_STEPS: Final = 3  # by one, before a stream's count is believed to be its own

_COMMON_SEGMENT: Final = 1460  # bytes; more in one captured packet were several on the wire


@quick_dataclass
class Resends:
    """Segments with payload that were sent again or overtaken; keep-alives and probes apart.

    Attributes:
        element: which, ascending.
        gap: the gap each fell into; -1 = all of it had been seen, or it is a tail.
        resent: sent again (else overtaken).
        certain: how sure that is, 0 to 1.
        original: element that sent its first byte before; -1 = the capture has not seen it.
        tail: inferred repeat of a lost tail.
        overtaken: elements that came before their own late originals, which they repeat.
        spurious: index into SPURIOUS.
        mechanism: index into MECHANISMS.
    """

    element: NDArray[np.intp]
    gap: Ints
    resent: Bools
    certain: NDArray[np.float32]
    original: Ints
    tail: Bools
    overtaken: NDArray[np.intp]
    spurious: NDArray[np.uint8]
    mechanism: NDArray[np.uint8]

    @property
    def seen(self) -> Bools:
        """All of its bytes had been seen before."""
        return (self.gap < 0) & ~self.tail


def find_resends(
    packets: Packets,
    segments: Segments,
    coverage: Coverage,
    ignore: NDArray[np.intp],
    sender_rtt: Ints,
) -> Resends:
    """Find what was sent again or overtaken; `spurious` and `mechanism` are left at 0.

    Args:
        packets: the packets.
        segments: a batch.
        coverage: its coverage.
        ignore: elements that are keep-alives or probes.
        sender_rtt: for each stream, round trip between the capture point and its sender;
            NO_TIME unknown.
    """
    keep = ~np.isin(coverage.below, ignore)
    below = coverage.below[keep]
    fresh = (coverage.below_gap[keep] >= 0) & (coverage.below_new[keep] > 0)
    gap = np.where(fresh, coverage.below_gap[keep], -1)
    steps = _identification_steps(segments)
    counted = _counts_up(segments, steps)
    tails = _find_tails(packets, segments, steps, sender_rtt)
    element = np.concatenate((below, tails))
    order = np.argsort(element, kind="stable")
    element = element[order]
    gap = np.concatenate((gap, np.full(len(tails), -1)))[order]
    tail = order >= len(below)
    resent = np.ones(len(element), np.bool_)
    certain = np.where(tail, 0.7, 1.0).astype(np.float32)
    some = np.flatnonzero(gap >= 0)
    if len(some):
        opener = coverage.gap_opener[gap[some]]
        resent[some], certain[some] = _sent_again(
            packets, segments, element[some], opener, counted, sender_rtt
        )
    original = np.full(len(element), -1)
    seen = np.flatnonzero((gap < 0) & ~tail)
    stream = segments.stream[element[seen]]
    begin = np.maximum(segments.begin[element[seen]], 0) + stream * SPAN
    original[seen] = np.searchsorted(segments.top, begin, "right")
    original[seen] = _fillers(segments, element[some], begin, original[seen])
    original[seen[segments.end[element[seen]] <= 0]] = -1  # from before the capture
    late = seen[original[seen] >= 0]
    late = late[_sent_before(packets, segments, element[late], original[late], counted)]
    resent[late], certain[late] = False, 0.98
    return Resends(
        element=element,
        gap=gap,
        resent=resent,
        certain=certain,
        original=original,
        tail=tail,
        overtaken=original[late],
        spurious=np.zeros(len(element), np.uint8),
        mechanism=np.zeros(len(element), np.uint8),
    )


def _fillers(segments: Segments, filler: NDArray[np.intp], begin: Ints, first: Ints) -> Ints:
    """The element that brought each first byte: one that filled a hole, else `first`.

    Args:
        segments: a batch.
        filler: elements that filled holes, ascending.
        begin: keys of first bytes.
        first: the element behind which all bytes up to `begin` had been sent.
    """
    if not len(filler):
        return first
    keys = segments.begin[filler] + segments.stream[filler] * SPAN
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], begin), len(filler) - 1)
    same = keys[order][at] == begin
    return np.where(same, filler[order][at], first)


def _sent_before(
    packets: Packets,
    segments: Segments,
    element: NDArray[np.intp],
    copy: NDArray[np.intp],
    counted: Bools,
) -> Bools:
    """Were these sent before a copy of their bytes that came first: late originals?

    By the sender's own marks only: an earlier timestamp or IP identification.
    """
    mine, other = segments.index[element], segments.index[copy]
    stamped = (packets.options[mine] & packets.options[other] & HAS_TIMESTAMPS) != 0
    stamps = np.where(stamped, (packets.tsval[mine] - packets.tsval[other]).view(np.int32), 0)
    ids = (packets.ip_id[mine] - packets.ip_id[other]).view(np.int16)
    ids = np.where(counted[segments.stream[element]], ids, 0)
    before: Bools = (stamps < 0) | ((stamps == 0) & (ids < 0))
    return before


def _sent_again(
    packets: Packets,
    segments: Segments,
    element: NDArray[np.intp],
    opener: NDArray[np.intp],
    counted: Bools,
    sender_rtt: Ints,
) -> tuple[Bools, NDArray[np.float32]]:
    """Were these, that fell into a hole, sent after the segment that opened it?"""
    mine, other = segments.index[element], segments.index[opener]
    waited = segments.time[element] - segments.time[opener]
    round_trip = sender_rtt[segments.stream[element]]
    known = round_trip != NO_TIME
    round_trip = np.where(known, round_trip, _NO_ROUND_TRIP_NS)
    resent = waited >= round_trip * 9 // 10
    certain = np.where(known, 0.8, 0.6).astype(np.float32)

    stamps = (packets.tsval[mine] - packets.tsval[other]).view(np.int32)
    stamped = (packets.options[mine] & packets.options[other] & HAS_TIMESTAMPS) != 0
    stamps[~stamped] = 0
    ids = (packets.ip_id[mine] - packets.ip_id[other]).view(np.int16)
    ids[~counted[segments.stream[element]]] = 0
    later = (stamps > 0) | ((stamps == 0) & (ids > 0))
    earlier = (stamps < 0) | ((stamps == 0) & (ids < 0))
    resent[later], resent[earlier] = True, False
    certain[later | earlier] = 0.98
    return resent, certain


def _identification_steps(segments: Segments) -> NDArray[np.uint16]:
    """Step of the IP identification from the sender's packet before; 0 at its first."""
    ids = segments.ip_id
    steps = np.zeros(len(ids), np.uint16)
    steps[1:] = ids[1:] - ids[:-1]
    some = segments.starts[segments.counts > 0]
    steps[some] = 0
    return steps


def _counts_up(segments: Segments, steps: NDArray[np.uint16]) -> Bools:
    """For each stream: its sender counts the IP identification up by packet.

    Hosts may also send zeros or random numbers (RFC 6864). Counted up means that nearly
    all steps from one packet to the next are small and positive.
    """
    small = (steps > 0) & (steps < 256)
    total = np.concatenate(([0], np.cumsum(small.astype(np.int64))))
    good = total[segments.starts + segments.counts] - total[segments.starts]
    nearly_all: Bools = good * 10 >= (segments.counts - 1) * 8
    return nearly_all


def _find_tails(
    packets: Packets,
    segments: Segments,
    steps: NDArray[np.uint16],
    sender_rtt: Ints,
) -> NDArray[np.intp]:
    """Segments that bring the next bytes, but not for the first time.

    One or two packets of the sender are missing right before, by its count; the last that
    came had acknowledged all that was sent to it, so that no acknowledgement can be among
    the missing; and the sender paused for at least two round trips.

    The count must be the connection's own, as on Linux: one a packet. Systems that share a
    counter between connections miss numbers whenever they pause; what tells them is their
    initial TTL of 128 or 255, and that it happens at most pauses.
    """
    missing: NDArray[np.intp] = np.flatnonzero((steps == 2) | (steps == 3))
    stream = segments.stream[missing]
    use = (segments.begin[missing] == segments.before[missing]) & segments.carries[missing]
    use &= (segments.length[missing] > 0) & (sender_rtt[stream] != NO_TIME)
    use &= packets.ttl[segments.index[missing]] <= _LINUX_TTL
    missing = missing[use]
    if not len(missing):
        return missing
    stream, last = segments.stream[missing], missing - 1
    use = segments.time[missing] - segments.time[last] >= _least_pause(sender_rtt, stream)
    # Several segments in one packet (offload) take several identifications.
    use &= segments.length[last] <= _COMMON_SEGMENT
    use &= (segments.flags[last] & (SYN | FIN | RST)) == 0
    # Nothing was owed: neither before the last packet that came, nor since.
    peer = segments.peer[missing]
    told = segments.top[np.maximum(peer, 0)] - (stream ^ 1) * SPAN
    use &= (peer < 0) | (segments.acked[last] >= told)
    missing = missing[use]
    if not len(missing):
        return missing

    streams = len(segments.counts)
    ones = np.flatnonzero(steps == 1)
    by_one = np.bincount(segments.stream[ones], minlength=streams)
    copied = np.bincount(segments.stream[segments.copies], minlength=streams)
    others = segments.counts - 1 - by_one - copied
    own = (by_one >= _LEAST_STEPS) & (others <= 2 + segments.counts // 10)
    of_one = segments.stream[ones]
    paused = segments.time[ones] - segments.time[ones - 1] >= _least_pause(sender_rtt, of_one)
    paused &= sender_rtt[of_one] != NO_TIME
    clean = np.bincount(of_one[paused], minlength=streams)
    doubtful = np.bincount(segments.stream[missing], minlength=streams)
    own &= doubtful <= clean + 1
    tails: NDArray[np.intp] = missing[own[segments.stream[missing]]]
    return tails


def _least_pause(sender_rtt: Ints, stream: Ints) -> Ints:
    """Two round trips, less a little for the time stamps' own error."""
    pause: Ints = np.maximum(sender_rtt[stream] * 19 // 10, _LEAST_TAIL_PAUSE_NS)
    return pause
