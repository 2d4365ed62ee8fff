"""Segments below what was sent already: sent again, or overtaken on the way.

Bytes that the capture saw before were sent again, without doubt. Bytes that fall into a
hole may have been overtaken (reordering) or lost and sent again; what tells is, in this
order: the timestamp and the IP identification that the sender gave the segment, against
those of the segment that opened the hole; and the time since, against the round trip
(a sender can't repair a loss sooner than it can hear of it).
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import HAS_TIMESTAMPS, MECHANISMS, SPURIOUS, Packets
from capture_analyzer.pipeline.tcp.coverage import Coverage
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments

MECHANISM: Final = {name: code for code, name in enumerate(MECHANISMS)}
VERDICT: Final = {name: code for code, name in enumerate(SPURIOUS)}

_NO_ROUND_TRIP_NS: Final = 3_000_000  # stands in where no round trip was measured


@dataclasses.dataclass(slots=True)
class Resends:
    """Elements with payload below what was sent before, keep-alives and probes apart.

    Attributes:
        element: which, ascending.
        gap: the first gap each fell into; -1 = all of it had been seen.
        resent: sent again (else overtaken).
        certain: how sure that is, 0 to 1.
        original: element that sent its first byte before; -1 = the capture has not seen it.
        spurious: index into SPURIOUS.
        mechanism: index into MECHANISMS.
    """

    element: NDArray[np.intp]
    gap: Ints
    resent: Bools
    certain: NDArray[np.float32]
    original: Ints
    spurious: NDArray[np.uint8]
    mechanism: NDArray[np.uint8]


def find_resends(
    packets: Packets,
    segments: Segments,
    coverage: Coverage,
    ignore: NDArray[np.intp],
    sender_rtt: Ints,
    at_receiver: Bools,
) -> Resends:
    """Judge the segments below what was sent already.

    Args:
        packets: the packets.
        segments: a batch.
        coverage: its coverage.
        ignore: elements that are keep-alives or probes.
        sender_rtt: for each stream, round trip between the capture point and its sender;
            NO_TIME unknown.
        at_receiver: for each stream: captured at its receiver.
    """
    keep = ~np.isin(coverage.below, ignore)
    element = coverage.below[keep]
    gap = coverage.below_gap[keep]
    brought = coverage.below_new[keep]
    stream = segments.stream[element]
    fresh = (gap >= 0) & (brought > 0)
    resent = np.ones(len(element), np.bool_)
    certain = np.ones(len(element), np.float32)
    some = np.flatnonzero(fresh)
    if len(some):
        resent[some], certain[some] = _sent_again(
            packets, segments, element[some], coverage.gap_opener[gap[some]], sender_rtt
        )
    original = np.full(len(element), -1)
    seen = np.flatnonzero(~fresh)
    begin = np.maximum(segments.begin[element[seen]], 0) + stream[seen] * SPAN
    original[seen] = np.searchsorted(segments.top, begin, "right")
    original[seen[segments.end[element[seen]] <= 0]] = -1  # from before the capture

    spurious = np.zeros(len(element), np.uint8)
    acked = segments.peer_acked(element) >= segments.end[element]
    spurious[resent & fresh] = VERDICT["false"]
    spurious[resent & ~fresh & (acked | at_receiver[stream])] = VERDICT["true"]
    mechanism = np.where(resent, MECHANISM["unknown"], 0).astype(np.uint8)
    return Resends(
        element=element,
        gap=np.where(fresh, gap, -1),
        resent=resent,
        certain=certain,
        original=original,
        spurious=spurious,
        mechanism=mechanism,
    )


def _sent_again(
    packets: Packets,
    segments: Segments,
    element: NDArray[np.intp],
    opener: NDArray[np.intp],
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
    later, earlier = stamped & (stamps > 0), stamped & (stamps < 0)
    ids = (packets.ip_id[mine] - packets.ip_id[other]).view(np.int16)
    counted = _counts_up(packets, segments)[segments.stream[element]]
    later |= ~earlier & counted & (ids > 0) & (stamps == 0)
    earlier |= ~later & counted & (ids < 0) & (stamps == 0)
    resent[later], resent[earlier] = True, False
    certain[later | earlier] = 0.98
    return resent, certain


def _counts_up(packets: Packets, segments: Segments) -> Bools:
    """For each stream: its sender counts the IP identification up by packet.

    Hosts may also send zeros or random numbers (RFC 6864). Counted up means that nearly
    all steps from one packet to the next are small and positive.
    """
    ids = packets.ip_id[segments.index]
    step = np.zeros(len(ids), np.uint16)
    step[1:] = ids[1:] - ids[:-1]
    small = ((step > 0) & (step < 256)).astype(np.int64)
    same = np.zeros(len(ids), np.bool_)
    same[1:] = segments.stream[1:] == segments.stream[:-1]
    streams = len(segments.counts)
    good = np.bincount(segments.stream[same], small[same], minlength=streams)
    return good * 10 >= (segments.counts - 1) * 8
