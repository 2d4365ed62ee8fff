"""Encrypted ClientHello (RFC 9849), opened with what a key log says of it (RFC 9850).

The outer ClientHello carries the real one, the inner, sealed by HPKE (RFC 9180). A key log may
hold, under the outer random, the shared secret of the key encapsulation (``ECH_SECRET``) and the
configuration it was made for (``ECH_CONFIG``). That opens the inner hello: its server name, and
its random, under which the log has the connection's own secrets if the server accepted it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, Literal

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.tls.handshake import CLIENT_HELLO, SERVER_HELLO
from capture_analyzer.protocols.tls.hello import MAX_EXTENSIONS
from capture_analyzer.protocols.tls.key_schedule import hkdf_expand_label

ENCRYPTED_CLIENT_HELLO: Final = 0xFE0D
_OUTER_EXTENSIONS: Final = 0xFD00
_OUTER: Final = 0

_HASHES: Final[dict[int, Literal["sha256", "sha384", "sha512"]]] = {
    1: "sha256",
    2: "sha384",
    3: "sha512",
}
"""KDFs by number (RFC 9180, section 7.2)."""
_KEY_OCTETS: Final = {1: 16, 2: 32, 3: 32}
"""AEADs by number: AES-128-GCM, AES-256-GCM, ChaCha20-Poly1305 (RFC 9180, section 7.3)."""
_NONCE_OCTETS: Final = 12
_CONFIRMATION_OCTETS: Final = 8
_MESSAGE_HASH: Final = 254

_two_u16 = struct.Struct(">HH").unpack_from


class NoInnerHelloError(ValueError):
    """The inner ClientHello can't be had; the message says why, without content."""


@quick_dataclass(frozen=True)
class _Sealed:
    """The outer form of encrypted_client_hello: where its payload is in the hello's body."""

    kdf: int
    aead: int
    config_id: int
    start: int
    stop: int


def open_inner(outers: Sequence[bytes], secret: bytes, config: bytes) -> list[bytes]:
    """Bodies of the inner ClientHellos in these outer ones.

    Args:
        outers: bodies of a connection's ClientHellos, as captured; the second follows a
            HelloRetryRequest and is sealed with the same keys.
        secret: the shared secret of the key encapsulation.
        config: the ECHConfig, or a list of which it is a part.

    Raises:
        NoInnerHelloError: there is none, it does not open, or it breaks the rules.
    """
    inner: list[bytes] = []
    key = b""
    nonce = 0
    for number, outer in enumerate(outers):
        sealed = _sealed(outer)
        if number == 0:
            key, base = _context(sealed, secret, _matching(config, sealed.config_id))
            nonce = int.from_bytes(base, "big")
        zeros = bytes(sealed.stop - sealed.start)
        covered = outer[: sealed.start] + zeros + outer[sealed.stop :]
        payload = outer[sealed.start : sealed.stop]
        encoded = _open(sealed.aead, key, nonce ^ number, payload, covered)
        inner.append(_decoded(encoded, outer))
    return inner


def confirmed(
    inners: Sequence[bytes], between: bytes | None, server_hello: bytes, suite_hash: str
) -> bool:
    """Whether the server's random confirms the inner ClientHello (RFC 9849, section 7.2).

    Args:
        inners: bodies of the inner ClientHellos.
        between: body of the HelloRetryRequest between them, if there were two.
        server_hello: body of the ServerHello.
        suite_hash: hash of the agreed suite.
    """
    import hashlib
    import hmac

    transcript = _framed(CLIENT_HELLO, inners[0])
    if between is not None:
        digest = hashlib.new(suite_hash, transcript).digest()
        transcript = _framed(_MESSAGE_HASH, digest) + _framed(SERVER_HELLO, between)
        transcript += _framed(CLIENT_HELLO, inners[-1])
    end = 34
    begin = end - _CONFIRMATION_OCTETS
    blank = server_hello[:begin] + bytes(_CONFIRMATION_OCTETS) + server_hello[end:]
    hashed = hashlib.new(suite_hash, transcript + _framed(SERVER_HELLO, blank)).digest()
    prk = hmac.digest(bytes(len(hashed)), inners[0][2:34], suite_hash)
    expected = hkdf_expand_label(
        prk, "ech accept confirmation", _CONFIRMATION_OCTETS, suite_hash, hashed
    )
    return expected == server_hello[begin:end]


def _framed(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + len(body).to_bytes(3, "big") + body


def _extensions_at(body: bytes) -> int:
    """Where the length of a ClientHello's extensions stands."""
    at = 35 + body[34] if len(body) > 34 else len(body)
    at += 2 + int.from_bytes(body[at : at + 2], "big")
    at += 1 + (body[at] if at < len(body) else 0)
    if at + 2 > len(body):
        raise NoInnerHelloError("a ClientHello without extensions")
    return at


def _extensions(body: bytes, at: int) -> list[tuple[int, int, int]]:
    """(type, start, stop) of each extension; `at` is where their length stands."""
    end = at + 2 + int.from_bytes(body[at : at + 2], "big")
    at += 2
    found: list[tuple[int, int, int]] = []
    while at + 4 <= min(end, len(body)) and len(found) < MAX_EXTENSIONS:
        kind, length = _two_u16(body, at)
        found.append((kind, at + 4, at + 4 + length))
        at += 4 + length
    if at != end or end > len(body):
        raise NoInnerHelloError("extensions that break their lengths")
    return found


def _sealed(outer: bytes) -> _Sealed:
    for kind, start, stop in _extensions(outer, _extensions_at(outer)):
        if kind == ENCRYPTED_CLIENT_HELLO and stop - start > 10 and outer[start] == _OUTER:
            kdf, aead = _two_u16(outer, start + 1)
            at = start + 6
            at += 2 + int.from_bytes(outer[at : at + 2], "big")  # the encapsulated key
            if at + 2 <= stop and at + 2 + int.from_bytes(outer[at : at + 2], "big") == stop:
                return _Sealed(kdf, aead, outer[start + 5], at + 2, stop)
    raise NoInnerHelloError("no encrypted_client_hello")


def _matching(config: bytes, config_id: int) -> bytes:
    """The configuration with this number, if it stands in a list; else what was given."""
    if len(config) >= 2 and int.from_bytes(config[:2], "big") == len(config) - 2:
        at = 2
        while at + 5 <= len(config):
            stop = at + 4 + int.from_bytes(config[at + 2 : at + 4], "big")
            if config[at + 4] == config_id:
                return config[at:stop]
            at = stop
    return config


def _context(sealed: _Sealed, secret: bytes, config: bytes) -> tuple[bytes, bytes]:
    """(key, base nonce) of HPKE in base mode (RFC 9180, section 5.1)."""
    name, size = _HASHES.get(sealed.kdf), _KEY_OCTETS.get(sealed.aead)
    if name is None or size is None or len(config) < 7:
        raise NoInnerHelloError("algorithms of ECH that are not known")
    kem = config[5:7]
    suite = b"HPKE" + kem + sealed.kdf.to_bytes(2, "big") + sealed.aead.to_bytes(2, "big")
    return key_schedule(secret, b"tls ech\x00" + config, suite, name, size)


def key_schedule(
    secret: bytes, info: bytes, suite: bytes, hash_name: str, key_octets: int
) -> tuple[bytes, bytes]:
    """(key, base nonce) of HPKE's base mode from the shared secret (RFC 9180, section 5.1).

    Args:
        secret: of the key encapsulation.
        info: what both sides bind the keys to.
        suite: its suite_id.
        hash_name: of the KDF.
        key_octets: of the AEAD.
    """
    import hmac

    def extract(salt: bytes, label: bytes, material: bytes) -> bytes:
        return hmac.digest(salt, b"HPKE-v1" + suite + label + material, hash_name)

    def expand(key: bytes, label: bytes, context: bytes, length: int) -> bytes:
        labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + context
        # One block of output is enough: no key or nonce is longer than the hash.
        return hmac.digest(key, labelled + b"\x01", hash_name)[:length]

    context = b"\x00" + extract(b"", b"psk_id_hash", b"") + extract(b"", b"info_hash", info)
    shared = extract(secret, b"secret", b"")
    return (
        expand(shared, b"key", context, key_octets),
        expand(shared, b"base_nonce", context, _NONCE_OCTETS),
    )


def _open(aead: int, key: bytes, nonce: int, payload: bytes, covered: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

    cipher = ChaCha20Poly1305(key) if aead == 3 else AESGCM(key)
    try:
        return cipher.decrypt(nonce.to_bytes(_NONCE_OCTETS, "big"), payload, covered)
    except (InvalidTag, ValueError):
        raise NoInnerHelloError("it does not open with the key log's ECH secret") from None


def _decoded(encoded: bytes, outer: bytes) -> bytes:
    """The inner ClientHello's body out of its encoded form (RFC 9849, section 5.1).

    The session ID is that of the outer hello, and ech_outer_extensions names the extensions
    that are to be taken from there, in its order.
    """
    at = _extensions_at(encoded)
    own = _extensions(encoded, at)
    session = outer[34 : 35 + outer[34]]
    theirs = {
        kind: outer[start - 4 : stop]
        for kind, start, stop in reversed(_extensions(outer, _extensions_at(outer)))
    }
    parts: list[bytes] = []
    for kind, start, stop in own:
        if kind != _OUTER_EXTENSIONS:
            parts.append(encoded[start - 4 : stop])
            continue
        for place in range(start + 1, stop - 1, 2):
            named = theirs.get(int.from_bytes(encoded[place : place + 2], "big"))
            if named is None:
                raise NoInnerHelloError("it refers to an extension that the outer one lacks")
            parts.append(named)
    extensions = b"".join(parts)
    if len(extensions) > 0xFFFF:
        raise NoInnerHelloError("its extensions are too long")
    fixed = encoded[:34] + session + encoded[35 + encoded[34] : at]
    return fixed + len(extensions).to_bytes(2, "big") + extensions
