"""ClientHello, ServerHello and HelloRetryRequest (RFC 8446, section 4.1; RFC 5246, 7.4.1).

Only what analysis needs is read; unknown extensions are skipped. Lengths in a message are the
peer's claims: whatever they say, nothing is read beyond the message.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterable
from typing import Final, Generic, TypeVar

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.tls.names import is_grease
from capture_analyzer.wire.text import printable

HELLO_RETRY_RANDOM: Final = bytes.fromhex(
    "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"
)
"""Random of a HelloRetryRequest: SHA-256 of its name (RFC 8446, section 4.1.3)."""

MAX_EXTENSIONS: Final = 128
"""Extensions read of one message: every real hello has fewer than thirty."""

# RFC 8446, section 4.2, and the registry.
SERVER_NAME: Final = 0
STATUS_REQUEST: Final = 5
SUPPORTED_GROUPS: Final = 10
ALPN: Final = 16
SESSION_TICKET: Final = 35
PRE_SHARED_KEY: Final = 41
EARLY_DATA: Final = 42
SUPPORTED_VERSIONS: Final = 43
KEY_SHARE: Final = 51
ENCRYPTED_CLIENT_HELLO: Final = 0xFE0D
RENEGOTIATION_INFO: Final = 0xFF01
_RENEGOTIATION_SCSV: Final = 0x00FF  # a suite that stands for an empty renegotiation_info

_SERVER_EXTENSIONS: Final = frozenset(
    (
        *(STATUS_REQUEST, ALPN, PRE_SHARED_KEY, SUPPORTED_VERSIONS, KEY_SHARE),
        RENEGOTIATION_INFO,
    )
)
_CLIENT_EXTENSIONS: Final = _SERVER_EXTENSIONS | {
    SERVER_NAME,
    SUPPORTED_GROUPS,
    SESSION_TICKET,
    EARLY_DATA,
    ENCRYPTED_CLIENT_HELLO,
}

_u16 = struct.Struct(">H").unpack_from
_two_u16 = struct.Struct(">HH").unpack_from


class MalformedHelloError(ValueError):
    """A hello breaks its own lengths; its message says where, without content."""


@quick_dataclass
class ClientHello:
    """What a ClientHello offers. Lists are in its order, without GREASE values.

    Attributes:
        legacy_version: the version field, 0x0303 in TLS 1.2 and 1.3.
        random: the 32 bytes that name the connection in a key log.
        session_id: legacy_session_id, empty if none was offered.
        versions: supported_versions, else the version field alone.
        server_name: SNI host name as text, None if absent.
        alpn: application protocols.
        psk_offered: it has pre_shared_key (TLS 1.3 resumption or external PSK).
        ticket_offered: it has a session_ticket that is not empty (RFC 5077).
        early_data: it has early_data.
        status_request: it asks for an OCSP response.
        secure_renegotiation: it has renegotiation_info, or the suite in its place (RFC 5746,
            section 3.3).
        ech: it has encrypted_client_hello: SNI and ALPN may be those of the outer hello.
    """

    legacy_version: int
    random: bytes
    session_id: bytes
    versions: list[int]
    server_name: str | None = None
    alpn: list[str] = dataclasses.field(default_factory=list)
    psk_offered: bool = False
    ticket_offered: bool = False
    early_data: bool = False
    status_request: bool = False
    ech: bool = False
    secure_renegotiation: bool = False
    _suites: bytes = b""
    _groups: bytes = b""
    _key_shares: bytes = b""

    @property
    def cipher_suites(self) -> list[int]:
        """The suites by their numbers."""
        return _numbers(self._suites, 0, len(self._suites))

    @property
    def groups(self) -> list[int]:
        """The groups of supported_groups."""
        return _numbers(self._groups, 2, len(self._groups))

    @property
    def key_share_groups(self) -> list[int]:
        """The groups it has a key share for."""
        groups: list[int] = []
        at = 2
        while at + 4 <= len(self._key_shares):
            group, length = _two_u16(self._key_shares, at)
            if not is_grease(group):
                groups.append(group)
            at += 4 + length
        return groups


@quick_dataclass
class ServerHello:
    """What a ServerHello selects.

    Attributes:
        version: supported_versions, else the version field.
        random, session_id: as sent.
        group: group of the key share; in a HelloRetryRequest the group that is asked for.
        alpn: the agreed protocol, in clear up to TLS 1.2 only.
        psk_accepted: it has pre_shared_key.
        status_request: it echoes status_request (up to TLS 1.2).
        hello_retry: it is a HelloRetryRequest.
        secure_renegotiation: it has renegotiation_info (RFC 5746, section 3.4).
    """

    version: int
    random: bytes
    session_id: bytes
    cipher_suite: int
    group: int | None = None
    alpn: str | None = None
    psk_accepted: bool = False
    status_request: bool = False
    hello_retry: bool = False
    secure_renegotiation: bool = False


_Hello = TypeVar("_Hello", ClientHello, ServerHello)


class _Known(Generic[_Hello]):
    """Hellos that were read, to read the next ones like them at once.

    The hellos of one program to one server mostly differ in nothing but bytes that are copied
    and not looked into (random, session ID, key shares ...). Where all other bytes are the
    same, so is everything that is read from them.
    """

    LENGTHS: Final = 1024
    """Lengths remembered: hostile hellos of ever new lengths must not fill the memory."""

    OF_A_LENGTH: Final = 4
    """Hellos remembered of each length: each is compared with the next one of that length."""

    def __init__(self) -> None:
        self._by_length: dict[int, list[tuple[list[tuple[int, int, bytes]], _Hello, int]]] = {}

    def like(self, body: bytes) -> tuple[_Hello, int] | None:
        """A hello that differs from this one in copied bytes only, and what came with it."""
        for fixed, hello, place in self._by_length.get(len(body), ()):
            for start, stop, content in fixed:
                if body[start:stop] != content:
                    break
            else:
                return hello, place
        return None

    def add(
        self, body: bytes, hello: _Hello, place: int, copied: Iterable[tuple[int, int]]
    ) -> None:
        """Remember a hello; `copied` are the stretches (start, stop) of copied bytes, in order."""
        fixed, at = [], 0
        for start, stop in copied:
            if start > at:
                fixed.append((at, start, body[at:start]))
            at = max(at, stop)
        fixed.append((at, len(body), body[at:]))
        fixed.reverse()  # what is apt to differ, such as names, stands behind the random
        if len(body) not in self._by_length and len(self._by_length) >= self.LENGTHS:
            self._by_length.clear()
        known = self._by_length.setdefault(len(body), [])
        known.insert(0, (fixed, hello, place))
        del known[self.OF_A_LENGTH :]


_known_client_hellos: Final = _Known[ClientHello]()
_known_server_hellos: Final = _Known[ServerHello]()


def parse_client_hello(body: bytes) -> ClientHello:
    """Read the body of a ClientHello (without the four bytes of its header).

    Raises:
        MalformedHelloError: it breaks off before its extensions, or they break their lengths.
    """
    known = _known_client_hellos.like(body)
    if known is not None:
        like, key_shares_at = known
        return ClientHello(
            like.legacy_version,
            body[2:34],
            body[35 : 35 + body[34]],
            like.versions.copy(),
            like.server_name,
            like.alpn.copy(),
            like.psk_offered,
            like.ticket_offered,
            like.early_data,
            like.status_request,
            like.ech,
            like.secure_renegotiation,
            like._suites,
            like._groups,
            body[key_shares_at : key_shares_at + len(like._key_shares)],
        )
    if len(body) < 35:
        raise MalformedHelloError("ClientHello shorter than its fixed fields")
    at = 35 + body[34]
    session_id = body[35:at]
    length = _need_u16(body, at, "ClientHello ends in its session ID")
    suites_at, at = at + 2, at + 2 + length
    if length % 2 or at >= len(body):
        raise MalformedHelloError("ClientHello ends in its cipher suites")
    suites = body[suites_at:at]
    at += 1 + body[at]
    (version,) = _u16(body)
    hello = ClientHello(version, body[2:34], session_id, [version], _suites=suites)
    key_shares_at = 0
    copied = [(2, 34), (35, 35 + len(session_id))]
    for kind, start, stop in _extensions(body, at, "ClientHello", _CLIENT_EXTENSIONS):
        if kind == SERVER_NAME:
            hello.server_name = host_name(body, start, stop)
        elif kind == SUPPORTED_VERSIONS:
            hello.versions = _numbers(body, start + 1, stop) or hello.versions
        elif kind == ALPN:
            hello.alpn = protocol_names(body, start + 2, stop)
        elif kind == KEY_SHARE:
            hello._key_shares = body[start:stop]
            key_shares_at = start
            copied.append((start, stop))
        elif kind == SUPPORTED_GROUPS:
            hello._groups = body[start:stop]
        elif kind == STATUS_REQUEST:
            hello.status_request = True
        elif kind == PRE_SHARED_KEY:
            hello.psk_offered = True
            copied.append((start, stop))
        elif kind == SESSION_TICKET:
            hello.ticket_offered = stop > start
            copied.append((start, stop))
        elif kind == EARLY_DATA:
            hello.early_data = True
        elif kind == ENCRYPTED_CLIENT_HELLO:
            hello.ech = True
            copied.append((start, stop))
        elif kind == RENEGOTIATION_INFO:
            hello.secure_renegotiation = True
    hello.secure_renegotiation |= _RENEGOTIATION_SCSV in hello.cipher_suites
    _known_client_hellos.add(body, hello, key_shares_at, copied)
    return hello


def parse_server_hello(body: bytes) -> ServerHello:
    """Read the body of a ServerHello or HelloRetryRequest.

    Raises:
        MalformedHelloError: as for a ClientHello.
    """
    known = _known_server_hellos.like(body)
    random = body[2:34]
    if known is not None and random != HELLO_RETRY_RANDOM:
        like, _ = known
        return ServerHello(
            like.version,
            random,
            body[35 : 35 + body[34]],
            like.cipher_suite,
            like.group,
            like.alpn,
            like.psk_accepted,
            like.status_request,
            secure_renegotiation=like.secure_renegotiation,
        )
    if len(body) < 38 or len(body) < 38 + body[34]:
        raise MalformedHelloError("ServerHello shorter than its fixed fields")
    at = 35 + body[34]
    (version,) = _u16(body)
    hello = ServerHello(version, random, body[35:at], _u16(body, at)[0])
    hello.hello_retry = random == HELLO_RETRY_RANDOM
    copied = [(2, 34), (35, at)]
    for kind, start, stop in _extensions(body, at + 3, "ServerHello", _SERVER_EXTENSIONS):
        if kind == SUPPORTED_VERSIONS and stop - start >= 2:
            hello.version = _u16(body, start)[0]
        elif kind == KEY_SHARE and stop - start >= 2:
            hello.group = _u16(body, start)[0]
            copied.append((start + 2, stop))
        elif kind == PRE_SHARED_KEY:
            hello.psk_accepted = True
        elif kind == ALPN:
            names = protocol_names(body, start + 2, stop)
            hello.alpn = names[0] if names else None
        elif kind == STATUS_REQUEST:
            hello.status_request = True
        elif kind == RENEGOTIATION_INFO:
            hello.secure_renegotiation = True
    if not hello.hello_retry:
        _known_server_hellos.add(body, hello, 0, copied)
    return hello


def _need_u16(body: bytes, at: int, otherwise: str) -> int:
    if at + 2 > len(body):
        raise MalformedHelloError(otherwise)
    return int(_u16(body, at)[0])


def _extensions(
    body: bytes, at: int, what: str, wanted: frozenset[int]
) -> list[tuple[int, int, int]]:
    """(type, start, stop) of each wanted extension; a hello may end without any."""
    if at >= len(body):
        if at > len(body):
            raise MalformedHelloError(f"{what} ends in its compression methods")
        return []
    end = at + 2 + _need_u16(body, at, f"{what} ends in the length of its extensions")
    if end > len(body):
        raise MalformedHelloError(f"{what} announces more extensions than it has")
    at += 2
    found: list[tuple[int, int, int]] = []
    for _ in range(MAX_EXTENSIONS):
        if at + 4 > end:
            break
        kind, length = _two_u16(body, at)
        start = at + 4
        at = start + length
        if at > end:
            raise MalformedHelloError(f"an extension runs over the end of the {what}")
        if kind in wanted:
            found.append((kind, start, at))
    return found


def _numbers(body: bytes, start: int, stop: int) -> list[int]:
    """The 16-bit numbers of a list, without GREASE."""
    count = (stop - start) // 2
    if count <= 0:
        return []
    return [
        number
        for number in struct.unpack_from(f">{count}H", body, start)
        if number & 0x0F0F != 0x0A0A or not is_grease(number)
    ]


def protocol_names(body: bytes, start: int, stop: int) -> list[str]:
    """Protocol names (RFC 7301, section 3.1), without GREASE."""
    names: list[str] = []
    while start < stop:
        length = body[start]
        name = body[start + 1 : min(start + 1 + length, stop)]
        start += 1 + length
        if not (len(name) == 2 and name[0] == name[1] and name[0] & 0x0F == 0x0A):
            names.append(printable(name))
    return names


def host_name(body: bytes, start: int, stop: int) -> str | None:
    """The first host_name of a server_name list (RFC 6066, section 3)."""
    start += 2
    while start + 3 <= stop:
        kind, length = body[start], _u16(body, start + 1)[0]
        start += 3
        if kind == 0:
            return printable(body[start : min(start + length, stop)]) or None
        start += length
    return None


def parse_encrypted_extensions(body: bytes) -> tuple[str | None, bool]:
    """(agreed application protocol, early data accepted) of an EncryptedExtensions message.

    RFC 8446, section 4.3.1. What is malformed says nothing.
    """
    alpn: str | None = None
    early = False
    at, end = 2, min(len(body), 2 + int.from_bytes(body[:2], "big"))
    while at + 4 <= end:
        kind, length = _two_u16(body, at)
        content = body[at + 4 : min(end, at + 4 + length)]
        if kind == ALPN and len(content) > 3 and 3 + content[2] <= len(content):
            alpn = printable(content[3 : 3 + content[2]])
        elif kind == EARLY_DATA:
            early = True
        at += 4 + length
    return alpn, early
