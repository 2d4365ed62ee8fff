"""Walk over the TLS records of many streams at once, without copying what is in them.

Only the five header bytes of a record are read (RFC 8446, section 5.1). Streams are hopped
in lockstep by whole-array operations, one record of every stream a step, while many are
left; the rest one stream after another. Both ways find the same records.

A record whose header was captured is known with its length, whatever is missing of its
content. Where a header is missing, or where there is none, the walk goes on at the next
plausible header that chains to another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.tls_records import TlsRecords
from capture_analyzer.protocols.tls.chunks import Chunks, LostBoundary, Walked
from capture_analyzer.protocols.tls.walk import (
    HEADER_BYTES,
    MAX_FRAGMENT,
    MAX_LOST,
    SEARCH_BYTES,
    Walk,
)

__all__ = [
    "HEADER_BYTES",
    "MAX_FRAGMENT",
    "MAX_LOST",
    "SEARCH_BYTES",
    "Chunks",
    "LostBoundary",
    "Walked",
    "evidence",
    "to_table",
    "walk",
    "walk_rows",
]


def walk(stream: ByteStream) -> TlsRecords:
    """The records of one stream; `role` is left at 0 (unknown)."""
    chunks = Chunks.of(stream)
    walked = walk_rows(chunks, np.zeros(1, np.int64))
    count = len(walked.row)
    return to_table(
        chunks,
        walked,
        np.full(count, stream.connection_no, np.int32),
        np.full(count, stream.from_client),
    )


def to_table(
    chunks: Chunks,
    walked: Walked,
    connection_no: NDArray[np.int32],
    from_client: NDArray[np.bool_],
) -> TlsRecords:
    """The table of walked records; `role` is left at 0 (unknown)."""
    ends = walked.offset + HEADER_BYTES + walked.length
    last = walked.last_chunk
    last_captured = chunks.starts[last] + chunks.lengths[last] >= ends
    return TlsRecords(
        connection_no=connection_no,
        from_client=from_client,
        offset=walked.offset,
        length=walked.length,
        content_type=walked.content_type,
        first_packet_no=chunks.packet_nos[walked.first_chunk],
        last_packet_no=chunks.packet_nos[last],
        seen_ns=chunks.seen_ns[walked.first_chunk],
        in_order_ns=chunks.in_order_ns[walked.first_chunk],
        complete_ns=np.where(last_captured, chunks.in_order_ns[last], NO_TIME),
        complete=walked.complete,
        role=np.zeros(len(last), np.uint8),
        role_inferred=np.zeros(len(last), np.bool_),
        plaintext_bytes=np.full(len(last), -1, np.int32),
    )


def walk_rows(chunks: Chunks, rows: NDArray[np.int64]) -> Walked:
    """The records of these rows (ascending).

    A stream that begins in mid-record, or does not begin with a header, is searched for
    the first one.
    """
    return Walk(chunks).walk(rows)


def evidence(stream: ByteStream) -> int:
    """How surely a stream that does not begin with a hello carries TLS records: 0 to 4.

    One for each record header in a chain (up to three), and one more where the chain's last
    record ends exactly where the captured bytes end. Three is certain for all purposes; less
    may happen by chance. Only the first `SEARCH_BYTES` of each captured run are looked at.
    """
    if not len(stream):
        return 0
    walker = Walk(Chunks.of(stream))
    found = walker.search(0, 0, 0)
    captured_end = int(walker.ends[-1])
    headers = 0
    while found is not None and headers < 3:
        offset, chunk = found
        header = walker.header(0, offset, chunk)
        if header is None:
            break
        headers += 1
        offset += HEADER_BYTES + header[1]
        if offset == captured_end:
            return headers + 1
        chunk = walker.chunk_of(0, offset)
        found = (offset, chunk) if chunk >= 0 else None
    return headers
