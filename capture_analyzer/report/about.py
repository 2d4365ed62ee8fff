"""The last part of a report: what the capture can't show, how numbers were got, what was removed.

Each function returns sentences.
"""

from __future__ import annotations

from capture_analyzer import wording
from capture_analyzer.model.analysis import Analysis, Tables
from capture_analyzer.report import labels


def cannot_show(tables: Tables) -> list[str]:
    """What no analysis of this capture could say."""
    where = labels.vantage(tables)
    told = []
    if "at the client" in where:
        told.append(
            "Time inside the client before the first packet: queueing for a connection, names from "
            "a cache, work between requests."
        )
    else:
        told.append(
            "Time inside the client before its first packet and after its last, and what happened "
            "to packets beyond the point of capture."
        )
    told.append(
        "Where on the way a packet was lost. A second capture at the other end would say which "
        "side of the path."
    )
    if "at the server" not in where:
        told.append(
            "What a server did while it was silent. “Server” means everything beyond the last "
            "round trip: proxies, queues, the program itself."
        )
    told.append("Copies that were lost before they reached the point of capture.")
    states = [c.tls.decrypted for c in tables.connections if c.tls is not None]
    if hidden := states.count("no"):
        told.append(
            f"Anything inside TLS on {wording.count(hidden, 'connection')}: "
            f"{'its' if hidden == 1 else 'their'} requests are inferred from packets."
        )
    if partly := states.count("partial"):
        told.append(
            f"What could not be decrypted on {wording.count(partly, 'connection')} that otherwise "
            "could; each connection says why."
        )
    missing = sum(connection.missing_bytes for connection in tables.connections)
    if missing:
        told.append(
            f"{wording.size(missing)} of the streams that the capture lacks; time that only they "
            "could explain is booked as not known."
        )
    told.append("Message content: it was never read into this report.")
    return told


def obtained(analysis: Analysis) -> list[str]:
    """How the numbers came about."""
    tables = analysis.tables
    finest = max((interface.ticks_per_second for interface in tables.interfaces), default=1_000_000)
    clock = (
        "1 ns" if finest >= 1_000_000_000 else "1 µs" if finest >= 1_000_000 else "more than 1 µs"
    )
    told = [
        (
            f"Times are those of the capture, to {clock}. Round figures are rounded from these; "
            "ledgers are not."
        ),
        (
            "Each exchange is split into causes that touch and never overlap. Where two apply, the "
            "order is fixed; where the evidence is missing, the time is not known."
        ),
        (
            "Server time is the wait less the smallest round trip so far on that connection, as "
            "far as it lies beyond the point of capture."
        ),
        "Every finding names its packets. The filters are Wireshark’s and use the frame numbers of "
        + ("this file." if len(tables.files) <= 1 else "the merged files."),
    ]
    if tables.exchanges.columns.inferred.any():
        told.append(
            "Exchanges marked inferred are flights of encrypted data: what the client sent, and "
            "what the server sent behind it."
        )
    return told


def removed(tables: Tables) -> list[str]:
    """What was kept out of the report, by its redaction level."""
    redaction = tables.redaction
    if redaction.level == "none":
        return [
            "Nothing: redaction was turned off. Field values and queries stand here as captured.",
            "Message content and keys are never part of a report.",
        ]
    counts = {
        "query value": redaction.query_values,
        "identifier": redaction.path_segments,
    }
    others = [wording.count(count, name) for name, count in counts.items() if count]
    told = []
    if redaction.field_values:
        told.append(
            f"{wording.count(redaction.field_values, 'value')} of header fields outside the "
            "allow-list, shown as … with their length."
        )
    if others:
        told.append(f"{' and '.join(others)}{' in paths' if redaction.path_segments else ''}.")
    told.append("All message content. Only lengths and counts were kept.")
    if redaction.level == "default":
        told.append(
            "Kept: host names, addresses, ports, paths. --redact hosts,ips,paths replaces them."
        )
    else:
        told.append(f"Replaced by numbers in order of appearance: {redaction.level}.")
    told.append("Keys are never part of a report.")
    return told
