"""Gaps in streamed answers in which their server sent nothing of them.

A gap ends when the first byte of the next event comes by (at the end of the answer: its last
segment), and it is the server's own only as far as `sending` shows that nothing held that
segment, or the burst of segments that it came in, back.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.events import EVENT_KIND_CODE, Events
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.causes.sending import Sending
from capture_analyzer.pipeline.intervals import Indices, Times, running_maximum

APART_NS: Final = 100_000_000
"""A gap this much longer than the usual one is divided there: the rest is out of the ordinary."""


@quick_dataclass
class Gaps:
    """One element a gap, or a part of it; none overlap in one exchange."""

    exchange: Indices
    from_ns: Times
    to_ns: Times
    packet_a: NDArray[np.int32]
    packet_b: NDArray[np.int32]


_NOTHING: Final = np.empty(0, np.int64)
_NOBODY: Final = np.empty(0, np.int32)
NO_GAPS: Final = Gaps(_NOTHING, _NOTHING, _NOTHING, _NOBODY, _NOBODY)


def find_gaps(
    events: Events,
    sending: Sending,
    connection_no: NDArray[np.int32],
    head: Times,
    head_packet: NDArray[np.int32],
    last_packet: NDArray[np.int32],
    cadence: Times,
) -> Gaps:
    """The gaps of all streamed answers.

    Args:
        events: of all of them.
        sending: how their servers sent.
        connection_no: of each exchange.
        head: when the head of its answer was usable; NO_TIME = it was not captured.
        head_packet: a packet with it; 0 = none.
        last_packet: the last packet of the answer; 0 = none.
        cadence: its usual pace; NO_TIME = too few events.
    """
    exchange = events.exchange_no.astype(np.intp)
    if not len(exchange):
        return NO_GAPS
    new = np.ones(len(exchange), np.bool_)
    new[1:] = exchange[1:] != exchange[:-1]
    latest = running_maximum(events.exchange_no, events.time_ns)
    opening = head[exchange]
    begin = np.where(new, opening, np.maximum(opening, np.roll(latest, 1)))
    before = np.where(new, head_packet[exchange], np.roll(events.packet_no, 1))
    content = events.kind == EVENT_KIND_CODE["content"]
    generated = np.cumsum(content)
    paced = ~new & (
        generated - content
        > np.repeat((generated - content)[new], np.diff(np.append(np.flatnonzero(new), len(new))))
    )
    element = sending.holding(2 * connection_no[exchange].astype(np.int64) + 1, events.offset)

    # The end of each answer, behind its last event.
    last = np.flatnonzero(np.append(new[1:], True))
    closing = _by_packet(sending, connection_no[exchange[last]], last_packet[exchange[last]])
    element = np.concatenate((element, closing))
    exchange = np.concatenate((exchange, exchange[last]))
    begin = np.concatenate((begin, np.maximum(opening[last], latest[last])))
    before = np.concatenate((before, events.packet_no[last]))
    paced = np.concatenate((paced, np.zeros(len(last), np.bool_)))

    released = sending.released(element)
    end = np.where(released >= 0, sending.left[released], NO_TIME)
    real = np.flatnonzero((begin != NO_TIME) & (end > begin))
    real = real[np.argsort(exchange[real], kind="stable")]  # those of one are in order of time
    exchange, begin, end, paced = exchange[real], begin[real], end[real], paced[real]
    packet_a, packet_b = before[real].astype(np.int32), sending.packet_no[released[real]]
    usual = cadence[exchange]
    divided = paced & (usual != NO_TIME)
    divided[divided] = (end - begin)[divided] > usual[divided] + APART_NS
    split = np.where(divided, begin + np.where(divided, usual, 0), end)
    return Gaps(
        exchange=np.concatenate((exchange, exchange[divided])),
        from_ns=np.concatenate((begin, split[divided])),
        to_ns=np.concatenate((split, end[divided])),
        packet_a=np.concatenate((packet_a, packet_a[divided])),
        packet_b=np.concatenate((packet_b, packet_b[divided])),
    )


def _by_packet(
    sending: Sending, connection_no: NDArray[np.int32], packet_no: NDArray[np.int32]
) -> Indices:
    """The elements that came in these packets; -1 without one."""
    if not len(sending.packet_no):
        return np.full(len(packet_no), -1, np.intp)
    first = np.full(int(max(sending.packet_no.max(), packet_no.max(initial=0))) + 1, -1, np.intp)
    first[sending.packet_no[::-1]] = np.arange(len(sending.packet_no))[::-1]  # the last one stays
    found = first[packet_no]
    return np.where((found >= 0) & (sending.stream[found] >> 1 == connection_no), found, -1)
