"""What the walk over TLS records works on, and what it finds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class Chunks:
    """The chunks of many streams end to end, as in `ByteStream`; a row is a stream.

    Attributes:
        bounds: chunks bounds[row]:bounds[row + 1] belong to a row.
        starts .. buffer_offsets: one element a chunk.
        buffers: where the bytes lie.
        origins: the offset at which each row begins; None = 0.
    """

    bounds: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    packet_nos: NDArray[np.int32]
    seen_ns: NDArray[np.int64]
    in_order_ns: NDArray[np.int64]
    buffer_nos: NDArray[np.uint16]
    buffer_offsets: NDArray[np.int64]
    buffers: Sequence[memoryview | bytes]
    origins: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, stream: ByteStream) -> Chunks:
        """One stream as row 0."""
        return cls(
            np.array([0, len(stream)], np.int64),
            stream.starts,
            stream.lengths,
            stream.packet_nos,
            stream.seen_ns,
            stream.in_order_ns,
            stream.buffer_nos,
            stream.buffer_offsets,
            stream.buffers,
        )


@quick_dataclass(frozen=True)
class LostBoundary:
    """Where the walk lost the record boundaries, and where it found them again.

    Attributes:
        row: the stream.
        offset: where a header was due.
        found: where the next one is; None if there is none.
        packet_no: the packet that holds `found`, else the last before `offset`.
        gap: bytes are missing from the capture there; else the peer sent something else.
    """

    row: int
    offset: int
    found: int | None
    packet_no: int
    gap: bool


@quick_dataclass
class Walked:
    """Records by row, then offset: one element a record in each array."""

    row: NDArray[np.int32]
    offset: NDArray[np.int64]
    length: NDArray[np.int32]
    content_type: NDArray[np.uint8]
    first_chunk: NDArray[np.int32]
    last_chunk: NDArray[np.int32]
    complete: NDArray[np.bool_]
    lost: list[LostBoundary]

    def bounds(self, rows: int) -> NDArray[np.int64]:
        """Records bounds[row]:bounds[row + 1] are those of a row."""
        return np.searchsorted(self.row, np.arange(rows + 1))
