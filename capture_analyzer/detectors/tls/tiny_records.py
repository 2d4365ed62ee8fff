"""A sender put its data into tiny TLS records.

What it detects:
    Directions of connections in which at least 20 application data records, and at least
    60 % of them, hold 16 bytes of plaintext or less. Record lengths are in clear text, so this
    is known without keys. What a record of full size spilled into the next one, and frames of
    HTTP/2 that hold no data, are not counted.

    The connections of one server are one finding a direction.

Why it matters:
    Each record costs 22 bytes or more of framing and a run of the cipher at both ends. Where
    each is also written by itself, it costs a packet: ten of them fill the window of a new or
    idle connection, however few bytes they hold, and the rest waits a round trip.

What to do:
    Collect what belongs together before writing: a buffered writer in front of the TLS layer,
    flushed once for each event or message, not for each of its pieces. A serializer that writes
    straight into the socket, or chunked framing written piece by piece, is the usual reason.

When it is wrong:
    A protocol whose messages are that small, and apart in time, has nothing to collect: a
    terminal session sends each key alone.

    Without keys the plaintext's length is the most it can be; padding makes it shorter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.servers import Server, label, server_of
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import column, distinct, rows_equal
from capture_analyzer.model.connections import Connection, record_overhead
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding, Severity
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import ROLE_CODE

HEADER_BYTES: Final = 5
SPILL_BYTES: Final = 1024  # a record of a direction's greatest length, from here on, can spill
CONTROL_BYTES: Final = (9, 13, 17)  # frames of HTTP/2 without data (RFC 9113, section 6)


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    least_records: int = column("Fewest tiny records of a direction.", default=20)
    least_share: float = column("Least share of its records.", default=0.6)
    tiny_bytes: int = column("Most plaintext in a tiny record.", unit="bytes", default=16)


META = Meta(
    tables=("tls_records",),
    options=Options,
    severity=(
        "warning: most of the tiny records travelled in packets of their own; info: they were "
        "sent together"
    ),
    references=(
        "RFC 8446, section 5.2 (record payload protection)",
        "RFC 6928 (initial window of ten segments)",
    ),
)


@quick_dataclass
class _Direction:
    """One direction of a connection with tiny records."""

    connection: Connection
    tiny: int
    records: int
    content_bytes: int  # of all application data records
    wire_bytes: int
    packets: int  # that the tiny records came in
    first: list[int]  # the first packets of them
    from_ns: int
    to_ns: int


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each server and direction."""
    records = tables.tls_records
    data = np.flatnonzero(records.role == ROLE_CODE["application"])
    if not len(data):
        return
    stream = 2 * records.connection_no[data].astype(np.int64) + ~records.from_client[data]
    overhead = np.array([record_overhead(c.tls) for c in tables.connections], np.int64)
    content = np.where(
        records.plaintext_bytes[data] >= 0,
        records.plaintext_bytes[data],
        np.maximum(records.length[data] - overhead[records.connection_no[data]], 0),
    )
    counted = ~(_control(tables, records.connection_no[data], content) | _spilled(stream, content))
    tiny = counted & (content <= options.tiny_bytes)
    count = 2 * len(tables.connections)
    all_records = np.bincount(stream[counted], minlength=count)
    tiny_records = np.bincount(stream[tiny], minlength=count)
    chosen = np.flatnonzero(
        (tiny_records >= options.least_records)
        & (tiny_records >= options.least_share * all_records)
    )
    groups: dict[tuple[Server, bool], list[_Direction]] = {}
    for number in chosen.tolist():
        connection = tables.connections[number >> 1]
        part = rows_equal(stream, number)
        mine = np.flatnonzero(counted[part]) + part.start
        small = data[mine[tiny[mine]]]
        packets = distinct(records.first_packet_no[small])
        groups.setdefault((server_of(connection), number % 2 == 0), []).append(
            _Direction(
                connection,
                len(small),
                len(mine),
                int(content[mine].sum()),
                int(records.length[data[mine]].sum()) + HEADER_BYTES * len(mine),
                len(packets),
                packets[:MAX_PACKET_NOS].tolist(),
                int(records.seen_ns[small[0]]),
                int(records.seen_ns[small[-1]]),
            )
        )
    for (_, from_client), group in groups.items():
        yield _finding(tables, group, from_client, options)


def _control(
    tables: Tables, connection_no: NDArray[np.int32], content: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Records as long as a control frame, where HTTP/2 is possible."""
    h2 = np.array(
        [
            c.alpn == "h2" or (c.alpn is None and c.tls is not None and "h2" in c.tls.alpn_offered)
            for c in tables.connections
        ],
        np.bool_,
    )
    control: NDArray[np.bool_] = np.isin(content, CONTROL_BYTES) & h2[connection_no]
    return control


def _spilled(stream: NDArray[np.int64], content: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Records behind one of the direction's greatest length: the rest of a larger write."""
    begins = np.flatnonzero(np.diff(stream, prepend=-1))
    most = np.maximum.reduceat(content, begins)
    count = np.diff(np.append(begins, len(stream)))
    full = (content == np.repeat(most, count)) & (content >= SPILL_BYTES)
    spilled = np.zeros(len(content), np.bool_)
    spilled[1:] = full[:-1] & (stream[1:] == stream[:-1])
    return spilled


def _finding(
    tables: Tables, group: list[_Direction], from_client: bool, options: Options
) -> Finding:
    one = group[0].connection
    by_count = sorted(group, key=lambda row: (-row.tiny, row.connection.connection_no))
    tiny, records = sum(row.tiny for row in group), sum(row.records for row in group)
    content, wire = sum(row.content_bytes for row in group), sum(row.wire_bytes for row in group)
    packets = sum(row.packets for row in group)
    alone = 2 * packets >= tiny
    severity: Severity = "warning" if alone else "info"
    connections = sorted(row.connection.connection_no for row in group)
    who = f"The client of {label(one)}" if from_client else label(one)
    in_packets = f", in {packets:,} packets" if alone else ""
    evidence = [number for row in by_count for number in row.first]
    return Finding(
        detector="tls/tiny-records",
        severity=severity,
        confidence=1.0,
        summary=(
            f"{who} cut its data into tiny TLS records: {tiny:,} of {records:,} held "
            f"{options.tiny_bytes}{wording.NBSP}bytes or less{in_packets}; "
            f"{wording.share(wire - content, wire)} of what was sent was framing."
        ),
        advice=(
            f"Let {'the client' if from_client else label(one)} collect what belongs together "
            "before it writes into TLS, and flush once for each event or message."
        ),
        action=f"Buffer writes into TLS at {'the client of ' if from_client else ''}{label(one)}",
        connection_no=connections[0] if len(connections) == 1 else None,
        connection_nos=connections,
        exchange_nos=tables.exchange_nos_of(connections),
        from_ns=min(row.from_ns for row in group),
        to_ns=max(row.to_ns for row in group),
        count=tiny,
        measures={
            "from_client": from_client,
            "records": records,
            "records_tiny": tiny,
            "content_bytes": content,
            "framing_bytes": wire - content,
            "packets": packets,
        },
        examples=[Example(row.first[:5]) for row in by_count[:MAX_EXAMPLES]],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=packets,
    )
