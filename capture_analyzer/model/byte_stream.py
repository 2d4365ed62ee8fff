"""One direction of a transport stream: chunks that know their packets and times, and gaps.

`ByteStream` is the one thing that passes between protocols: TCP makes one a direction,
TLS decryption makes another from it, and so on. Each byte has three times:

* *seen*: a packet with it was captured;
* *in order*: the receiver could have read it (it and all before it had arrived);
* *usable*: the whole TLS record that holds it was there in order. In clear text this is
  the in-order time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class ByteStream:
    """Bytes of one direction by stream offset; 0 is the first byte after the SYN.

    Chunks are ordered by offset and never overlap. Where chunk i+1 does not begin at the end
    of chunk i, the bytes between are a gap: the capture lacks them. `begins_mid_stream`
    says that offset 0 is merely the first byte captured, not the first sent.

    Attributes:
        connection_no: the connection.
        from_client: the direction.
        starts: stream offset of each chunk.
        lengths: its length in bytes.
        packet_nos: the packet it was taken from.
        seen_ns, in_order_ns, usable_ns: the three times of its last byte.
        buffer_nos, buffer_offsets: where its bytes lie in `buffers`.
        end: stream offset just behind the last byte that is known to have been sent
            (it may lie behind the last chunk: then the tail is a gap).
        fin_ns: the FIN was seen then; None without one.
        reset_ns: an RST from either side was seen then; None without one.
        origins: where the first byte of each chunk lies in the transport's stream (inside a
            TLS record); None where this is the transport's stream.
        solid: all chunks are known to lie end to end, in the stream and in one buffer.
    """

    connection_no: int
    from_client: bool
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    packet_nos: NDArray[np.int32]
    seen_ns: NDArray[np.int64]
    in_order_ns: NDArray[np.int64]
    usable_ns: NDArray[np.int64]
    buffer_nos: NDArray[np.uint16]
    buffer_offsets: NDArray[np.int64]
    buffers: Sequence[memoryview | bytes]
    end: int
    begins_mid_stream: bool = False
    fin_ns: int | None = None
    reset_ns: int | None = None
    origins: NDArray[np.int64] | None = None
    solid: bool = False

    def __len__(self) -> int:
        """Number of chunks."""
        return len(self.starts)

    def chunk_at(self, offset: int) -> int:
        """Index of the chunk that holds the byte at `offset`; -1 if it lies in a gap."""
        index = int(np.searchsorted(self.starts, offset, "right")) - 1
        if index < 0 or offset >= self.starts[index] + self.lengths[index]:
            return -1
        return index

    def in_transport(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Offsets in the transport's stream of the bytes at `offsets` of this one.

        A byte that the capture lacks is placed as if it followed the chunk before it.
        """
        if self.origins is None or not len(self):
            return offsets
        chunk = np.maximum(np.searchsorted(self.starts, offsets, "right") - 1, 0)
        return self.origins[chunk] + (offsets - self.starts[chunk])

    def gaps(self) -> list[tuple[int, int]]:
        """(offset, length) of every stretch that the capture lacks, in order."""
        if not len(self):
            return [(0, self.end)] if self.end > 0 else []
        begins = np.concatenate(([0], self.starts + self.lengths))
        ends = np.concatenate((self.starts, [max(self.end, int(begins[-1]))]))
        missing = np.flatnonzero(ends > begins)
        return [(int(begins[i]), int(ends[i] - begins[i])) for i in missing]

    def segments(self) -> Iterator[tuple[int, memoryview, int]]:
        """(offset, bytes, chunk index) of every chunk in order, without copying."""
        views = [memoryview(buffer) for buffer in self.buffers]
        triples = zip(
            self.starts.tolist(),
            self.lengths.tolist(),
            self.buffer_nos.tolist(),
            self.buffer_offsets.tolist(),
            strict=True,
        )
        for index, (start, length, buffer_no, at) in enumerate(triples):
            yield start, views[buffer_no][at : at + length], index

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from `start` up to `stop`, ending early at the first gap."""
        parts: list[bytes] = []
        index = self.chunk_at(start)
        while 0 <= index < len(self) and start < stop:
            begin = int(self.starts[index])
            if start < begin:
                break  # a gap
            length = min(int(self.lengths[index]) - (start - begin), stop - start)
            at = int(self.buffer_offsets[index]) + start - begin
            parts.append(bytes(self.buffers[int(self.buffer_nos[index])][at : at + length]))
            start += length
            index += 1
        return b"".join(parts)
