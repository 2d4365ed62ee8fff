"""Byte streams made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from capture_analyzer.model.byte_stream import ByteStream


def _stream(
    pieces: Sequence[tuple[int, int, bytes | int]],
    *,
    from_client: bool = True,
    connection_no: int = 0,
    begins_mid_stream: bool = False,
    fin_ns: int | None = None,
    end: int | None = None,
    first_offset: int = 0,
) -> ByteStream:
    """A stream of pieces in order: (time, packet_no, bytes), or a number of missing bytes."""
    starts, lengths, packet_nos, times, offsets = [], [], [], [], []
    buffer = b"head"  # so that stream offsets and buffer offsets differ
    at = first_offset
    for time_ns, packet_no, data in pieces:
        if isinstance(data, int):
            at += data
            continue
        starts.append(at)
        lengths.append(len(data))
        packet_nos.append(packet_no)
        times.append(time_ns)
        offsets.append(len(buffer))
        buffer += data + b"--"
        at += len(data)
    in_order = np.maximum.accumulate(np.array(times, np.int64)) if times else np.empty(0, np.int64)
    return ByteStream(
        connection_no=connection_no,
        from_client=from_client,
        starts=np.array(starts, np.int64),
        lengths=np.array(lengths, np.int64),
        packet_nos=np.array(packet_nos, np.int32),
        seen_ns=np.array(times, np.int64),
        in_order_ns=in_order,
        usable_ns=in_order,
        buffer_nos=np.zeros(len(starts), np.uint16),
        buffer_offsets=np.array(offsets, np.int64),
        buffers=[buffer],
        end=at if end is None else end,
        begins_mid_stream=begins_mid_stream,
        fin_ns=fin_ns,
    )


@pytest.fixture(scope="session")
def make_stream() -> Callable[..., ByteStream]:
    """Builds a ByteStream from [(time_ns, packet_no, bytes or a number of missing bytes)]."""
    return _stream
