"""Encrypted ClientHello: which hello the server answered, as far as a key log tells."""

from __future__ import annotations

from collections.abc import Mapping

from capture_analyzer.model.connections import Connection
from capture_analyzer.model.secrets import Secrets
from capture_analyzer.protocols.tls import ech
from capture_analyzer.protocols.tls.connection import Understood
from capture_analyzer.protocols.tls.handshake import is_hello_retry
from capture_analyzer.protocols.tls.hello import (
    ClientHello,
    MalformedHelloError,
    parse_client_hello,
)
from capture_analyzer.protocols.tls.key_schedule import TLS13_SUITES

_PREFIX = "ECH_"


def answered_hello(
    connection: Connection, understood: Understood, session: Mapping[str, bytes], secrets: Secrets
) -> Mapping[str, bytes]:
    """The secrets of the ClientHello that the server answered, the inner or the outer one.

    Labels of a key log go by the random of the hello that was answered, only those of ECH itself
    by the outer one (RFC 9850, section 2.3). Notes on the connection which it was, and the names in
    both.

    Args:
        connection: offers encrypted_client_hello, which may be GREASE.
        understood: its hellos.
        session: what the key log has under the outer random.
        secrets: of the key logs.

    Returns:
        Empty if the log has none, or if it can't be told under which random they are.
    """
    tls = connection.tls
    assert tls is not None
    outer = {label: secret for label, secret in session.items() if not label.startswith(_PREFIX)}
    inners = _inner(understood, session)
    if not inners:
        if outer:
            tls.ech = "unused"
        return outer
    inner = _parsed(inners[0])
    if inner is None:
        return outer
    own = secrets.of(inner.random)
    if own or (not outer and _confirmed(understood, inners)):
        note_accepted(connection)
        connection.server_name = inner.server_name or connection.server_name
        tls.early_data = inner.early_data
        tls.resumption_offered = inner.psk_offered
        tls.alpn_offered = inner.alpn
        understood.client_random = inner.random
        return own
    if outer:
        tls.ech = "rejected"
    return outer


def note_accepted(connection: Connection) -> None:
    """The inner ClientHello was answered; the name that was seen is that of the outer one."""
    assert connection.tls is not None
    connection.tls.ech = "accepted"
    connection.tls.server_name_outer = connection.server_name


def _inner(understood: Understood, session: Mapping[str, bytes]) -> list[bytes]:
    """Bodies of the inner ClientHellos; none if the key log does not open them."""
    secret, config = session.get("ECH_SECRET"), session.get("ECH_CONFIG")
    if secret is None or config is None or not understood.client_hellos:
        return []
    try:
        return ech.open_inner(understood.client_hellos, secret, config)
    except ech.NoInnerHelloError:
        return []


def _parsed(body: bytes) -> ClientHello | None:
    try:
        return parse_client_hello(body)
    except MalformedHelloError:
        return None


def _confirmed(understood: Understood, inners: list[bytes]) -> bool:
    """Whether the ServerHello says that it answers the inner hello."""
    hellos = understood.server_hellos
    protection = TLS13_SUITES.get(understood.suite or 0)
    if not hellos or protection is None or len(hellos) != len(inners):
        return False
    retry = hellos[0] if is_hello_retry(hellos[0]) else None
    if len(inners) > 1 and retry is None:
        return False
    return ech.confirmed(inners, retry, hellos[-1], protection.hash)
