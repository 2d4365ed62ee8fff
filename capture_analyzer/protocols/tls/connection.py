"""What both directions of a TLS connection say together, without keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from capture_analyzer.model.connections import TlsSummary
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import ROLE_CODE
from capture_analyzer.protocols.tls import handshake, names
from capture_analyzer.protocols.tls.handshake import (
    ClearMessage,
    ClearPart,
    Noted,
    read_clear,
)
from capture_analyzer.protocols.tls.hello import (
    ClientHello,
    MalformedHelloError,
    ServerHello,
    parse_client_hello,
    parse_server_hello,
)
from capture_analyzer.protocols.tls.roles import (
    AES_256_GCM_SHA384,
    Head,
    Tls13Roles,
    has_tls13_order,
    hash_by_finished,
    infer_roles,
    inferred_alpn,
)

Fragment = Callable[[int], bytes | None]
"""Gives the content of a record by its place in the columns; None if some of it is missing."""

TLS13: Final = 0x0304
_FATAL: Final = 2

_HANDSHAKE: Final = ROLE_CODE["handshake"]
_ALERT: Final = ROLE_CODE["alert"]
_TICKET: Final = ROLE_CODE["ticket"]
_EARLY: Final = ROLE_CODE["early_data"]


@quick_dataclass
class Understood:
    """A TLS connection as far as it can be read.

    Attributes:
        summary: the row's TLS facts; its `decrypted` and `why_not` are left alone.
        server_name: SNI.
        alpn: agreed protocol, read off or inferred.
        messages: handshake messages in clear, client's first; their records by index.
        client_roles, server_roles: (record index, role code) where the role is not the one
            that the outer content type says.
        tls13: application data is not told from handshake by the outer type.
        problems: (clause, from_client, record index) for what breaks the rules.
        ends_in_clear: the handshake goes on behind the records that were looked at.
        client_random, server_random: what names the session in a key log, and what its keys
            are made with; None if that hello was not captured.
        suite: number of the agreed cipher suite, None likewise.
        client_protected_from, server_protected_from: index of the first record that may be
            protected.
        certificate, certificate_status: bodies of the server's messages of these types, in
            clear or decrypted; None if there was none or it can't be read.
        client_hellos, server_hellos: bodies of these messages where the client offers
            encrypted_client_hello, to open it; else empty.
        keys_changed: a later handshake (up to TLS 1.2) put keys in force that are not known.
    """

    summary: TlsSummary
    server_name: str | None = None
    alpn: str | None = None
    messages: list[Noted] = dataclasses.field(default_factory=list)
    client_roles: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    server_roles: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    tls13: bool = True
    problems: list[tuple[str, bool, int]] = dataclasses.field(default_factory=list)
    ends_in_clear: bool = False
    client_random: bytes | None = None
    server_random: bytes | None = None
    suite: int | None = None
    client_protected_from: int = 0
    server_protected_from: int = 0
    certificate: bytes | None = None
    certificate_status: bytes | None = None
    client_hellos: list[bytes] = dataclasses.field(default_factory=list)
    server_hellos: list[bytes] = dataclasses.field(default_factory=list)
    keys_changed: bool = False


def understand(
    client: Head,
    server: Head,
    fragment: Fragment,
    *,
    rtt_ns: int | None,
) -> Understood:
    """Read the handshake of a connection and tell what its records carry.

    Args:
        client: the client's first records.
        server: the server's first records.
        fragment: content of the records, by their place in the columns.
        rtt_ns: round trip between the capture point and the server, if known.
    """
    summary = TlsSummary()
    result = Understood(summary)
    server_part = read_clear(server.columns.types, fragment, start=server.start, stop=server.stop)
    server_hellos = _server_hellos(server_part, server, result)
    final: tuple[ServerHello, ClearMessage] | None = None
    retried = False
    for pair in server_hellos:
        if pair[0].hello_retry:
            retried = True
        elif final is None:
            final = pair
    client_part = read_clear(
        client.columns.types,
        fragment,
        start=client.start,
        stop=client.stop,
        hello_again=retried,
    )
    client_hellos = _client_hellos(client_part, client, result)
    summary.hello_retry = retried or len(client_hellos) > 1
    result.client_protected_from = client_part.encrypted_from - client.start
    result.server_protected_from = server_part.encrypted_from - server.start

    if client_hellos:
        result.client_random = client_hellos[0][0].random
        _add_offer(result, client_hellos[0][0], client, client_hellos[0][1])
        if client_hellos[0][0].ech:
            result.client_hellos = [message.body for _, message in client_hellos]
            result.server_hellos = [message.body for _, message in server_hellos]
    if server_hellos:
        _add_choice(summary, (final or server_hellos[-1])[0])
    if final is not None:
        result.server_random, result.suite = final[0].random, final[0].cipher_suite
        result.tls13 = final[0].version == TLS13 or final[0].version >> 8 == 0x7F
        if result.tls13:
            last_hello = client_hellos[-1][1] if client_hellos else None
            _finish_tls13(result, client, server, final, last_hello, rtt_ns, client_part.skipped)
        else:
            offered = client_hellos[-1][0] if client_hellos else None
            _finish_tls12(result, client, server, client_part, server_part, final[0], offered)
    elif server_part.broken and has_tls13_order(client, server):
        _finish_cut_tls13(result, client, server, rtt_ns)
    _add_alert(summary, client_part, server_part)
    for from_client, part, head in ((True, client_part, client), (False, server_part, server)):
        result.messages += [message.noted(from_client, head.start) for message in part.messages]
        clear = part.encrypted_from - head.start
        result.ends_in_clear |= part.encrypted_from == head.stop and clear < head.total
        if part.malformed:
            result.problems.append(
                ("a clear record's content breaks the rules", from_client, clear)
            )
    return result


def _server_hellos(
    part: ClearPart, head: Head, result: Understood
) -> list[tuple[ServerHello, ClearMessage]]:
    hellos: list[tuple[ServerHello, ClearMessage]] = []
    for message in part.messages:
        if message.type == handshake.SERVER_HELLO:
            try:
                hellos.append((parse_server_hello(message.body), message))
            except MalformedHelloError as error:
                result.problems.append((str(error), False, message.first_record - head.start))
    return hellos


def _client_hellos(
    part: ClearPart, head: Head, result: Understood
) -> list[tuple[ClientHello, ClearMessage]]:
    hellos: list[tuple[ClientHello, ClearMessage]] = []
    for message in part.messages:
        if message.type == handshake.CLIENT_HELLO:
            try:
                hellos.append((parse_client_hello(message.body), message))
            except MalformedHelloError as error:
                result.problems.append((str(error), True, message.first_record - head.start))
    return hellos


def _add_offer(result: Understood, hello: ClientHello, head: Head, message: ClearMessage) -> None:
    summary = result.summary
    summary.start_ns = head.columns.seen_ns[message.first_record]
    summary.resumption_offered = hello.psk_offered or hello.ticket_offered
    if TLS13 not in hello.versions:
        # In TLS 1.3 a session ID is only for show (RFC 8446, appendix D.4).
        summary.resumption_offered |= bool(hello.session_id)
    summary.early_data = hello.early_data
    summary.ocsp_requested = hello.status_request
    summary.ech_offered = hello.ech
    summary.alpn_offered = hello.alpn
    result.server_name = hello.server_name
    result.alpn = hello.alpn[0] if len(hello.alpn) == 1 else None


def _add_choice(summary: TlsSummary, hello: ServerHello) -> None:
    summary.version = names.version_name(hello.version)
    summary.cipher_suite = names.suite_name(hello.cipher_suite)
    if hello.group is not None:
        summary.group = names.group_name(hello.group)


def _finish_tls13(
    result: Understood,
    client: Head,
    server: Head,
    final: tuple[ServerHello, ClearMessage],
    last_hello: ClearMessage | None,
    rtt_ns: int | None,
    skipped: list[int],
) -> None:
    hello, message = final
    summary = result.summary
    summary.resumed = hello.psk_accepted
    if hello.psk_accepted:
        summary.ocsp_stapled = False  # without a certificate (RFC 8446, section 4.4)
    if summary.early_data and (summary.hello_retry or not hello.psk_accepted):
        summary.early_data_accepted = False  # RFC 8446, section 4.2.10
    server_hello_ns = server.columns.seen_ns[message.first_record]
    roles = infer_roles(
        client,
        server,
        hash_bytes=48 if hello.cipher_suite == AES_256_GCM_SHA384 else 32,
        resumed=hello.psk_accepted,
        early_data=bool(summary.early_data) and not summary.hello_retry,
        hello_seen_ns=client.columns.seen_ns[last_hello.first_record]
        if last_hello
        else server_hello_ns,
        server_hello_seen_ns=server_hello_ns,
        server_hello_no=server.columns.first_packet_nos[message.first_record],
        rtt_ns=rtt_ns,
        skipped=skipped,
    )
    _take_roles(result, client, server, roles)
    flight = roles.server_handshake
    if len(flight) > 1:
        agreed = inferred_alpn(summary.alpn_offered, server.columns.lengths[flight[0]])
        if agreed is not None:
            result.alpn = agreed or None


def _finish_cut_tls13(result: Understood, client: Head, server: Head, rtt_ns: int | None) -> None:
    """As much as can be said where the capture has the headers of the hellos only.

    A snap length that keeps little of each packet leaves the record headers, and their order
    is that of TLS 1.3 alone.
    """
    summary = result.summary
    summary.version = names.version_name(TLS13)
    if summary.start_ns is None:
        summary.start_ns = client.columns.seen_ns[client.start]
    first_encrypted = client.of_type(handshake.APPLICATION_DATA)[0]
    roles = infer_roles(
        client,
        server,
        hash_bytes=hash_by_finished(client.columns.lengths[first_encrypted]),
        resumed=False,
        early_data=False,
        hello_seen_ns=client.columns.seen_ns[client.start],
        server_hello_seen_ns=server.columns.seen_ns[server.start],
        server_hello_no=server.columns.first_packet_nos[server.start],
        rtt_ns=rtt_ns,
    )
    _take_roles(result, client, server, roles)


def _take_roles(result: Understood, client: Head, server: Head, roles: Tls13Roles) -> None:
    base = client.start
    result.client_roles = [(place - base, _HANDSHAKE) for place in roles.client_handshake]
    if roles.client_early:
        result.client_roles += [(place - base, _EARLY) for place in roles.client_early]
    if roles.client_alert:
        result.client_roles += [(place - base, _ALERT) for place in roles.client_alert]
    base = server.start
    result.server_roles = [(place - base, _HANDSHAKE) for place in roles.server_handshake]
    if roles.server_tickets:
        result.server_roles += [(place - base, _TICKET) for place in roles.server_tickets]
    if roles.server_alert:
        result.server_roles += [(place - base, _ALERT) for place in roles.server_alert]
    if roles.client_finished is not None:
        end_ns = client.columns.last_seen_ns[roles.client_finished]
        _set_end(result.summary, end_ns, certain=False)


def _finish_tls12(
    result: Understood,
    client: Head,
    server: Head,
    client_part: ClearPart,
    server_part: ClearPart,
    hello: ServerHello,
    offered: ClientHello | None,
) -> None:
    """Resumption, stapling and end of a handshake up to TLS 1.2 (RFC 5246, section 7.3)."""
    summary = result.summary
    result.alpn = hello.alpn
    if offered is not None:
        summary.secure_renegotiation = offered.secure_renegotiation and hello.secure_renegotiation
    types = {message.type for message in server_part.messages}
    for message in server_part.messages:
        if message.type == handshake.CERTIFICATE:
            result.certificate = message.body
        elif message.type == handshake.CERTIFICATE_STATUS:
            result.certificate_status = message.body
    echoed = bool(hello.session_id) and offered is not None
    if offered is not None:
        echoed = echoed and offered.session_id == hello.session_id
    if types & {handshake.CERTIFICATE, handshake.SERVER_KEY_EXCHANGE, handshake.SERVER_HELLO_DONE}:
        summary.resumed = False
    elif echoed or (server_part.change_cipher_spec is not None and not server_part.broken):
        summary.resumed = True
    if handshake.CERTIFICATE_STATUS in types:
        summary.ocsp_stapled = True
    elif handshake.SERVER_HELLO_DONE in types or not hello.status_request:
        # It comes right behind the certificate, or not at all (RFC 6066, section 8).
        summary.ocsp_stapled = False
    if summary.group is None:
        summary.group = _group_of_key_exchange(server_part)

    client_finished = _finished_tls12(client, client_part)
    server_finished = _finished_tls12(server, server_part)
    if client_finished is None or server_finished is None:
        return
    first, second = sorted(
        (
            client.columns.last_seen_ns[client_finished],
            server.columns.last_seen_ns[server_finished],
        )
    )
    data = client.of_type(handshake.APPLICATION_DATA)
    false_start = len(data) > 0 and client.columns.seen_ns[data[0]] < second
    _set_end(summary, first if false_start else second, certain=True)


def _finished_tls12(head: Head, part: ClearPart) -> int | None:
    """The encrypted handshake record behind a ChangeCipherSpec: the Finished."""
    if part.change_cipher_spec is None:
        return None
    found = head.columns.types.find(handshake.HANDSHAKE, part.change_cipher_spec + 1, head.stop)
    return found if found >= 0 else None


def _group_of_key_exchange(part: ClearPart) -> str | None:
    """The named curve of a ServerKeyExchange (RFC 8422, section 5.4)."""
    for message in part.messages:
        body = message.body
        if message.type == handshake.SERVER_KEY_EXCHANGE and len(body) > 3 and body[0] == 3:
            return names.group_name(body[1] << 8 | body[2])
    return None


def _set_end(summary: TlsSummary, end_ns: int, *, certain: bool) -> None:
    summary.end_ns = end_ns
    summary.end_certain = certain
    if summary.start_ns is not None:
        summary.duration_ns = end_ns - summary.start_ns


def _add_alert(summary: TlsSummary, client: ClearPart, server: ClearPart) -> None:
    for who, part in (("server", server), ("client", client)):
        for level, description, _ in part.alerts:
            if level == _FATAL:
                summary.alert = f"{who}: {names.alert_name(description)}"
                return
