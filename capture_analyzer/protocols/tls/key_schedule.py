"""From a key log's secrets to record keys: TLS 1.3 (RFC 8446, section 7) and TLS 1.2."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

_IV_OCTETS: Final = 12

Aead = Literal["aes-gcm", "aes-ccm", "chacha20-poly1305"]


class _Hash(Protocol):
    def digest(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Protection:
    """How a cipher suite protects records, for suites that use an AEAD."""

    aead: Aead
    key_octets: int
    hash: Literal["sha256", "sha384"]
    tag_octets: int = 16

    @property
    def hash_octets(self) -> int:
        """Output length of the suite's hash function."""
        return 32 if self.hash == "sha256" else 48


_GCM_128: Final = Protection("aes-gcm", 16, "sha256")
_GCM_256: Final = Protection("aes-gcm", 32, "sha384")
_CHACHA: Final = Protection("chacha20-poly1305", 32, "sha256")
_CCM_128: Final = Protection("aes-ccm", 16, "sha256")
_CCM_256: Final = Protection("aes-ccm", 32, "sha256")
_CCM_8_128: Final = Protection("aes-ccm", 16, "sha256", 8)
_CCM_8_256: Final = Protection("aes-ccm", 32, "sha256", 8)

TLS13_SUITES: Final[dict[int, Protection]] = {
    0x1301: _GCM_128,
    0x1302: _GCM_256,
    0x1303: _CHACHA,
    0x1304: _CCM_128,
    0x1305: _CCM_8_128,
}
"""RFC 8446, appendix B.4."""

TLS12_SUITES: Final[dict[int, Protection]] = {
    # AES-GCM: RFC 5288, RFC 5289, RFC 5487
    **dict.fromkeys((0x009C, 0x009E, 0x00A0, 0x00A2, 0x00A4, 0x00A6, 0x00A8, 0x00AA), _GCM_128),
    **dict.fromkeys((0x009D, 0x009F, 0x00A1, 0x00A3, 0x00A5, 0x00A7, 0x00A9, 0x00AB), _GCM_256),
    **dict.fromkeys((0x00AC, 0xC02B, 0xC02D, 0xC02F, 0xC031, 0xD001), _GCM_128),
    **dict.fromkeys((0x00AD, 0xC02C, 0xC02E, 0xC030, 0xC032, 0xD002), _GCM_256),
    # ChaCha20-Poly1305: RFC 7905
    **dict.fromkeys(range(0xCCA8, 0xCCAF), _CHACHA),
    # AES-CCM: RFC 6655, RFC 7251
    **dict.fromkeys((0xC09C, 0xC09E, 0xC0A4, 0xC0A6, 0xC0AC), _CCM_128),
    **dict.fromkeys((0xC09D, 0xC09F, 0xC0A5, 0xC0A7, 0xC0AD), _CCM_256),
    **dict.fromkeys((0xC0A0, 0xC0A2, 0xC0A8, 0xC0AA, 0xC0AE), _CCM_8_128),
    **dict.fromkeys((0xC0A1, 0xC0A3, 0xC0A9, 0xC0AB, 0xC0AF), _CCM_8_256),
}
"""AEAD suites of TLS 1.2 by number."""


_INNER_PAD: Final = bytes(octet ^ 0x36 for octet in range(256))
_OUTER_PAD: Final = bytes(octet ^ 0x5C for octet in range(256))


@functools.cache
def _hash(name: str) -> tuple[Callable[[bytes], _Hash], int]:
    """How to hash something, and the octets of a block."""
    import hashlib  # loads all of OpenSSL: only where there is something to decrypt

    return getattr(hashlib, name), hashlib.new(name).block_size


def _keyed(secret: bytes, hash_name: str) -> Callable[[bytes], bytes]:
    """HMAC with this key (RFC 2104), which is used several times for short messages.

    So it takes about half as long as by `hmac.digest`.
    """
    new, block = _hash(hash_name)
    if len(secret) > block:
        secret = new(secret).digest()
    padded = secret.ljust(block, b"\0")
    inner, outer = padded.translate(_INNER_PAD), padded.translate(_OUTER_PAD)
    return lambda message: new(outer + new(inner + message).digest()).digest()


@functools.lru_cache(maxsize=64)  # most have no context
def _info(label: str, length: int, context: bytes) -> bytes:
    full = b"tls13 " + label.encode()
    return b"".join(
        (length.to_bytes(2, "big"), bytes([len(full)]), full, bytes([len(context)]), context)
    )


@functools.lru_cache(maxsize=64)
def _first(label: str, length: int, context: bytes = b"") -> bytes:
    """What the first block of the output is made of."""
    return _info(label, length, context) + b"\x01"


def hkdf_expand_label(
    secret: bytes, label: str, length: int, hash_name: str, context: bytes = b""
) -> bytes:
    """HKDF-Expand-Label (RFC 8446, section 7.1; RFC 5869)."""
    hmac = _keyed(secret, hash_name)
    out = block = hmac(_first(label, length, context))
    counter = 1
    while len(out) < length:
        counter += 1
        block = hmac(block + _info(label, length, context) + bytes([counter]))
        out += block
    return out[:length]


def traffic_key(secret: bytes, protection: Protection) -> tuple[bytes, bytes]:
    """(key, IV) of a traffic secret (RFC 8446, section 7.3); each is shorter than a hash."""
    hmac = _keyed(secret, protection.hash)
    size = protection.key_octets
    return hmac(_first("key", size))[:size], hmac(_first("iv", _IV_OCTETS))[:_IV_OCTETS]


def next_traffic_secret(secret: bytes, protection: Protection) -> bytes:
    """The secret after a KeyUpdate (RFC 8446, section 7.2)."""
    return hkdf_expand_label(secret, "traffic upd", len(secret), protection.hash)


def tls12_prf(secret: bytes, label: bytes, seed: bytes, length: int, hash_name: str) -> bytes:
    """The pseudorandom function of TLS 1.2 (RFC 5246, section 5)."""
    seed = label + seed
    out = b""
    a = seed
    hmac = _keyed(secret, hash_name)
    while len(out) < length:
        a = hmac(a)
        out += hmac(a + seed)
    return out[:length]


def tls12_keys(
    master_secret: bytes, client_random: bytes, server_random: bytes, protection: Protection
) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    """((client key, client IV), (server key, server IV)) of an AEAD suite.

    RFC 5246, section 6.3. The IV is the implicit part: 4 octets for GCM and CCM (RFC 5288,
    section 3; RFC 6655, section 3), 12 for ChaCha20-Poly1305 (RFC 7905, section 2).
    """
    iv_octets = 12 if protection.aead == "chacha20-poly1305" else 4
    key_octets = protection.key_octets
    block = tls12_prf(
        master_secret,
        b"key expansion",
        server_random + client_random,
        2 * (key_octets + iv_octets),
        protection.hash,
    )
    ivs = 2 * key_octets
    return (
        (block[:key_octets], block[ivs : ivs + iv_octets]),
        (block[key_octets:ivs], block[ivs + iv_octets :]),
    )
