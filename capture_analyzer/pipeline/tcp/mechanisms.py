"""How a sender came to send again (table `packets`, column `mechanism`).

======== ==========================================================================
fast     the receiver reported later data (SACK, three duplicate ACKs): RFC 5681,
         section 3.2; RFC 6675; RFC 8985
tlp      the first timer after progress sent the last segment again to provoke such a
         report: the tail loss probe of RFC 8985, section 7. Needs SACK
rto      the retransmission timer (RFC 6298, section 5)
after_rto  what was outstanding when that timer fired, sent again after it
syn      a SYN or SYN-ACK sent again
======== ==========================================================================

Timers and reports are told apart by the reports; the two timers by which segment they send
(a probe sends the last one, the retransmission timer the first) and by their order. A
repeat for which there was a report may still be the timer's: when an earlier repeat of it
was lost too, and it came as late as a timer would.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME, distinct, in_rows
from capture_analyzer.model.packets import HAS_TIMESTAMPS, MECHANISMS, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.tcp.coverage import Coverage
from capture_analyzer.pipeline.tcp.labels import CODE
from capture_analyzer.pipeline.tcp.resends import Resends
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments
from capture_analyzer.pipeline.tcp.selective import Selective

MECHANISM: Final = {name: code for code, name in enumerate(MECHANISMS)}

_LEAST_TIMER_NS: Final = 190_000_000
"""Linux adds at least 200 ms to the round trip in its timer; others more (RFC 6298 says
1 s). A little less, since packets are captured before or after their timers."""

_SHORTEST_TIMER_NS: Final = 5_000_000  # some data centres set theirs this low

_TIMESTAMP_HERTZ: Final = (10, 100, 250, 1000, 1_000_000)  # clocks of known systems
_LEAST_CLOCK_SPAN_NS: Final = 500_000_000  # shorter streams don't show the clock's unit

_ONE_MISSING: Final = 2  # step of the IP identification over one packet that is missing

_DUPLICATE_ACKS: Final = 3  # RFC 5681, section 3.2

_FAST, _TLP, _RTO = MECHANISM["fast"], MECHANISM["tlp"], MECHANISM["rto"]
_AFTER_RTO, _UNKNOWN = MECHANISM["after_rto"], MECHANISM["unknown"]


@quick_dataclass
class _State:
    """What a sender has sent again so far."""

    stream: int
    timer_before: int = -1  # highest byte sent when a timer last fired
    timer_acked: int = -1  # and what was acknowledged
    rto_until: int = -1  # what was outstanding when the retransmission timer fired


def name_mechanisms(
    packets: Packets,
    segments: Segments,
    coverage: Coverage,
    selective: Selective,
    resends: Resends,
    label: NDArray[np.uint8],
    round_trip: Ints,
    with_sack: Bools,
) -> None:
    """Fill ``resends.mechanism``.

    Args:
        packets: the packets.
        segments: a batch.
        coverage: its coverage.
        selective: its selective acknowledgements.
        resends: what was sent again in it.
        label: labels of packets without payload (for duplicate ACKs).
        round_trip: for each stream, smallest round trip of the whole path; NO_TIME unknown.
        with_sack: for each stream: its receiver may send SACK.
    """
    rows = np.flatnonzero(resends.resent)
    if not len(rows):
        return
    columns = _columns(
        packets, segments, coverage, selective, resends, label, round_trip, with_sack, rows
    )
    result: list[int] = []
    state = _State(-1)
    for row in in_rows(*columns):
        (
            of,
            begin_,
            end_,
            before,
            acked,
            again_,
            longest,
            wait,
            trip,
            report,
            sack,
            from_,
            probe_lost,
        ) = row
        if of != state.stream:
            state = _State(of)
        # Both may have been held up on the way: the sender's own clock counts as well.
        late = longest >= trip + _LEAST_TIMER_NS
        if late and report and not again_:
            # Queues may have grown: compare with the round trip at that moment.
            late = wait >= _echoed_rtt(packets, segments, from_) + _LEAST_TIMER_NS
        if begin_ < state.rto_until and not (again_ and late):
            result.append(_AFTER_RTO)
            continue
        if report and not late:
            result.append(_FAST)
            continue
        if longest < max(trip, _SHORTEST_TIMER_NS):
            result.append(_UNKNOWN)  # neither a report nor the time for a timer
            continue
        first = acked > state.timer_acked or before > state.timer_before
        state.timer_acked, state.timer_before = acked, before
        if not report and first and sack and end_ >= before and not probe_lost:
            result.append(_TLP)
            continue
        result.append(_RTO)
        state.rto_until = before
    resends.mechanism[rows] = result


def _columns(
    packets: Packets,
    segments: Segments,
    coverage: Coverage,
    selective: Selective,
    resends: Resends,
    label: NDArray[np.uint8],
    round_trip: Ints,
    with_sack: Bools,
    rows: NDArray[np.intp],
) -> tuple[NDArray[Any], ...]:
    """What is looked at of each repeat (`rows` of `resends`), one column each.

    Args are those of `name_mechanisms`. The columns are, in their order: stream; first byte and
    the one behind the last; what was sent, and acknowledged, before; it repeats what was sent
    again before; how long since the last copy, by the capture's clock or the sender's, and by
    the capture's alone; the round trip, 0 = unknown; the receiver had reported later data; it
    may do so; the element since which the bytes were missing; a probe was lost.
    """
    element = resends.element[rows]
    stream = segments.stream[element]
    end = segments.end[element]
    peer = segments.peer[element]
    reported = _reported(segments, selective, peer, end + stream * SPAN)
    reported |= _duplicate_acks(segments, label, peer) >= _DUPLICATE_ACKS
    # Since when its bytes were missing: their last copy, or what showed the hole.
    gap = resends.gap[rows]
    last = np.maximum(element - 1, segments.starts[stream])
    since = np.where(resends.original[rows] >= 0, resends.original[rows], last)
    since[gap >= 0] = coverage.gap_opener[gap[gap >= 0]]
    del gap, peer  # nearly every packet may be a repeat: columns count
    waited = segments.time[element] - segments.time[since]
    rtt = round_trip[stream]
    stamp = packets.tsval[segments.index[element]]
    streams = distinct(stream)
    units = timestamp_units(packets, segments, streams)[np.searchsorted(streams, stream)]
    begin = segments.begin[element]
    by_clock = (stamp - packets.tsval[segments.index[since]]).view(np.int32) * units
    # Of bytes that were sent again before, since then.
    earlier = _earlier(stream, begin)
    again, stamp = earlier >= 0, stamp.astype(np.int64)
    time = segments.time[element]
    waited = np.where(again, time - time[earlier], waited)
    by_clock = np.where(again, ((stamp - stamp[earlier]) & 0x7FFFFFFF) * units, by_clock)
    del earlier, stamp, time, units
    # A lost tail of which the sender's count misses two packets: the probe was lost as well.
    step = packets.ip_id[segments.index[element]] - packets.ip_id[segments.index[last]]
    longest = np.maximum(waited, by_clock)
    del by_clock, last
    return (
        stream,
        begin,
        end,
        segments.before[element],
        segments.peer_acked(element),
        again,
        longest,
        waited,
        np.where(rtt == NO_TIME, 0, rtt),
        reported,
        with_sack[stream],
        since,
        resends.tail[rows] & (step > _ONE_MISSING),
    )


def _earlier(stream: Ints, begin: Ints) -> Ints:
    """For each repeat the one before it that began with the same byte; -1 = none."""
    result = np.full(len(begin), -1, np.int64)
    order = np.lexsort((begin, stream))  # stable: equal ones stay in order
    same = (stream[order[1:]] == stream[order[:-1]]) & (begin[order[1:]] == begin[order[:-1]])
    result[order[1:][same]] = order[:-1][same]
    return result


def _reported(segments: Segments, selective: Selective, peer: Ints, end: Ints) -> Bools:
    """Whether the receiver had reported data beyond `end` (keys) before each repeat."""
    row = selective.at(peer, segments)
    if not len(selective.element):
        return np.zeros(len(row), np.bool_)
    return (row >= 0) & (selective.highest[row] > end)


def _duplicate_acks(segments: Segments, label: NDArray[np.uint8], peer: Ints) -> NDArray[np.int32]:
    """How many duplicate ACKs the peer has sent since it last acknowledged something new."""
    total = np.cumsum(label == CODE["dup_ack"], dtype=np.int32)
    known, peer = peer >= 0, np.maximum(peer, 0)
    begun = np.searchsorted(segments.ack_top, segments.ack_top[peer])
    since: NDArray[np.int32] = np.where(known, total[peer] - total[begun], 0)
    return since


def timestamp_units(packets: Packets, segments: Segments, stream: Ints) -> Ints:
    """Nanoseconds that one step of the senders' timestamps stands for; 0 = unknown.

    The unit is the sender's choice (RFC 7323, section 5.4): it is taken from how far its
    timestamps moved between the first and the last packet of the stream.
    """
    first = segments.starts[stream]
    last = first + segments.counts[stream] - 1
    ends = segments.index[first], segments.index[last]
    stamped = (packets.options[ends[0]] & packets.options[ends[1]] & HAS_TIMESTAMPS) != 0
    span = segments.time[last] - segments.time[first]
    moved = (packets.tsval[ends[1]] - packets.tsval[ends[0]]).view(np.int32)
    usable = stamped & (span >= _LEAST_CLOCK_SPAN_NS) & (moved > 0)
    hertz = np.where(usable, moved, 0) * 1e9 / np.maximum(span, 1)
    units = np.zeros(len(stream), np.int64)
    for known in _TIMESTAMP_HERTZ:
        units[np.abs(hertz - known) <= 0.15 * known] = 1_000_000_000 // known
    return units


def _echoed_rtt(packets: Packets, segments: Segments, element: int) -> int:
    """Round trip that a packet's timestamp echo shows at its receiver; 0 = unknown."""
    peer = int(segments.peer[element])
    if peer < 0:
        return 0
    start = int(segments.starts[segments.stream[peer]])
    index = segments.index
    sent = packets.tsval[index[start : peer + 1]]
    age = (packets.tsecr[index[element]] - sent).view(np.int32)
    echoed = np.flatnonzero(age >= 0)
    if not len(echoed) or not packets.tsecr[index[element]]:
        return 0
    return int(segments.time[element]) - int(segments.time[start + int(echoed[-1])])
