"""Conversations of one connection: who says what, in which segments."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from capture_shapes.columns import ACK, SYN, Packets

ISN_CLIENT, ISN_SERVER = 1000, 5000
SEGMENT_BYTES = 1400
_STEP_US = 100


def handshake(round_trip_us: int = 1000) -> Packets:
    """SYN, SYN-ACK, ACK at the client."""
    half = np.array([0, round_trip_us, round_trip_us + 50])
    return Packets(
        half,
        up=[True, False, True],
        seq=[ISN_CLIENT, ISN_SERVER, ISN_CLIENT + 1],
        ack=[0, ISN_CLIENT + 1, ISN_SERVER + 1],
        flags=[SYN, SYN | ACK, ACK],
    )


def cuts_of(data: bytes, size: int = SEGMENT_BYTES) -> NDArray[np.int64]:
    """Where segments of one size begin in a stream, and its end."""
    return np.append(np.arange(0, len(data), size), len(data))


def said(
    data: bytes,
    cuts: NDArray[np.int64],
    *,
    up: bool,
    heard: int,
    begin_us: int,
    step_us: int = _STEP_US,
    acked: int = 2,
) -> Packets:
    """One side speaks; the other acknowledges every so many segments.

    Args:
        data: the stream.
        cuts: where its segments begin, and its end.
        up: the client speaks.
        heard: bytes that it has received before.
        begin_us: time of its first segment.
        step_us: between segments.
        acked: segments to an acknowledgement.
    """
    count = len(cuts) - 1
    number = np.arange(count)
    acks = np.append(np.arange(acked - 1, count - 1, acked), count - 1)
    mine, yours = (ISN_CLIENT, ISN_SERVER) if up else (ISN_SERVER, ISN_CLIENT)
    time = np.concatenate((begin_us + number * step_us, begin_us + acks * step_us + step_us // 2))
    order = np.argsort(time, kind="stable")
    of_data = np.arange(count + len(acks)) < count
    zeros = np.zeros(len(acks), np.int64)
    seq = np.concatenate((mine + 1 + cuts[:-1], np.full(len(acks), yours + 1 + heard)))
    ack = np.concatenate((np.full(count, yours + 1 + heard), mine + 1 + cuts[1:][acks]))
    return Packets(
        time[order],
        up=np.where(of_data, up, not up)[order],
        seq=seq[order],
        ack=ack[order],
        pool=data,
        at=np.concatenate((cuts[:-1], zeros))[order],
        size=np.concatenate((np.diff(cuts), zeros))[order],
    )


def conversation(
    question: bytes, answer: bytes, cuts: NDArray[np.int64] | None = None, step_us: int = _STEP_US
) -> Iterator[Packets]:
    """A whole connection with one long question and one long answer.

    Args:
        question: what the client says.
        answer: what the server says.
        cuts: where the answer's segments begin, and its end; None = of one size.
        step_us: between the answer's segments.
    """
    yield handshake()
    asked = said(question, cuts_of(question), up=True, heard=0, begin_us=2000)
    yield asked
    begin = int(asked.time_us[-1]) + 1000
    where = cuts_of(answer) if cuts is None else cuts
    yield said(answer, where, up=False, heard=len(question), begin_us=begin, step_us=step_us)
