"""A server's certificates did not fit into its initial window.

What it detects:
    Full handshakes in which the server's first flight (ServerHello to its last message) has more
    bytes than ten segments and came in two parts, at least most of a round trip apart: the server
    had to wait for an acknowledgement before it could send the rest. A long chain that fits, or
    that came at once, is none.

    The connections of one server are one finding.

Why it matters:
    Each new connection waits a round trip longer, for bytes that are often not needed.

What to do:
    Send only what clients need: the server's own certificate and the intermediates, no root, no
    old cross-signed chains. ECDSA keys and signatures are a fraction of RSA's size; put fewer
    names into a certificate; compress certificates (RFC 8879); raise the initial window.

When it is wrong:
    A server may also have paused in the middle of its flight: its certificate came from a
    process of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from capture_analyzer import wording
from capture_analyzer.detectors.about import about, number_of
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.handshakes import Handshake, handshakes_of
from capture_analyzer.detectors.phrases import amount
from capture_analyzer.detectors.servers import Server, label, server_of
from capture_analyzer.detectors.setups import carried
from capture_analyzer.detectors.severity import by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import column
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import ROLE_CODE

INITIAL_WINDOW: Final = 10  # segments (RFC 6928)
DEFAULT_MSS: Final = 1460


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    round_trip_share: float = column(
        "The flight must take so much of a round trip from its first byte to its last.",
        default=0.7,
    )


META = Meta(
    tables=("tls_records",),
    options=Options,
    severity=(
        "by the round trip it cost: critical: at least half of an exchange and 500 ms; warning: at "
        "least 10 % and 20 ms; info: less"
    ),
    references=("RFC 6928 (initial window of ten segments)", "RFC 8879 (certificate compression)"),
)


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each server."""
    records = tables.tls_records
    size = np.zeros(len(tables.connections), np.int64)
    server = np.flatnonzero((records.role == ROLE_CODE["handshake"]) & ~records.from_client)
    np.maximum.at(
        size,
        records.connection_no[server],
        records.offset[server] + records.length[server].astype(np.int64),
    )
    window = np.array(
        [INITIAL_WINDOW * (_mss(c.mss_client, c.mss_server) - 12) for c in tables.connections],
        np.int64,
    )
    groups: dict[Server, list[Handshake]] = {}
    for shake in handshakes_of(tables, np.flatnonzero(size > window).tolist()):
        tls, rtt = shake.connection.tls, shake.connection.rtt_ns
        if tls is None or tls.resumed or rtt is None or shake.flight_ns is None:
            continue
        if shake.flight_bytes <= window[shake.connection.connection_no]:
            continue
        first = shake.flight_first_ns
        if first is not None and shake.flight_ns - first >= options.round_trip_share * rtt:
            groups.setdefault(server_of(shake.connection), []).append(shake)
    for group in groups.values():
        yield _finding(tables, group)


def _mss(client: int | None, server: int | None) -> int:
    known = [mss for mss in (client, server) if mss]
    return min(known, default=DEFAULT_MSS)


def _finding(tables: Tables, group: list[Handshake]) -> Finding:
    connections = [shake.connection for shake in group]
    one = connections[0]
    setups = carried(tables, "tls_handshake", {c.connection_no for c in connections})
    saving = sum(connection.rtt_ns or 0 for connection in connections)
    largest = max(group, key=lambda shake: shake.flight_bytes)
    evidence = [shake.packets["flight"] for shake in group if "flight" in shake.packets]
    subject = "" if len(group) == 1 else f" in {number_of(len(group), 'handshake')}"
    columns = about(tables, connections)
    columns["exchange_nos"] = [entry.exchange.exchange_no for entry in setups.values()]
    return Finding(
        detector="tls/large-certificate-chain",
        severity=worst(by_default(one.rtt_ns or 0, entry.length_ns) for entry in setups.values()),
        confidence=0.9,
        summary=(
            f"{label(one)} sent {wording.size(largest.flight_bytes)} before the "
            f"client could go on{subject}, more than its initial window: one round trip "
            f"({amount(one.rtt_ns or 0)}) more."
        ),
        advice=(
            f"Let {label(one)} send fewer or smaller certificates: no root, no old cross-signed "
            "chains, ECDSA instead of RSA, fewer names."
        ),
        action=f"Shorten the certificate chain of {label(one)}",
        **columns,
        estimated_saving_ns=saving or None,
        measures={
            "flight_bytes": largest.flight_bytes,
            "handshakes": len(group),
            "rtt_ns": one.rtt_ns,
        },
        examples=[Example([number]) for number in evidence[:MAX_EXAMPLES]],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(evidence),
    )
