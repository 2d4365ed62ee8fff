"""Packets were cut when they were captured.

What it detects:
    TCP segments and DNS messages of which the file holds less than was on the wire (a snap
    length). It says which connections could not be read for that reason. Packets that were
    cut where there was nothing to read are not meant.

    All of them are one finding.

Why it matters:
    Lengths and times stay right, so that what is said of loss, windows and round trips holds.
    But what was cut can't be read: heads of requests and answers (no method, path, status),
    TLS records (not even with keys), events of streams.

What to do:
    Capture whole packets (tcpdump -s 0). Where contents must not be captured, 96 bytes are
    enough for TCP; then give up requests, or capture on the server's side of TLS and keep the
    keys apart.

When it is wrong:
    A capture may have been cut on purpose: then this is no fault, only a limit of what can be
    said.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.display_filter import tcp_streams
from capture_analyzer.detectors.phrases import upper_first
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import distinct
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.packets import TCP, UDP

META = Meta(
    tables=("packets",),
    severity="warning: a connection could not be read for it; info: else",
    references=(
        "pcapng, Interface Description Block (snap length)",
        "tcpdump(1), option -s",
    ),
)

DNS_PORT = 53


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield one finding."""
    packets = tables.packets
    rows = np.flatnonzero(packets.payload_captured < packets.payload_bytes)
    protocol = packets.protocol[rows]
    named = (packets.source_port[rows] == DNS_PORT) | (packets.destination_port[rows] == DNS_PORT)
    rows = rows[(protocol == TCP) | ((protocol == UDP) & named)]
    if not len(rows):
        return
    owner = packets.connection_no[rows]
    numbers = distinct(owner[owner >= 0])
    read = _read(tables)
    unread = [number for number in numbers.tolist() if number not in read]
    longest = int(packets.captured_bytes[rows].max())
    missing = int(
        (packets.payload_bytes[rows].astype(np.int64) - packets.payload_captured[rows]).sum()
    )
    count = len(rows)
    evidence = (rows[:MAX_PACKET_NOS] + 1).tolist()
    times = packets.time_ns[rows]
    yield Finding(
        detector="capture/truncated-packets",
        severity="warning" if unread else "info",
        confidence=1.0,
        summary=_summary(count, longest, len(unread), len(numbers)),
        advice=(
            "Loss, windows and round trips are right all the same. Capture whole packets "
            "(tcpdump -s 0) if requests, answers and their contents are to be read."
        ),
        action="Capture whole packets (tcpdump -s 0)",
        connection_no=int(numbers[0]) if len(numbers) == 1 else None,
        connection_nos=numbers.tolist(),
        exchange_nos=tables.exchange_nos_of(numbers.tolist()),
        from_ns=int(times.min()),
        to_ns=int(times.max()),
        count=count,
        measures={
            "packets": count,
            "bytes_cut": missing,
            "captured_max_bytes": longest,
            "connections": len(numbers),
            "connections_unread": len(unread),
        },
        examples=[Example([number]) for number in evidence[:MAX_EXAMPLES]],
        packet_nos=evidence,
        packet_total=count,
        display_filter="frame.cap_len < frame.len"
        if len(numbers) != 1
        else tcp_streams([tables.connections[int(numbers[0])].tcp_stream])
        + " && frame.cap_len < frame.len",
    )


def _read(tables: Tables) -> set[int]:
    """Connections of which every exchange was read whole."""
    columns = tables.exchanges.columns
    whole = ~columns.inferred & (columns.missing_bytes == 0) & columns.complete
    bad = set(columns.connection_no[~whole].tolist())
    return set(columns.connection_no[whole].tolist()) - bad


def _summary(count: int, longest: int, unread: int, total: int) -> str:
    what = f"{upper_first(wording.count_word(count))} packet{'s were' if count > 1 else ' was'}"
    text = f"{what} cut to {wording.size(longest)} or less"
    if not unread:
        return f"{text}; nothing that was needed was in the rest."
    if unread == total == 1:
        return f"{text}; the contents of the only connection can't be read whole."
    which = "all" if unread == total else f"{wording.count_word(unread)} of {total:,}"
    return f"{text}; the contents of {which} connections can't be read whole."
