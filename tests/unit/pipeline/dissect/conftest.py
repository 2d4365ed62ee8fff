"""Streams made by hand: bytes cut into packets, with times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from capture_analyzer.model.byte_stream import ByteStream

MS = 1_000_000


def byte_stream(
    data: bytes,
    cuts: Sequence[int] = (),
    *,
    seen_ns: Sequence[int] | None = None,
    gone: Sequence[int] = (),
    from_client: bool = False,
    end: int | None = None,
    fin: bool = False,
) -> ByteStream:
    """A stream of `data` in segments, packet 1, 2, 3 ...

    Args:
        data: all that was sent.
        cuts: stream offsets at which segments begin, beside 0.
        seen_ns: when each segment was seen; 1 ms apart if not given. It was readable in order
            when it and all before it had been seen.
        gone: segments (0-based) that the capture lacks.
        from_client: the direction.
        end: offset behind what is known to have been sent; behind `data` if not given.
        fin: it was closed.
    """
    begins = sorted({0, *cuts})
    begins = [begin for begin in begins if begin < len(data)]
    ends = [*begins[1:], len(data)] if begins else []
    times = [MS * (number + 1) for number in range(len(begins))] if seen_ns is None else seen_ns
    in_order = [max(times[: number + 1]) for number in range(len(begins))]
    kept = [number for number in range(len(begins)) if number not in gone]
    starts = np.array([begins[number] for number in kept], np.int64)
    seen = np.array([times[number] for number in kept], np.int64)
    order = np.array([in_order[number] for number in kept], np.int64)
    return ByteStream(
        connection_no=7,
        from_client=from_client,
        starts=starts,
        lengths=np.array([ends[number] - begins[number] for number in kept], np.int64),
        packet_nos=np.array([number + 1 for number in kept], np.int32),
        seen_ns=seen,
        in_order_ns=order,
        usable_ns=order,
        buffer_nos=np.zeros(len(kept), np.uint16),
        buffer_offsets=starts,
        buffers=(data,),
        end=len(data) if end is None else end,
        fin_ns=MS * 1000 if fin else None,
    )


@pytest.fixture(scope="session")
def stream_of():
    """`byte_stream`."""
    return byte_stream
