"""Where round trips grew far beyond the smallest while data flowed (table `queues`).

Two kinds of samples, each of the round trip between the capture point and one side:

* from a segment to the acknowledgement that ends at its end (RFC 6298; not where bytes were sent
  again, section 3): seen at the sender it holds both queues on the way;
* from a packet to the first segment of the other side that echoes its timestamp (RFC 7323,
  section 4): while the other side is sending, each acknowledgement lets the next segment go,
  so the time to that segment is a round trip seen from the receiver.

A queue is not a spike: what was held up and then let go together arrives at one moment. So the
long samples must be spread over time, with a fair number of segments among them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME, concatenate
from capture_analyzer.model.limits import Queues
from capture_analyzer.model.packets import HAS_TIMESTAMPS, Packets
from capture_analyzer.pipeline.tcp.limits import Path
from capture_analyzer.pipeline.tcp.segments import SPAN, Ints, Segments

LEAST_RISE_NS: Final = 100_000_000
LEAST_FACTOR: Final = 3
"""A round trip is long that is so much above the smallest, and so many times as long."""

LEAST_SAMPLES: Final = 5
_LEAST_SEGMENTS: Final = 20  # full ones in the direction of the transfer: less is no load
_MOST_SAMPLES: Final = 40
"""Of a longer transfer about so many segments, and up to twice as many, are looked at."""

_SEGMENTS_A_SAMPLE: Final = 2  # full ones between two long samples, at least, on average

_CLOCK_ROOM: Final = 1 << 33  # room for the timestamps of one stream


def find_queues(
    packets: Packets,
    segments: Segments,
    path: Path,
    fresh: NDArray[np.intp],
    again: NDArray[np.intp],
) -> Queues:
    """Stretches with long round trips, of a batch.

    Args:
        packets: the packets.
        segments: a batch.
        path: what is known of its streams.
        fresh: its elements with new data.
        again: its elements that were sent again.
    """
    full = fresh[segments.length[fresh] >= path.mss[segments.stream[fresh]]]
    if not len(full):
        return Queues()
    # Where each stream's full segments begin, how many there are, and how long they took.
    start = np.flatnonzero(np.diff(segments.stream[full], prepend=-1))
    count = np.diff(start, append=len(full))
    took = segments.time[full[start + count - 1]] - segments.time[full[start]]
    # A transfer that is over sooner can't hold so many long round trips one after the other.
    loaded = (count >= _LEAST_SEGMENTS) & (took > LEAST_RISE_NS)
    if not loaded.any():
        return Queues()
    rank = np.arange(len(full)) - np.repeat(start, count)
    step = np.repeat(np.where(loaded, np.maximum(count // _MOST_SAMPLES, 1), len(full) + 1), count)
    looked_at = (rank % step == 0) & np.repeat(loaded, count)
    everything = full[np.repeat(loaded, count)]
    full = full[looked_at]
    acknowledged = _acknowledged(segments, full, again)
    echoes = _echoed(packets, segments, full)
    found = [
        _stretches(segments, path, everything, *acknowledged, echoed=False),
        _stretches(segments, path, everything, *echoes, echoed=True),
    ]
    return _longest(concatenate(Queues, found))


def _acknowledged(
    segments: Segments, full: NDArray[np.intp], again: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp], Ints]:
    """Full segments and the packets that acknowledge up to their end.

    Returns:
        The segments, the packets that ended the samples, the round trips.
    """
    stream = segments.stream[full]
    key = segments.end[full] + (stream ^ 1) * SPAN
    answer = np.searchsorted(segments.ack_top, key)
    there = answer < len(segments)
    answer = np.minimum(answer, len(segments) - 1)
    there &= segments.ack_top[answer] == key
    if len(again):
        # Bytes that were sent twice: which copy was acknowledged can't be told.
        floor = segments.stream[again] * SPAN
        begins = segments.begin[again] + floor
        order = np.argsort(begins, kind="stable")
        begins = begins[order]
        ends = np.maximum.accumulate((segments.end[again] + floor)[order])
        own = stream * SPAN
        at = np.searchsorted(begins, segments.end[full] + own, "left") - 1
        there &= (at < 0) | (ends[np.maximum(at, 0)] <= segments.begin[full] + own)
    full, answer = full[there], answer[there]
    return full, answer, segments.time[answer] - segments.time[full]


def _echoed(
    packets: Packets, segments: Segments, full: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp], Ints]:
    """Full segments that are the first to echo a timestamp, and since when."""
    index = segments.index
    stamped = (packets.options[index[full]] & HAS_TIMESTAMPS) != 0
    full = full[stamped & (packets.tsecr[index[full]] != 0)]
    if not len(full):
        return full, full, np.empty(0, np.int64)
    echo = packets.tsecr[index[full]]
    first = np.ones(len(full), np.bool_)
    first[1:] = (echo[1:] != echo[:-1]) | (segments.stream[full[1:]] != segments.stream[full[:-1]])
    full, echo = full[first], echo[first]
    # Timestamps of the other sides' streams as one ascending row of numbers over all streams.
    other = segments.stream[full] ^ 1
    wanted = np.zeros(len(segments.counts), np.bool_)
    wanted[other] = True
    elements = np.flatnonzero(np.repeat(wanted, segments.counts))
    if not len(elements):
        return elements, elements, np.empty(0, np.int64)
    stamps, stream = packets.tsval[index[elements]], segments.stream[elements]
    base = np.zeros(len(wanted), np.uint32)
    some = np.flatnonzero(wanted & (segments.counts > 0))
    base[some] = packets.tsval[index[segments.starts[some]]]
    moved = (stamps - base[stream]).view(np.int32).astype(np.int64)
    clock = np.maximum.accumulate(moved + stream * _CLOCK_ROOM)
    told = (echo - base[other]).view(np.int32).astype(np.int64) + other * _CLOCK_ROOM
    # The last packet with that timestamp, but none that was captured later.
    last = np.searchsorted(elements, segments.peer[full], "right") - 1
    at = np.minimum(np.searchsorted(clock, told, "right") - 1, last)
    known = (at >= 0) & (clock[np.maximum(at, 0)] == told)
    source = elements[at]
    full, source = full[known], source[known]
    return full, full, segments.time[full] - segments.time[source]


def _stretches(
    segments: Segments,
    path: Path,
    full: NDArray[np.intp],
    sent: NDArray[np.intp],
    ended: NDArray[np.intp],
    rtt: Ints,
    *,
    echoed: bool,
) -> Queues:
    """The long samples of each stream, where they are enough.

    Args:
        segments: a batch.
        path: what is known of its streams.
        full: all full segments of the streams that are looked at.
        sent: the segment of each sample, ascending.
        ended: the packet that ended it.
        rtt: how long it took.
        echoed: the samples are of the round trip to the sender, not to the receiver.
    """
    if not len(sent):
        return Queues()
    stream = segments.stream[sent]
    starts = np.flatnonzero(np.diff(stream, prepend=-1))
    sizes = np.diff(starts, append=len(sent))
    numbers = stream[starts]
    # The handshake is a sample of the same round trip.
    shaken = (path.near if echoed else path.far)[numbers]
    lowest = np.minimum.reduceat(rtt, starts)
    lowest = np.where(shaken == NO_TIME, lowest, np.minimum(lowest, shaken))
    least = np.repeat(np.maximum(lowest + LEAST_RISE_NS, LEAST_FACTOR * lowest), sizes)
    is_long = rtt >= least
    enough = np.flatnonzero(np.add.reduceat(is_long.astype(np.int64), starts) >= LEAST_SAMPLES)
    rows: list[tuple[int, ...]] = []
    time, of_full = segments.time, segments.stream[full] if len(enough) else full
    for at in enough.tolist():
        mine = starts[at] + np.flatnonzero(is_long[starts[at] : starts[at] + sizes[at]])
        number, smallest = int(numbers[at]), int(lowest[at])
        begin, end = int(time[sent[mine[0]]]), int(time[ended[mine]].max())
        # Let go together they would have ended within the smallest round trip.
        spread = end - int(time[ended[mine]].min())
        if spread < max(LEAST_FACTOR * smallest, LEAST_RISE_NS):
            continue
        low, high = np.searchsorted(of_full, (number, number + 1)).tolist()
        among = full[low:high]
        among = among[(among >= sent[mine[0]]) & (time[among] <= end)]
        if len(among) < _SEGMENTS_A_SAMPLE * LEAST_SAMPLES:
            continue
        worst = int(mine[rtt[mine].argmax()])
        packet = segments.index[ended] + 1
        rows.append(
            (
                number // 2 + path.first_connection,
                number % 2 == 0,
                begin,
                end,
                len(mine),
                smallest,
                int(np.median(rtt[mine])),
                int(rtt[worst]),
                int(packet[mine[0]]),
                int(packet[worst]),
                int(packet[mine[-1]]),
            )
        )
    return _table(rows)


def _table(rows: list[tuple[int, ...]]) -> Queues:
    columns = np.array(rows, np.int64).reshape(-1, 11)
    return Queues(
        connection_no=columns[:, 0].astype(np.int32),
        from_client=columns[:, 1].astype(np.bool_),
        from_ns=columns[:, 2].copy(),
        to_ns=columns[:, 3].copy(),
        samples=columns[:, 4].copy(),
        smallest_ns=columns[:, 5].copy(),
        typical_ns=columns[:, 6].copy(),
        largest_ns=columns[:, 7].copy(),
        first_packet_no=columns[:, 8].astype(np.int32),
        largest_packet_no=columns[:, 9].astype(np.int32),
        last_packet_no=columns[:, 10].astype(np.int32),
    )


def _longest(queues: Queues) -> Queues:
    """Of two measurements of one stream, the one with the longer round trips; in order."""
    if not len(queues):
        return queues
    key = queues.connection_no.astype(np.int64) * 2 + ~queues.from_client
    order = np.lexsort((-queues.largest_ns, key))
    first = np.append(True, key[order][1:] != key[order][:-1])
    order = order[first]
    return Queues(**{name: getattr(queues, name)[order] for name in Queues.__dataclass_fields__})
