"""The content of encrypted connections could not be read.

What it detects:
    TLS connections that carried application data which was not, or only partly, decrypted.
    They are grouped by the reason: no key log was given, the key log holds the keys of other
    sessions, the capture begins after the handshake, the cipher suite is not supported.

Why it matters:
    Handshakes, loss, round trips and the times of requests and answers are known without
    keys. Methods, paths, status codes, requests that share a connection, and the events of
    a streamed answer are not: exchanges there are inferred from the direction and time of
    records.

What to do:
    Have the client write its session keys while the capture runs. Most TLS libraries do so
    when the environment variable SSLKEYLOGFILE names a file; browsers, curl, Python 3.8+ and
    Go (by its KeyLogWriter) among them. Start the client after the capture, so that the
    handshakes are in it, and give the file with --keylog. The keys decrypt this traffic for
    whoever holds them: treat the file as a secret.

When it is wrong:
    What has the shape of TLS records but is another protocol is reported as TLS.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.display_filter import tcp_streams
from capture_analyzer.detectors.phrases import listed, upper_first
from capture_analyzer.detectors.servers import label
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, Example, Finding

APPLICATION_DATA: Final = 23  # RFC 8446, section 5.1

META = Meta(
    tables=("connections",),
    severity="info: it limits what can be said, and harms no request",
    references=(
        "RFC 8446, section 5 (the record protocol)",
        "NSS key log format (SSLKEYLOGFILE), RFC 9850",
    ),
)

NO_REASON: Final = "no key log"


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each reason."""
    first_record = _first_application_records(tables)
    by_reason: dict[tuple[str, bool], list[Connection]] = {}
    for connection in tables.connections:
        tls = connection.tls
        if tls is None or tls.decrypted == "yes" or connection.connection_no not in first_record:
            continue
        key = (tls.why_not or NO_REASON, tls.decrypted == "partial")
        by_reason.setdefault(key, []).append(connection)
    total = sum(connection.tls is not None for connection in tables.connections)
    for (reason, partial), connections in by_reason.items():
        yield _finding(tables, reason, partial, connections, total, first_record)


def _first_application_records(tables: Tables) -> dict[int, int]:
    """First packet with application data of each connection that has any."""
    records = tables.tls_records
    which = np.flatnonzero(records.content_type == APPLICATION_DATA)
    if not len(which):
        return {}
    number = records.connection_no[which]
    begins = np.flatnonzero(np.diff(number, prepend=-1))
    first = np.minimum.reduceat(records.first_packet_no[which], begins)
    return dict(zip(number[begins].tolist(), first.tolist(), strict=True))


def _finding(
    tables: Tables,
    reason: str,
    partial: bool,
    connections: list[Connection],
    total: int,
    first_record: dict[int, int],
) -> Finding:
    numbers = [connection.connection_no for connection in connections]
    names = list(dict.fromkeys(label(connection) for connection in connections))
    count = len(connections)
    how = "decrypted only in part" if partial else "not decrypted"
    of = wording.count_word(total)
    if total == 1:
        outcome = f"The only TLS connection was {how}"
    elif count == total and not partial:
        outcome = f"None of the {of} TLS connections was decrypted"
    else:
        verb = "was" if count == 1 else "were"
        outcome = f"{upper_first(wording.count_word(count))} of {of} TLS connections {verb} {how}"
    evidence = [first_record[number] for number in numbers]
    return Finding(
        detector="capture/not-decrypted",
        severity="info",
        confidence=1.0,
        summary=f"{outcome}: {reason}.",
        advice=(
            f"These are connections to {listed(names)}. Loss and timing are certain; methods, "
            "paths and status codes are not known. Set SSLKEYLOGFILE=keys.log in the client's "
            "environment, start it after the capture, and analyse with --keylog keys.log."
        ),
        connection_no=numbers[0] if count == 1 else None,
        connection_nos=numbers,
        exchange_nos=tables.exchange_nos_of(numbers),
        from_ns=min(connection.start_ns for connection in connections),
        to_ns=max(connection.end_ns for connection in connections),
        count=count,
        measures={"connections": count, "tls_connections": total, "reason": reason},
        examples=[Example([packet_no]) for packet_no in evidence[:MAX_EXAMPLES]],
        packet_nos=evidence,
        packet_total=len(evidence),
        display_filter=tcp_streams(connection.tcp_stream for connection in connections),
    )
