"""The last step: names and addresses replaced by sequence numbers where that was asked for.

Addresses join packets, lookups and connections until the very end, so they can't be
replaced any earlier, unlike field values, which never enter a table.
"""

from __future__ import annotations

from capture_analyzer.model.analysis import Tables
from capture_analyzer.pipeline.redact import Redactor


def pseudonymise(tables: Tables, redactor: Redactor) -> None:
    """Replace addresses and names in place, as the redaction level says.

    Numbers are given in order of appearance in the capture.
    """
    ip, host = redactor.ip, redactor.host
    tables.packets.addresses = [ip(address) for address in tables.packets.addresses]
    for tunnel in tables.tunnels:
        tunnel.source_ip = ip(tunnel.source_ip)
        tunnel.destination_ip = ip(tunnel.destination_ip)
    for connection in tables.connections:
        connection.client_ip = ip(connection.client_ip)
        connection.server_ip = ip(connection.server_ip)
        if connection.server_name is not None:
            connection.server_name = host(connection.server_name)
        if connection.tls is not None and connection.tls.server_name_outer is not None:
            connection.tls.server_name_outer = host(connection.tls.server_name_outer)
    for lookup in tables.lookups:
        lookup.client_ip = ip(lookup.client_ip)
        lookup.server_ip = ip(lookup.server_ip)
        lookup.name = host(lookup.name)
        lookup.addresses = [ip(address) for address in lookup.addresses]
    for certificate in tables.certificates:
        certificate.name = certificate.name and host(certificate.name)
        certificate.dns_names = [host(name) for name in certificate.dns_names]
        certificate.ocsp_responder = certificate.ocsp_responder and host(certificate.ocsp_responder)
    for fetch in tables.ocsp_fetches:
        fetch.responder = host(fetch.responder)
    for _, exchange in tables.exchanges.made():
        if exchange.inferred and exchange.authority is not None:
            # The connection's name; what a request named was reduced when it was read.
            exchange.authority = host(exchange.authority)
