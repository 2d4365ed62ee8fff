"""Encrypted ClientHello (RFC 9849) around a handshake by OpenSSL, which does not speak it.

The client's socket seals the ClientHello that OpenSSL made into an outer one (HPKE, RFC 9180); the
server's opens it and hands it on. Both OpenSSLs see the inner hello only, and the key log goes by
its random, as it does where a server accepts ECH. What is missing is the confirmation in the
server's random, which OpenSSL draws.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Generator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from capture_maker.scripted import _draw, _extension, _vector
from capture_maker.simulation import US, Signal
from capture_maker.tls import RECORD_HEADER, TlsSocket

PUBLIC_NAME = "cover.example"
_KEM, _KDF, _AEAD = b"\0\x20", b"\0\1", b"\0\1"  # X25519, HKDF-SHA256, AES-128-GCM
_CONFIG_ID = 7
_ECH, _OUTER_EXTENSIONS = 0xFE0D, 0xFD00


def _key(name: str) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def _public(key: X25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


SERVER = _key("capture maker ech server")
CONFIG = b"\xfe\x0d" + _vector(
    bytes((_CONFIG_ID,))
    + _KEM
    + _vector(_public(SERVER), 2)
    + _vector(_KDF + _AEAD, 2)
    + b"\x20"
    + _vector(PUBLIC_NAME.encode(), 1)
    + b"\0\0",
    2,
)


def _extract(suite: bytes, salt: bytes, label: bytes, material: bytes) -> bytes:
    return hmac.digest(salt, b"HPKE-v1" + suite + label + material, "sha256")


def _expand(suite: bytes, secret: bytes, label: bytes, info: bytes, length: int) -> bytes:
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(secret, labelled + b"\1", "sha256")[:length]


def shared_secret(ephemeral: X25519PrivateKey) -> bytes:
    """Of the key encapsulation (RFC 9180, section 4.1)."""
    suite = b"KEM" + _KEM
    agreed = ephemeral.exchange(SERVER.public_key())
    prk = _extract(suite, b"", b"eae_prk", agreed)
    return _expand(suite, prk, b"shared_secret", _public(ephemeral) + _public(SERVER), 32)


def _seal(secret: bytes, plain: bytes, covered: bytes) -> bytes:
    """The first message of the context (RFC 9180, sections 5.1 and 5.2)."""
    suite = b"HPKE" + _KEM + _KDF + _AEAD
    info = b"tls ech\0" + CONFIG
    context = b"\0" + _extract(suite, b"", b"psk_id_hash", b"")
    context += _extract(suite, b"", b"info_hash", info)
    schedule = _extract(suite, secret, b"secret", b"")
    key = _expand(suite, schedule, b"key", context, 16)
    nonce = _expand(suite, schedule, b"base_nonce", context, 12)
    return AESGCM(key).encrypt(nonce, plain, covered)


def _parts(body: bytes) -> tuple[bytes, bytes, list[tuple[int, bytes]]]:
    """(up to the session ID, from the suites to the extensions, extensions) of a ClientHello."""
    at = suites = 35 + body[34]
    at += 2 + int.from_bytes(body[at : at + 2])
    at += 1 + body[at]
    middle = body[suites:at]
    extensions = []
    at += 2
    while at < len(body):
        size = int.from_bytes(body[at + 2 : at + 4])
        extensions.append((int.from_bytes(body[at : at + 2]), body[at + 4 : at + 4 + size]))
        at += 4 + size
    return body[:35], middle, extensions


def _joined(extensions: list[tuple[int, bytes]]) -> bytes:
    return _vector(b"".join(_extension(kind, data) for kind, data in extensions), 2)


class EchSocket(TlsSocket):
    """A TLS socket whose ClientHello is encrypted. `hidden` holds the inner one on its way."""

    def __init__(self, *args: object, key_log: Path, hidden: list[bytes], **more: object) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]
        self.key_log = key_log
        self.hidden = hidden
        self._first = True

    def handshake(self, work_ns: int = 700 * US) -> Generator[int | Signal, None, bool]:
        """Shake hands; the server first replaces the outer hello by the inner one."""
        if not self.endpoint.active:
            data = b""
            while len(data) < 5 or len(data) < 5 + int.from_bytes(data[3:5]):
                data += yield from self.endpoint.receive()
            yield work_ns
            self._incoming.write(self.hidden.pop())
        return (yield from super().handshake(work_ns))

    def _flush(self) -> tuple[int, int]:
        if not (self._first and self.endpoint.active):
            return super()._flush()
        self._first = False
        record = self._outgoing.read()
        self.hidden.append(record)
        outer = self._outer(record[RECORD_HEADER + 4 :])
        message = b"\1" + _vector(outer, 3)
        return self._send_records(b"\x16\x03\x01" + _vector(message, 2))

    def _outer(self, inner: bytes) -> bytes:
        """Body of the outer ClientHello around an inner one."""
        head, middle, extensions = _parts(inner)
        session = inner[35 : 35 + inner[34]]
        random = _draw(32, inner[2:34], "outer")
        ephemeral = _key(inner.hex())
        secret = shared_secret(ephemeral)
        # The last two extensions are not repeated inside, but taken from the outer hello.
        shared = extensions[-2:]
        references = _vector(b"".join(kind.to_bytes(2, "big") for kind, _ in shared), 1)
        own = [*extensions[:-2], (_OUTER_EXTENSIONS, references)]
        encoded = head[:34] + b"\0" + middle + _joined(own)
        encoded += bytes(-len(encoded) % 32)
        name = _vector(b"\0" + _vector(PUBLIC_NAME.encode(), 2), 2)
        outside = [(kind, name if kind == 0 else data) for kind, data in extensions]

        def hello(payload: bytes) -> bytes:
            sealed = b"\0" + _KDF + _AEAD + bytes((_CONFIG_ID,))
            sealed += _vector(_public(ephemeral), 2) + _vector(payload, 2)
            start = head[:2] + random + _vector(session, 1) + middle
            return start + _joined([*outside[:-2], (_ECH, sealed), *outside[-2:]])

        covered = hello(bytes(len(encoded) + 16))
        with self.key_log.open("a") as file:
            file.write(f"ECH_SECRET {random.hex()} {secret.hex()}\n")
            file.write(f"ECH_CONFIG {random.hex()} {CONFIG.hex()}\n")
        return hello(_seal(secret, encoded, covered))


__all__ = ["CONFIG", "PUBLIC_NAME", "EchSocket"]
