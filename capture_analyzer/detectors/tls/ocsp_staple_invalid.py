"""A stapled OCSP response was of no use, or said that the certificate is not good.

What it detects:
    Stapled responses that had expired when the connection was made, were not valid yet, are for
    another certificate than the server's own, report that the responder failed, can't be
    read, or say that the certificate is revoked or unknown.

    The connections of one server with one such response are one finding.

Why it matters:
    Clients that check refuse the connection, or ask the responder themselves and wait. A
    revoked certificate is refused by all of them, as it should be.

What to do:
    An expired or failed response: find out why the server could not renew it (no way to the
    responder, no resolver, a cron job that stopped) and let it staple nothing rather than that.
    For another certificate: the response was not exchanged with the certificate. Revoked:
    replace the certificate and its key now.

When it is wrong:
    The clock of the machine that captured may be wrong. The signature of the response is not
    checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from capture_analyzer import wording
from capture_analyzer.detectors.about import about, number_of
from capture_analyzer.detectors.chains import certificate_packets, shown, when
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.servers import label
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.certificates import Certificate
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding, Severity

SKEW_NS: Final = 300_000_000_000
"""Clocks of responders run ahead by minutes; what begins so soon is valid for everyone."""

HOUR_NS: Final = 3_600_000_000_000

META = Meta(
    tables=("certificates",),
    severity="critical: the certificate is revoked; warning: the response is of no use",
    references=(
        "RFC 6960, section 3.2 (signed response acceptance requirements)",
        "RFC 6066, section 8 (certificate status request)",
    ),
)


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each server and response."""
    for _, certificate, connections in shown(tables):
        if certificate.staple_bytes is None:
            continue
        fault = _fault(certificate, connections)
        if fault is not None:
            yield _finding(tables, certificate, *fault)


def _fault(
    certificate: Certificate, connections: list[Connection]
) -> tuple[str, str, list[Connection]] | None:
    """What is wrong with a response: a word, a clause, the connections it hurts."""
    if certificate.staple_response == "malformed":
        return "malformed", "can't be read", connections
    if certificate.staple_response != "successful":
        failure = str(certificate.staple_response).replace("_", " ")
        return "failed", f"says that the responder failed ({failure})", connections
    if certificate.staple_for_this is False:
        return "other_certificate", "is for another certificate", connections
    if certificate.staple_status == "revoked":
        return "revoked", "says that its certificate is revoked", connections
    if certificate.staple_status != "good":
        return "unknown", "says that the responder does not know its certificate", connections
    end = certificate.staple_next_update_ns
    if end is not None:
        late = [connection for connection in connections if when(connection) > end]
        if late:
            hours = (max(when(connection) for connection in late) - end) // HOUR_NS
            age = wording.count(hours, "hour") if hours < 48 else wording.count(hours // 24, "day")
            return "expired", f"had expired {age} before", late
    begin = certificate.staple_this_update_ns
    if begin is not None:
        early = [c for c in connections if when(c) < begin - SKEW_NS]
        if early:
            return "not_yet_valid", "is not valid yet", early
    return None


def _finding(
    tables: Tables, certificate: Certificate, fault: str, clause: str, hurt: list[Connection]
) -> Finding:
    one = hurt[0]
    severity: Severity = "critical" if fault == "revoked" else "warning"
    evidence = certificate_packets(tables, hurt)
    where = "" if len(hurt) == 1 else f" on {number_of(len(hurt), 'connection')}"
    if fault == "revoked":
        advice = f"Replace the certificate of {label(one)} and its key now."
        action = f"Replace the revoked certificate of {label(one)}"
    else:
        advice = (
            f"Find out why {label(one)} could not get a fresh response from "
            f"{certificate.ocsp_responder or 'its responder'}, and let it staple none rather "
            "than this one."
        )
        action = f"Renew the stapled OCSP response of {label(one)}"
    return Finding(
        detector="tls/ocsp-staple-invalid",
        severity=severity,
        confidence=1.0,
        summary=f"The OCSP response that {label(one)} stapled{where} {clause}.",
        advice=advice,
        action=action,
        **about(tables, hurt),
        measures={
            "fault": fault,
            "status": certificate.staple_status,
            "next_update_ns": certificate.staple_next_update_ns,
            "connections": len(hurt),
        },
        examples=[Example([number]) for number in evidence[:MAX_EXAMPLES]],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(evidence),
    )
