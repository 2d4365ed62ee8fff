"""Frames of many directions placed at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.pipeline.dissect import frames
from capture_analyzer.pipeline.dissect.frames import FrameRows
from capture_analyzer.protocols.http2 import FRAME_ROW


def stream(number: int, from_client: bool, starts: list[int], origins: list[int] | None) -> Any:
    count = len(starts)
    nothing = np.zeros(count, np.int64)
    return ByteStream(
        number,
        from_client,
        np.array(starts, np.int64),
        np.full(count, 10),
        np.ones(count, np.int32),
        nothing,
        nothing,
        nothing,
        nothing.astype(np.uint16),
        nothing,
        [b""],
        end=starts[-1] + 10,
        origins=None if origins is None else np.array(origins, np.int64),
    )


@pytest.mark.parametrize("most", [1, 1 << 18])
def test_each_frame_lies_where_its_own_stream_says(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "_MOST_WAITING", most)
    rows = FrameRows()
    directions = [
        (stream(7, True, [0, 10], [5, 100]), [(1, 1, 4, 0, 10), (1, 0, 1, 10, 20)]),
        (stream(7, False, [0, 10, 40], [1000, 2000, 3000]), [(1, 0, 0, 5, 15), (3, 0, 0, 40, 50)]),
        # It begins in mid-connection, with a frame whose begin is missing.
        (stream(2, True, [20, 30], [520, 630]), [(5, 0, 0, 15, 29), (2**31 - 1, 9, 255, 30, 40)]),
        (stream(3, False, [0, 10], None), [(1, 0, 0, 9, 20)]),
    ]
    expected = []
    for one, found in directions:
        rows.add(one, b"".join(FRAME_ROW.pack(*row) for row in found))
        for stream_id, kind, flags, begin, end in found:
            first, last = one.in_transport(np.array([begin, end - 1])).tolist()
            expected.append(
                (one.connection_no, one.from_client, stream_id, kind, flags, first, last + 1)
            )
    rows.add(stream(9, True, [0], None), b"")
    table = rows.table()
    columns = (
        table.connection_no,
        table.from_client,
        table.stream_id,
        table.type,
        table.flags,
        table.offset,
        table.end_offset,
    )
    expected.sort(key=lambda row: row[0])
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
    assert table.type.dtype == table.flags.dtype == np.uint8


def test_no_frames() -> None:
    assert len(FrameRows().table()) == 0
