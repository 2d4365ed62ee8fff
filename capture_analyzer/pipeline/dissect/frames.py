"""HTTP/2 frames of many connections → table `frames`: where each lies, found for all at once."""

from __future__ import annotations

import dataclasses
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.frames import Frames
from capture_analyzer.pipeline.lists import starts_of

_MOST_WAITING: Final = 1 << 18
"""Octets of rows that wait to be placed: some ten thousand, so that it costs little for each."""

_ROW: Final = np.dtype(
    [
        ("stream_id", "<u4"),
        ("type", "u1"),
        ("flags", "u1"),
        ("offset", "<i8"),
        ("end", "<i8"),
    ]
)  # as `FRAME_ROW`


_COLUMNS: Final = tuple(field.name for field in dataclasses.fields(Frames))


class _Direction(NamedTuple):
    """What is kept of a ByteStream until its frames are placed: its bytes must not be."""

    connection_no: int
    from_client: bool
    octets: int  # of rows
    starts: NDArray[np.int64]
    origins: NDArray[np.int64]


class FrameRows:
    """Takes the frames of HTTP/2 connections, one direction after the other."""

    def __init__(self) -> None:
        self._rows = bytearray()
        self._directions: list[_Direction] = []
        self._tables: list[Frames] = []

    def add(self, stream: ByteStream, rows: bytes | bytearray) -> None:
        """Add the frames of a direction: a `FRAME_ROW` for each, in order of their offsets."""
        if not rows:
            return
        self._rows += rows
        origins = stream.starts if stream.origins is None else stream.origins
        self._directions.append(
            _Direction(stream.connection_no, stream.from_client, len(rows), stream.starts, origins)
        )
        if len(self._rows) >= _MOST_WAITING:
            self._place()

    def table(self) -> Frames:
        """The frames of all directions, by connection; those of one in the order they came."""
        self._place()
        if not self._tables:
            return Frames()
        columns = {
            name: np.concatenate([getattr(table, name) for table in self._tables])
            for name in _COLUMNS
        }
        numbers = columns["connection_no"]
        if (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
        return Frames(**columns)

    def _place(self) -> None:
        """Make a table of the rows so far."""
        directions = self._directions
        if not directions:
            return
        rows = np.frombuffer(bytes(self._rows), _ROW)
        owner = np.repeat(
            np.arange(len(directions)), [one.octets // _ROW.itemsize for one in directions]
        )
        chunks = np.array([len(one.starts) for one in directions])
        first = starts_of(chunks)[owner]
        starts = np.concatenate([one.starts for one in directions])
        origins = np.concatenate([one.origins for one in directions])
        span = 1 + max(int(starts.max()), int(rows["end"].max()))
        keys = starts + np.repeat(np.arange(len(directions)) * span, chunks)

        def in_transport(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
            """As `ByteStream.in_transport`."""
            chunk = np.searchsorted(keys, owner * span + offsets, "right") - 1
            chunk = np.maximum(chunk, first)
            place: NDArray[np.int64] = origins[chunk] + (offsets - starts[chunk])
            return place

        self._tables.append(
            Frames(
                connection_no=np.array([one.connection_no for one in directions], np.int32)[owner],
                from_client=np.array([one.from_client for one in directions], np.bool_)[owner],
                stream_id=rows["stream_id"].astype(np.int32),
                type=rows["type"].copy(),
                flags=rows["flags"].copy(),
                offset=in_transport(rows["offset"]),
                end_offset=in_transport(rows["end"] - 1) + 1,
            )
        )
        self._rows.clear()
        self._directions.clear()
