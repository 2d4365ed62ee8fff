"""Segments that Nagle's algorithm held back (table `limits`).

A sender with Nagle's algorithm (RFC 9293, section 3.7.4) sends a small segment at once only if
nothing is in flight; Linux only looks whether a small one is. So the second of two small writes
waits for the acknowledgement of the first, which the receiver may delay (RFC 9293, section
3.8.6.3; 40 ms on Linux, up to 200 ms elsewhere) because it waits for the second.

What shows it: between two small segments of one sender its peer sends no data; a bare
acknowledgement of the first reaches the sender, and the second leaves that very moment. One
such coincidence could be chance, so each kind of evidence has its confidence. A sender that
was ever seen to send a small segment while a small one was in flight has the algorithm switched
off, and nothing it does is called Nagle's.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.limits import LIMIT_CODE, Limits
from capture_analyzer.model.packets import ACK, FIN, RST, SYN
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.pipeline.intervals import bisect_right
from capture_analyzer.pipeline.tcp.limits import Path, table
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments

_LATE_NS: Final = 20_000_000
"""An acknowledgement this much later than the path needs was delayed; Linux waits 40 ms."""

_LATEST_NS: Final = 550_000_000  # none is delayed by more than 500 ms (RFC 9293, 3.8.6.3)

_PROMPT_NS: Final = 2_000_000  # a held segment leaves at once
_EARLY_NS: Final = 500_000
"""A segment this much before the acknowledgement arrives did not wait for it."""

_LEAST_TRIP_NS: Final = 1_000_000  # a shorter round trip is no wait

_LEAST_ALIKE: Final = 5
"""So many segments must leave on acknowledgements that came at once before that is a rule."""

_MOSTLY: Final = 0.8  # of a stream's small segments, likewise

ONCE: Final = 0.6  # confidence in a single delayed coincidence, and in several
OFTEN: Final = 0.95


_Pairs = tuple[NDArray[np.intp], NDArray[np.intp], Ints]
"""Segments, the ones that follow them in their streams, and the streams."""


def find_held(
    segments: Segments, path: Path, fresh: NDArray[np.intp], again: NDArray[np.intp]
) -> Limits:
    """Segments that waited for an acknowledgement by Nagle's algorithm.

    Args:
        segments: a batch.
        path: what is known of its streams.
        fresh: its elements with new data.
        again: its elements that were sent again: around them nothing is judged.
    """
    pairs = _find_pairs(segments, path, fresh)
    first, second, mine = pairs
    if not len(first):
        return Limits()
    time, counts = segments.time, _Counts.of(segments, again)
    # A segment that waited is a round trip behind the one before.
    waited = _chosen(pairs, time[second] - time[first] >= (path.whole * 9 // 10)[mine])
    held = _let_go(segments, path, *_undisturbed(segments, counts, waited))
    late = (held.delay >= _LATE_NS) & (held.delay <= _LATEST_NS)
    late[late] = _unasked(segments, path, held.of(late))
    # At once: only as a rule of the stream, and more exactly.
    near = path.near[held.stream]
    exact = np.abs(held.since) <= _PROMPT_NS // 2 + near // 32
    may_be_chance = late & ~exact
    exact &= path.whole[held.stream] >= _LEAST_TRIP_NS
    streams = len(segments.counts)
    late_count = np.bincount(held.stream[late], minlength=streams)
    alike = np.bincount(held.stream[exact], minlength=streams)
    rule = alike >= _LEAST_ALIKE
    if rule.any():
        of_all = _undisturbed(segments, counts, _chosen(pairs, rule[mine]))[2]
        rule &= alike >= _MOSTLY * np.bincount(of_all, minlength=streams)
    often = rule | (late_count >= 2)
    # A single one might be chance; it must fit more exactly, too.
    late &= ~may_be_chance | often[held.stream]
    chosen = late | (exact & often[held.stream])
    if not chosen.any():
        return Limits()
    off = _switched_off(segments, path, counts, pairs, held.stream[chosen])
    chosen &= ~off[held.stream]
    held, late = held.of(chosen), late[chosen]
    kind = np.where(late, LIMIT_CODE["nagle_delayed_ack"], LIMIT_CODE["nagle"]).astype(np.uint8)
    return table(
        segments,
        path,
        kind,
        held.first,
        held.answer,
        held.second,
        time[held.first],
        time[held.second],
        segments.length[held.first],
        np.where(often[held.stream], OFTEN, ONCE),
    )


@quick_dataclass
class _Held:
    """Segments that left the moment that a bare acknowledgement reached their sender.

    Attributes:
        first: the segment before each.
        second: the segment.
        answer: the acknowledgement of the first.
        stream: their stream.
        since: how long behind the acknowledgement's arrival at the sender it left.
        delay: how much later than the path needs the acknowledgement came.
    """

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    answer: NDArray[np.intp]
    stream: Ints
    since: Ints
    delay: Ints

    def of(self, chosen: Bools) -> _Held:
        """Some of them."""
        some = np.flatnonzero(chosen)
        columns = (getattr(self, field.name)[some] for field in dataclasses.fields(self))
        return _Held(*columns)


def _let_go(
    segments: Segments,
    path: Path,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    mine: Ints,
) -> _Held:
    """Pairs of segments of which a bare acknowledgement of the first let the second go."""
    answer, there = _answers(segments, first, mine)
    time = segments.time
    near = path.near[mine]
    since = time[second] - time[answer] - near
    bare = (segments.length[answer] == 0) & (
        (segments.flags[answer] & (SYN | FIN | RST | ACK)) == ACK
    )
    # The last segment before a FIN is not held.
    closing = (segments.flags[second] & FIN) != 0
    held = there & bare & ~closing & (since <= _PROMPT_NS + near // 16)
    held &= since >= -_EARLY_NS - near // 16
    delay = time[answer] - time[first] - path.far[mine]
    return _Held(first, second, answer, mine, since, delay).of(held)


def _unasked(segments: Segments, path: Path, held: _Held) -> Bools:
    """Whether no data of the peer reached the sender between two segments.

    Away from the sender, what reached it behind the first was captured before that: a request
    that crossed a session ticket, whose answer then happens to leave with the acknowledgement.
    """
    other = held.stream ^ 1
    low = segments.starts[other]
    high = low + segments.counts[other]
    near = path.near[held.stream]
    begin = bisect_right(segments.time, low, high, segments.time[held.first] - near)
    end = bisect_right(segments.time, low, high, segments.time[held.second] - near)
    carried = np.append(0, np.cumsum(segments.length > 0))
    unasked: Bools = carried[begin] == carried[end]
    return unasked


def _answers(
    segments: Segments, first: NDArray[np.intp], mine: Ints
) -> tuple[NDArray[np.intp], Bools]:
    """The first packet of the peer that acknowledges each segment, and whether there is one."""
    other = mine ^ 1
    key = segments.end[first] + other * SPAN
    acked = segments.ack_top
    # Mostly it is the first packet that comes behind the segment; if not, it is looked for.
    answer = _peers_next(segments, first, mine)
    there = answer < len(acked)
    next_one = (acked[np.minimum(answer, len(acked) - 1)] >= key) & (answer > 0)
    next_one &= acked[answer - 1] < key
    rest = np.flatnonzero(~next_one)
    answer[rest] = np.searchsorted(acked, key[rest])
    there[rest] = answer[rest] < len(acked)
    answer = np.minimum(answer, len(acked) - 1)
    there &= segments.stream[answer] == other
    return answer, there


def _switched_off(
    segments: Segments,
    path: Path,
    counts: _Counts,
    pairs: _Pairs,
    concerned: Ints,
) -> Bools:
    """Streams that sent a small segment while a small one was in flight: the algorithm is off.

    Args:
        segments: a batch.
        path: what is known of its streams.
        counts: of its repeats.
        pairs: small segments that follow each other.
        concerned: the streams that it matters for.
    """
    wanted = np.zeros(len(segments.counts), np.bool_)
    wanted[concerned] = True
    first, second, mine = _unrepeated(counts, _chosen(pairs, wanted[pairs[2]]))
    answer, there = _answers(segments, first, mine)
    near = path.near[mine]
    since = segments.time[second] - segments.time[answer] - near
    closing = (segments.flags[second] & FIN) != 0
    off = there & ~closing & (since < -_EARLY_NS - near // 16)
    switched_off = np.zeros(len(segments.counts), np.bool_)
    switched_off[mine[off]] = True
    return switched_off


def _chosen(pairs: _Pairs, chosen: Bools) -> _Pairs:
    """Some of the pairs."""
    use = np.flatnonzero(chosen)
    first, second, mine = pairs
    return first[use], second[use], mine[use]


def _find_pairs(segments: Segments, path: Path, fresh: NDArray[np.intp]) -> _Pairs:
    """Small segments of a stream that follow each other, and their stream."""
    known = (path.near != NO_TIME) & (path.far != NO_TIME)
    # A stream of which not enough is known has no small segments.
    limit = np.where(known, path.mss, 0)
    stream = segments.stream[fresh]
    small = segments.length[fresh] < limit[stream]
    small &= (segments.flags[fresh] & (SYN | RST)) == 0
    at = np.flatnonzero(small[1:] & small[:-1] & (stream[1:] == stream[:-1]))
    return fresh[at], fresh[at + 1], stream[at]


@quick_dataclass
class _Counts:
    """How many there are before each element of a batch.

    Attributes:
        data: with payload.
        repeats: sent again.
    """

    data: NDArray[np.int32]
    repeats: NDArray[np.int32]

    @classmethod
    def of(cls, segments: Segments, again: NDArray[np.intp]) -> _Counts:
        """Count them."""
        data = np.zeros(len(segments) + 1, np.int32)
        np.cumsum(segments.length > 0, out=data[1:])
        repeats = np.zeros_like(data)
        repeats[again + 1] = 1
        return cls(data, np.cumsum(repeats, out=repeats))


def _undisturbed(segments: Segments, counts: _Counts, pairs: _Pairs) -> _Pairs:
    """The pairs between which nothing else was sent.

    If the peer sent data in between, the second may be the answer to that.
    """
    pairs = _unrepeated(counts, pairs)
    first, second, mine = pairs
    low, behind = _peers_next(segments, first, mine), segments.peer[second]
    return _chosen(pairs, counts.data[low] == counts.data[np.where(behind >= 0, behind + 1, low)])


def _unrepeated(counts: _Counts, pairs: _Pairs) -> _Pairs:
    """The pairs without a repeat between the two, or of one of them: it makes times meaningless."""
    if not counts.repeats[-1]:
        return pairs
    first, second, _ = pairs
    return _chosen(pairs, counts.repeats[second + 1] == counts.repeats[first])


def _peers_next(segments: Segments, elements: NDArray[np.intp], mine: Ints) -> Ints:
    """The peer's first element behind each, which is one too far if there is none."""
    before = segments.peer[elements]
    return np.where(before >= 0, before + 1, segments.starts[mine ^ 1])
