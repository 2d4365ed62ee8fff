"""Did the receiver already have what was sent again (table `packets`, column `spurious`)?

Captured at the receiver it is seen. Elsewhere the receiver says so: by acknowledging the
bytes before (cumulatively or selectively), by reporting them as received twice (D-SACK,
RFC 2883), or by which copy its first covering acknowledgement echoes (the Eifel detection
algorithm, RFC 3522; without timestamps, by coming sooner than the repeat can have caused
it). It also says the opposite: an acknowledgement that only the repeat can have caused.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.packets import HAS_TIMESTAMPS, SPURIOUS, Packets
from capture_analyzer.pipeline.tcp.resends import Resends
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments
from capture_analyzer.pipeline.tcp.selective import Selective, covered

VERDICT: Final = {name: code for code, name in enumerate(SPURIOUS)}

_SLACK_NS: Final = 50_000_000  # an acknowledgement may be delayed: 40 ms on Linux

_MAX_REPORTS: Final = 8  # D-SACK reports looked at for one repeat; more say nothing new


def judge(
    packets: Packets,
    segments: Segments,
    selective: Selective,
    resends: Resends,
    receiver_rtt: Ints,
    at_receiver: Bools,
    with_sack: Bools,
) -> None:
    """Fill ``resends.spurious``.

    Args:
        packets: the packets.
        segments: a batch.
        selective: its selective acknowledgements.
        resends: what was sent again in it.
        receiver_rtt: for each stream, smallest round trip between the capture point and its
            receiver; NO_TIME unknown.
        at_receiver: for each stream: captured at its receiver.
        with_sack: for each stream: its receiver may send SACK.
    """
    verdict = resends.spurious
    # First seen now: an earlier copy was lost before the capture point.
    verdict[resends.resent & ~resends.seen] = VERDICT["false"]
    # Its original was only late: it came behind it.
    verdict[resends.resent & np.isin(resends.element, resends.overtaken)] = VERDICT["true"]
    rows = np.flatnonzero(resends.resent & resends.seen)
    if not len(rows):
        return
    element = resends.element[rows]
    stream = segments.stream[element]
    begin = np.maximum(segments.begin[element], 0) + stream * SPAN
    end = np.maximum(segments.end[element], 0) + stream * SPAN
    peer = segments.peer[element]
    had = at_receiver[stream] | (segments.peer_acked(element) >= segments.end[element])
    had |= covered(selective, selective.at(peer, segments), begin, end)

    # The first acknowledgement that covers it.
    answer_stream = stream ^ 1
    answer = np.searchsorted(segments.ack_top, end - stream * SPAN + answer_stream * SPAN)
    answered = answer < len(segments)
    answer = np.minimum(answer, len(segments) - 1)
    answered &= segments.stream[answer] == answer_stream
    reports, on_answer = _reports(selective, segments, element, begin, end, answer)
    copies = _copies_before_and_after(begin)
    mine, reply = segments.index[element], segments.index[answer]
    stamped = (packets.options[mine] & packets.options[reply] & HAS_TIMESTAMPS) != 0
    echo = (packets.tsecr[reply] - packets.tsval[mine]).view(np.int32)
    waited = segments.time[answer] - segments.time[element]
    round_trip = receiver_rtt[stream]
    measured = round_trip != NO_TIME
    too_soon = measured & (waited < np.where(measured, round_trip, 0) * 8 // 10)

    # All copies arrived, or the first answer already reports one as repeated.
    twice = (reports > 0) & (on_answer | (reports >= copies))
    by_echo = stamped & ~on_answer
    earlier = np.where(by_echo, echo < 0, too_soon)
    # A receiver that reports repeats reported none, and this is the answer to the repeat by
    # its echo or its time. (Without SACK an echo proves nothing: a receiver echoes a needless
    # repeat as well, RFC 7323, section 4.3.)
    first_copy = segments.index[np.maximum(resends.original[rows], 0)]
    distinct = packets.tsval[mine] != packets.tsval[first_copy]
    in_time = measured & ~too_soon & (waited <= np.where(measured, round_trip, 0) * 2 + _SLACK_NS)
    told = (by_echo & (echo >= 0) & distinct) | in_time
    selects = _selects(selective, segments, stream)
    needed = answered & ~earlier & (selects | (with_sack[stream] & told))
    result = np.where(needed, VERDICT["false"], 0)
    result[answered & (earlier | twice)] = VERDICT["true"]
    result[had] = VERDICT["true"]
    verdict[rows] = result


def _reports(
    selective: Selective,
    segments: Segments,
    element: Ints,
    begin: Ints,
    end: Ints,
    answer: Ints,
) -> tuple[Ints, Bools]:
    """For each repeat: D-SACK reports of its bytes after it; and is one on its answer."""
    count = np.zeros(len(element), np.int64)
    on_answer = np.zeros(len(element), np.bool_)
    total = len(selective.repeated_element)
    if not total:
        return count, on_answer
    order = np.lexsort((selective.repeated_element, selective.repeated_left))
    left, right = selective.repeated_left[order], selective.repeated_right[order]
    reporter = selective.repeated_element[order]
    first = np.maximum(np.searchsorted(left, begin, "left") - 1, 0)
    for step in range(_MAX_REPORTS):
        at = np.minimum(first + step, total - 1)
        hit = (first + step < total) & (left[at] < end) & (right[at] > begin)
        after = segments.time[reporter[at]] >= segments.time[element]
        count += hit & after
        on_answer |= hit & after & (reporter[at] == answer)
    return count, on_answer


def _copies_before_and_after(begin: Ints) -> Ints:
    """For each repeat, how many repeats there are of the same first byte."""
    _, inverse, counts = np.unique(begin, return_inverse=True, return_counts=True)
    of_each: Ints = counts[inverse]
    return of_each


def _selects(selective: Selective, segments: Segments, stream: Ints) -> Bools:
    """Whether the receiver of each stream ever sent SACK blocks, so would report repeats."""
    does = np.zeros(len(segments.counts), np.bool_)
    does[segments.stream[selective.element]] = True
    selects: Bools = does[stream ^ 1]
    return selects
