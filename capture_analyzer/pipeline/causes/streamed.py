"""Gaps in streamed answers in which their server sent nothing of them.

A gap ends when the first byte of the next event comes by (at the end of the answer: its last
segment), and it is the server's own only as far as `sending` shows that nothing held that
segment, or the burst of segments that it came in, back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.events import EVENT_KIND_CODE, Events
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.causes.sending import Sending
from capture_analyzer.pipeline.intervals import Indices, Times, running_maximum
from capture_analyzer.pipeline.lists import in_parts

APART_NS: Final = 100_000_000
"""A gap this much longer than the usual one is divided there: the rest is out of the ordinary."""

_EVENTS_AT_ONCE: Final = 16_384


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
    if not len(events):
        return NO_GAPS
    owner = events.exchange_no
    element = sending.holding(2 * connection_no[owner].astype(np.int64) + 1, events.offset)
    released = sending.released(element)
    bounds = np.append(np.flatnonzero(np.diff(owner, prepend=-1)), len(owner))
    # The end of each answer, behind its last event.
    closed = owner[bounds[:-1]]
    closing = sending.released(_by_packet(sending, connection_no[closed], last_packet[closed]))
    return _joined(
        [
            _gaps(
                events,
                slice(int(bounds[first]), int(bounds[stop])),
                np.concatenate((released[bounds[first] : bounds[stop]], closing[first:stop])),
                sending,
                head,
                head_packet,
                cadence,
            )
            for first, stop in in_parts(bounds, _EVENTS_AT_ONCE)
        ]
    )


def _joined(parts: Sequence[Gaps]) -> Gaps:
    return Gaps(
        *(
            np.concatenate([getattr(part, field.name) for part in parts])
            for field in dataclasses.fields(Gaps)
        )
    )


def _gaps(
    events: Events,
    part: slice,
    released: Indices,
    sending: Sending,
    head: Times,
    head_packet: NDArray[np.int32],
    cadence: Times,
) -> Gaps:
    """The gaps of some answers.

    Args:
        events: of all of them.
        part: those of these answers.
        released: of each of these, and then for the end of each answer, what its server sent
            last without being held back; -1 = nothing.
        sending: how the servers sent.
        head: of each exchange, as for `find_gaps`; so are the following.
        head_packet: a packet with it.
        cadence: its usual pace.
    """
    exchange = events.exchange_no[part].astype(np.intp)
    time_ns, packet_no = events.time_ns[part], events.packet_no[part]
    new = np.ones(len(exchange), np.bool_)
    new[1:] = exchange[1:] != exchange[:-1]
    latest = running_maximum(exchange, time_ns)
    opening = head[exchange]
    begin = np.where(new, opening, np.maximum(opening, np.roll(latest, 1)))
    before = np.where(new, head_packet[exchange], np.roll(packet_no, 1))
    content = events.kind[part] == EVENT_KIND_CODE["content"]
    generated = np.cumsum(content) - content
    first = np.flatnonzero(new)
    paced = ~new & (generated > np.repeat(generated[first], np.diff(np.append(first, len(new)))))

    last = np.append(first[1:], len(new)) - 1
    exchange = np.concatenate((exchange, exchange[last]))
    begin = np.concatenate((begin, np.maximum(opening[last], latest[last])))
    before = np.concatenate((before, packet_no[last]))
    paced = np.concatenate((paced, np.zeros(len(last), np.bool_)))

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
    """The elements that came in these packets, the first ones of each; -1 without one."""
    asked = np.zeros(
        int(max(sending.packet_no.max(initial=0), packet_no.max(initial=0))) + 1, np.bool_
    )
    asked[packet_no] = True
    hits = np.flatnonzero(asked[sending.packet_no])
    hits = hits[np.argsort(sending.packet_no[hits], kind="stable")]
    if not len(hits):
        return np.full(len(packet_no), -1, np.intp)
    place = np.searchsorted(sending.packet_no[hits], packet_no)
    found = hits[np.minimum(place, len(hits) - 1)]
    real = sending.packet_no[found] == packet_no
    real &= sending.stream[found] >> 1 == connection_no
    return np.where(real, found, -1)
