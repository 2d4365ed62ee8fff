"""A certificate had expired, was about to, or was not valid yet.

What it detects:
    Certificates in a server's chain whose validity had ended when the connection was made, ends
    within 14 days of it, or had not begun. The time is that of the capture, not of its
    analysis. A self-signed certificate at the end of a chain is not judged: clients have their
    own copy of it.

    A certificate that one server showed on many connections is one finding.

Why it matters:
    Clients that check refuse the connection: every request fails at once, everywhere. It is the
    most common reason of a sudden outage that nobody's deployment caused.

What to do:
    Renew the certificate named here and reload the server; find out why the automatic renewal
    did not run. If an intermediate certificate has expired, take the current chain from the
    authority.

When it is wrong:
    The clock of the machine that captured may be wrong: compare the capture's date.

    In TLS 1.3 certificates are encrypted: without keys none can be judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from capture_analyzer import wording
from capture_analyzer.detectors.about import about
from capture_analyzer.detectors.chains import certificate_packets, shown, when
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.servers import label
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.certificates import Certificate
from capture_analyzer.model.column import column
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding, Severity
from capture_analyzer.model.quick_dataclass import quick_dataclass

DAY_NS: Final = 86_400_000_000_000
MINUTE_NS: Final = 60_000_000_000


@quick_dataclass(frozen=True)
class Options:
    """Thresholds of this detector."""

    days: int = column("Days before its end from which on a certificate is reported.", default=14)


META = Meta(
    tables=("certificates",),
    options=Options,
    severity="critical: expired, or not valid yet; warning: it ends within days",
    references=("RFC 5280, section 4.1.2.5 (validity)",),
)


def detect(tables: Tables, options: Options) -> Iterable[Finding]:
    """Yield a finding for each server, certificate and kind of fault."""
    for _, certificate, connections in shown(tables):
        if certificate.position and certificate.self_signed:
            continue
        end, begin = certificate.not_after_ns, certificate.not_before_ns
        if end is None or begin is None:
            continue
        last = max(when(connection) for connection in connections)
        first = min(when(connection) for connection in connections)
        if last > end:
            late = [connection for connection in connections if when(connection) > end]
            how = f"had expired {_age(last - end)} before"
            yield _finding(tables, certificate, late, "critical", how, last - end)
        elif first < begin:
            early = [connection for connection in connections if when(connection) < begin]
            how = f"becomes valid only {_age(begin - first)} later"
            yield _finding(tables, certificate, early, "critical", how, begin - first)
        elif end - last <= options.days * DAY_NS:
            how = f"expires {_age(end - last)} later"
            yield _finding(tables, certificate, connections, "warning", how, end - last)


def _age(ns: int) -> str:
    for unit, size in (("day", DAY_NS), ("hour", 60 * MINUTE_NS), ("minute", MINUTE_NS)):
        if ns >= size:
            return wording.count(ns // size, unit)
    return "less than a minute"


def _finding(
    tables: Tables,
    certificate: Certificate,
    connections: list[Connection],
    severity: Severity,
    how: str,
    distance_ns: int,
) -> Finding:
    one = connections[0]
    which = "certificate" if not certificate.position else "intermediate certificate"
    evidence = certificate_packets(tables, connections)
    return Finding(
        detector="tls/certificate-expiry",
        severity=severity,
        confidence=1.0,
        summary=f"The {which} that {label(one)} showed {how}.",
        advice=(
            f"Renew the {which} of {label(one)} and reload the server; find out why the "
            "automatic renewal did not run."
        ),
        action=f"Renew the {which} of {label(one)}",
        **about(tables, connections),
        measures={
            "name": certificate.name,
            "position": certificate.position,
            "distance_ns": distance_ns,
            "not_after_ns": certificate.not_after_ns,
        },
        examples=[Example([number]) for number in evidence[:MAX_EXAMPLES]],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(evidence),
    )
