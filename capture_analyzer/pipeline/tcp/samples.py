"""All round-trip samples of a capture (table `rtt_samples`), when asked for."""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import concatenate
from capture_analyzer.model.packets import HAS_TIMESTAMPS, Packets
from capture_analyzer.model.rtt_samples import RttSamples
from capture_analyzer.pipeline.tcp.coverage import cover
from capture_analyzer.pipeline.tcp.regroup import regroup
from capture_analyzer.pipeline.tcp.round_trips import LONGEST, answered, sent_again
from capture_analyzer.pipeline.tcp.segments import SPAN, Bools, Ints, Segments, arrange

_COPIES: Final = 16  # of a segment that are looked at: a sender gives up about then (RFC 9293)
_GAIN: Final = 8  # SRTT takes in an eighth of each sample (RFC 6298, section 2)
_VARIANCE_GAIN: Final = 4  # and RTTVAR a quarter of its distance from SRTT

Elements = NDArray[np.intp]


def add_samples(
    table: RttSamples, numbers: NDArray[np.int64] | None = None, *, packets: Packets
) -> None:
    """Fill the table.

    Args:
        table: an empty one.
        numbers: of these connections; None = of all.
        packets: with `connection_no` and `from_client`.
    """
    groups = regroup(packets, numbers)
    parts = []
    for first, last in groups.batches():
        segments = arrange(packets, groups.flows, first, last, groups.from_client)
        parts.append(batch_samples(packets, segments, groups.numbers[first:last]))
    made = concatenate(RttSamples, parts)
    for field in dataclasses.fields(RttSamples):
        if field.metadata:
            setattr(table, field.name, getattr(made, field.name))


def batch_samples(packets: Packets, segments: Segments, numbers: NDArray[np.int32]) -> RttSamples:
    """The samples of a batch.

    Args:
        packets: the packets.
        segments: a batch.
        numbers: the number that each of its connections gets.
    """
    coverage = cover(segments)
    sent, answer = answered(segments)
    told = np.zeros(len(sent), np.bool_)
    resent = sent_again(segments, coverage)
    if resent is not None:
        several = resent[sent]
        copy = _by_timestamp(packets, segments, sent[several], answer[several])
        sent[several] = copy
        told[several] = True
        known = sent >= 0
        sent, answer, told = sent[known], answer[known], told[known]
    rtt = segments.time[answer] - segments.time[sent]
    usable = (rtt >= 0) & (rtt < LONGEST)
    sent, answer, told, rtt = sent[usable], answer[usable], told[usable], rtt[usable]
    stream = segments.stream[sent]
    srtt, rttvar = _smoothed(stream, rtt)
    order = np.lexsort((segments.index[answer], segments.time[answer], stream // 2))
    sent, answer, stream = sent[order], answer[order], stream[order]
    return RttSamples(
        connection_no=numbers[stream // 2],
        from_client=stream % 2 == 0,
        time_ns=segments.time[answer],
        rtt_ns=rtt[order],
        srtt_ns=srtt[order],
        rttvar_ns=rttvar[order],
        packet_no=(segments.index[sent] + 1).astype(np.int32),
        answer_packet_no=(segments.index[answer] + 1).astype(np.int32),
        by_timestamp=told[order],
    )


def _by_timestamp(
    packets: Packets, segments: Segments, sent: Elements, answer: Elements
) -> Elements:
    """Of segments sent several times, the copy whose timestamp is echoed; -1 if not one."""
    result = np.full(len(sent), -1, np.intp)
    if not len(sent):
        return result
    place = segments.end + segments.stream * SPAN
    data = np.flatnonzero(segments.carries & (segments.length > 0))
    data = data[np.argsort(place[data], kind="stable")]
    first = np.searchsorted(place[data], place[sent], "left")
    last = np.searchsorted(place[data], place[sent], "right")
    echo = packets.tsecr[segments.index[answer]]
    stamped = (packets.options[segments.index[answer]] & HAS_TIMESTAMPS) != 0
    matches = np.zeros(len(sent), np.int64)
    for step in range(min(int((last - first).max()), _COPIES)):
        at = np.flatnonzero(stamped & (first + step < last))
        copy = data[first[at] + step]
        hit = packets.tsval[segments.index[copy]] == echo[at]
        hit &= (packets.options[segments.index[copy]] & HAS_TIMESTAMPS) != 0
        hit &= segments.index[copy] < segments.index[answer[at]]
        result[at[hit]] = copy[hit]
        matches[at[hit]] += 1
    result[matches != 1] = -1
    return result


def _smoothed(stream: Ints, rtt: Ints) -> tuple[Ints, Ints]:
    """SRTT and RTTVAR behind each sample; a stream's in the order of their acknowledgements."""
    order = np.argsort(stream, kind="stable")
    values, begins = rtt[order], _begins(stream[order])
    smooth: list[float] = []
    spread: list[float] = []
    srtt = rttvar = 0.0
    # One after the other: each value depends on the one before.
    for value, begin in zip(values.tolist(), begins.tolist(), strict=True):
        if begin:
            srtt, rttvar = value, value / 2
        else:
            rttvar += (abs(srtt - value) - rttvar) / _VARIANCE_GAIN
            srtt += (value - srtt) / _GAIN
        smooth.append(srtt)
        spread.append(rttvar)
    results = np.empty((2, len(rtt)), np.int64)
    results[:, order] = np.rint([smooth, spread])
    return results[0], results[1]


def _begins(stream: Ints) -> Bools:
    """Where another stream begins."""
    result = np.ones(len(stream), np.bool_)
    result[1:] = stream[1:] != stream[:-1]
    return result
