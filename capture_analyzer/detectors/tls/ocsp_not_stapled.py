"""A server did not staple an OCSP response although the client asked for one.

What it detects:
    Full handshakes in which the client sent status_request, the server's certificate names an
    OCSP responder, and the server sent no response with it. A certificate without a responder
    is left alone: there is nothing to staple.

    The connections of one server are one finding.

Why it matters:
    The client is left with three choices, all bad: ask the responder itself and wait (see
    tls/ocsp-blocking-fetch), ask beside the handshake and tell the responder what it visits, or
    not check at all. Where the certificate says must-staple, clients refuse the connection.

What to do:
    Turn stapling on at the server, or at the load balancer that ends TLS. In nginx:
    ssl_stapling on, with a resolver, and the issuer's certificate in the chain; check that the
    server can reach the responder. Some servers fetch the first response only when the first
    client asks, and have none for it.

When it is wrong:
    Browsers and libraries send status_request by default, and many never use the answer: then
    nothing is lost. What a fetch cost is in tls/ocsp-blocking-fetch.

    In TLS 1.3 certificates are encrypted: without keys this can't be seen.
"""

from __future__ import annotations

from collections.abc import Iterable

from capture_analyzer.detectors.about import about, number_of
from capture_analyzer.detectors.chains import certificate_packets, shown
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.servers import label
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.certificates import Certificate
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding

META = Meta(
    tables=("certificates",),
    severity="warning: the certificate says must-staple; info: it does not",
    references=(
        "RFC 6066, section 8 (certificate status request)",
        "RFC 8446, section 4.4.2.1 (OCSP status in TLS 1.3)",
        "RFC 7633 (TLS feature extension, must-staple)",
    ),
)


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each server and certificate."""
    for _, certificate, connections in shown(tables):
        if certificate.position or certificate.staple_bytes is not None:
            continue
        if certificate.ocsp_responder is None:
            continue
        asked = [c for c in connections if c.tls is not None and c.tls.ocsp_requested]
        if asked:
            yield _finding(tables, certificate, asked)


def _finding(tables: Tables, certificate: Certificate, asked: list[Connection]) -> Finding:
    one = asked[0]
    numbers = {connection.connection_no for connection in asked}
    fetches = [row for row in tables.ocsp_fetches if row.connection_no in numbers]
    must = bool(certificate.must_staple)
    evidence = certificate_packets(tables, asked)
    where = "" if len(asked) == 1 else f" on {number_of(len(asked), 'connection')}"
    then = f"; its client then asked {certificate.ocsp_responder} itself" if fetches else ""
    demand = ", although the certificate demands it" if must else ""
    return Finding(
        detector="tls/ocsp-not-stapled",
        severity="warning" if must else "info",
        confidence=1.0,
        summary=f"{label(one)} stapled no OCSP response{where}{demand}{then}.",
        advice=(
            f"Turn OCSP stapling on at {label(one)}, and check that it can reach "
            f"{certificate.ocsp_responder}."
        ),
        action=f"Turn OCSP stapling on at {label(one)}",
        **about(tables, asked),
        measures={
            "responder": certificate.ocsp_responder,
            "must_staple": must,
            "connections": len(asked),
            "fetches": len(fetches),
        },
        examples=[Example([number]) for number in evidence[:MAX_EXAMPLES]],
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len(evidence),
    )
