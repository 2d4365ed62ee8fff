"""The first records of TLS streams, among which their handshakes are."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.tls_records import TlsRecords
from capture_analyzer.pipeline.dissect.records import AllRecords, Records, Side
from capture_analyzer.pipeline.reassemble import Streams
from capture_analyzer.protocols.tls.connection import Fragment, Understood, understand
from capture_analyzer.protocols.tls.handshake import APPLICATION_DATA
from capture_analyzer.protocols.tls.records import HEADER_BYTES, Chunks, Walked
from capture_analyzer.protocols.tls.roles import Columns, Head

HEAD_RECORDS: Final = 16
"""Records of a direction among which its handshake is looked for: it has about ten."""

LONG_HEAD_RECORDS: Final = 1024
"""Where the handshake is not over after so few, because its messages are cut in pieces."""


class Heads:
    """The first records of each TLS stream.

    Those of connections that are known already are left out.
    """

    def __init__(
        self,
        streams: Streams,
        chunks: Chunks,
        walked: Walked,
        records: TlsRecords,
        first: NDArray[np.int64],
        totals: NDArray[np.int64],
        known: NDArray[np.intp],
    ) -> None:
        self.streams = streams
        self.chunks = chunks
        self.walked = walked
        self.records = records
        self.first: list[int] = first.tolist()
        self.totals: list[int] = totals.tolist()
        counts = np.minimum(totals, HEAD_RECORDS)
        counts[2 * known] = counts[2 * known + 1] = 0
        stops = np.cumsum(counts)
        self.starts: list[int] = (stops - counts).tolist()
        self.stops: list[int] = stops.tolist()
        # Record numbers of all heads, end to end.
        of_head = np.repeat(first - (stops - counts), counts) + np.arange(counts.sum())
        self.columns, self.fragment = self.gather(of_head)

    def first_of(self, place: int) -> tuple[int, int]:
        """The first records of the client and the server of the connection at this place."""
        return self.first[2 * place], self.first[2 * place + 1]

    def carries_data(self, place: int) -> bool:
        """Whether both sides sent application data records on the connection at this place."""
        return all(
            (
                self.walked.content_type[self.first[row] : self.first[row] + self.totals[row]]
                == APPLICATION_DATA
            ).any()
            for row in (2 * place, 2 * place + 1)
        )

    def gather(self, which: NDArray[np.int64]) -> tuple[Columns, Fragment]:
        """Columns of these records, and how to get at their content.

        Of most columns few numbers are looked at, so they become Python objects only then.
        """
        walked, records, chunks = self.walked, self.records, self.chunks
        streams = self.streams  # `fragment` must not hold this object, which holds it
        first, last = walked.first_chunk[which], walked.last_chunk[which]
        offset = walked.offset[which] + HEADER_BYTES
        length = walked.length[which]
        # How far into the chunk of its header each content begins, and what is left from there.
        skip = offset - chunks.starts[first]
        in_one = (skip >= 0) & (skip + length <= chunks.lengths[first])
        columns = Columns(
            walked.content_type[which].tobytes(),
            length.tolist(),
            records.first_packet_no[which].data,
            records.last_packet_no[which].data,
            records.seen_ns[which].data,
            chunks.seen_ns[last].data,
            records.complete_ns[which].data,
        )
        positions = np.where(in_one, chunks.buffer_offsets[first] + skip, -1).data
        buffer_nos, lengths = chunks.buffer_nos[first].data, columns.lengths
        views = [memoryview(buffer) for buffer in streams.buffers]

        def fragment(place: int) -> bytes | None:
            at = positions[place]
            if at >= 0:
                return bytes(views[buffer_nos[place]][at : at + lengths[place]])
            record = int(which[place])
            if not walked.complete[record]:
                return None
            row, start = int(walked.row[record]), int(offset[place])
            return streams.stream(row >> 1, not row & 1).read(start, start + lengths[place])

        return columns, fragment

    def understand(self, place: int, connection: Connection) -> Understood:
        """Read the handshake of the TLS connection at this place."""
        rtt_ns = connection.server_side_rtt_ns
        columns, starts, stops, totals = self.columns, self.starts, self.stops, self.totals
        row = 2 * place
        client = Head(columns, starts[row], stops[row], totals[row])
        row += 1
        server = Head(columns, starts[row], stops[row], totals[row])
        result = understand(client, server, self.fragment, rtt_ns=rtt_ns)
        if result.ends_in_clear:
            client, server, fragment = self.long(2 * place)
            result = understand(client, server, fragment, rtt_ns=rtt_ns)
        return result

    def long(self, row: int) -> tuple[Head, Head, Fragment]:
        """Longer heads of a client's stream and of its server's, which is the next row."""
        counts = [min(self.totals[at], LONG_HEAD_RECORDS) for at in (row, row + 1)]
        ranges = [
            np.arange(self.first[at], self.first[at] + count)
            for at, count in zip((row, row + 1), counts, strict=True)
        ]
        columns, fragment = self.gather(np.concatenate(ranges))
        client = Head(columns, 0, counts[0], self.totals[row])
        server = Head(columns, counts[0], sum(counts), self.totals[row + 1])
        return client, server, fragment

    def side(
        self, everything: AllRecords, row: int, number: int, from_client: bool, protected_from: int
    ) -> Side:
        """A stream with its records, to be decrypted."""
        first = self.first[row]
        records = Records(everything, first, first + self.totals[row])
        return Side(self.streams.stream(number, from_client), records, protected_from)

    def problem(
        self, place: int, number: int, clause: str, from_client: bool, index: int
    ) -> Anomaly:
        """The anomaly for what breaks the rules in a record."""
        record = self.first[2 * place + (not from_client)] + index
        last = len(self.records) - 1
        packet_no = int(self.records.first_packet_no[min(record, last)]) if last >= 0 else None
        return Anomaly("tls-malformed", "peer", clause, number, packet_no)
