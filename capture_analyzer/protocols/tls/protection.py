"""Opening protected records: TLS 1.3 (RFC 8446, section 5.2) and the AEADs of TLS 1.2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Final, Protocol

from capture_analyzer.protocols.tls.key_schedule import (
    Protection,
    next_traffic_secret,
    traffic_key,
)

_EXPLICIT_NONCE_OCTETS: Final = 8  # RFC 5288, section 3
_APPLICATION_DATA: Final = b"\x17"


Octets = bytes | memoryview


class CannotOpenError(ValueError):
    """The record does not open with this key at this sequence number."""


class _Cipher(Protocol):
    def decrypt(self, nonce: bytes, data: Octets, associated_data: Octets | None) -> bytes: ...


def _cipher(protection: Protection, key: bytes) -> _Cipher:
    # Imported when there is something to decrypt: it takes as long as thousands of records.
    from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

    if protection.aead == "aes-gcm":
        return AESGCM(key)
    if protection.aead == "chacha20-poly1305":
        return ChaCha20Poly1305(key)
    return AESCCM(key, tag_length=protection.tag_octets)


@cache
def _refusals() -> tuple[type[Exception], ...]:
    """What a cipher raises for data that it does not open."""
    from cryptography.exceptions import InvalidTag

    return InvalidTag, ValueError


class Opener(Protocol):
    """Opens the records of one direction, in order."""

    sequence: int
    """The sequence number of the next record; it only moves on when one opens."""
    overhead_before: int
    """Octets of the fragment before the first octet of ciphertext."""
    overhead: int
    """Octets of the fragment beyond the content, if it is not padded."""

    def open(self, header: Octets, fragment: Octets) -> tuple[int, bytes]:
        """(content type, plaintext) of a record.

        Args:
            header: the record's five octets of type, version and length.
            fragment: all behind it.

        Raises:
            CannotOpenError: wrong key, wrong sequence number or damaged record.
        """
        ...


class Tls13Opener:
    """Opens TLS 1.3 records with one traffic secret and what KeyUpdate makes of it."""

    __slots__ = (
        "_decrypt",
        "_iv",
        "_protection",
        "_secret",
        "hash_octets",
        "overhead",
        "sequence",
    )
    overhead_before = 0

    def __init__(self, secret: bytes, protection: Protection) -> None:
        self._protection = protection
        self.hash_octets = protection.hash_octets
        self.overhead = protection.tag_octets + 1  # the inner content type
        self._install(secret)

    def _install(self, secret: bytes) -> None:
        self._secret = secret
        key, iv = traffic_key(secret, self._protection)
        self._decrypt = _cipher(self._protection, key).decrypt
        self._iv = int.from_bytes(iv, "big")
        self.sequence = 0

    def update(self) -> None:
        """Go on to the next traffic secret, as after a KeyUpdate (RFC 8446, section 4.6.3)."""
        self._install(next_traffic_secret(self._secret, self._protection))

    def updated(self) -> Tls13Opener:
        """An opener with the next traffic secret; this one stays as it is."""
        return Tls13Opener(next_traffic_secret(self._secret, self._protection), self._protection)

    def open(self, header: Octets, fragment: Octets) -> tuple[int, bytes]:
        """See `Opener.open`. The inner content type is the last octet that is not zero."""
        nonce = (self._iv ^ self.sequence).to_bytes(12, "big")
        try:
            inner = self._decrypt(nonce, fragment, header)
        except _refusals():
            raise CannotOpenError("the record does not open") from None
        self.sequence += 1
        if inner and inner[-1]:  # no padding: the common case
            return inner[-1], inner[:-1]
        inner = inner.rstrip(b"\x00")
        if not inner:
            raise CannotOpenError("a record of nothing but padding")
        return inner[-1], inner[:-1]

    def open_data(
        self, headers: Sequence[Octets], fragments: Sequence[Octets]
    ) -> tuple[list[bytes], bytes | None]:
        """Open records for as long as they hold application data.

        Args:
            headers: of the records.
            fragments: what is behind them.

        Returns:
            What they hold, each with the octet of its content type behind it; and what the
            record behind them holds, with its type likewise, if that is something else. None
            if there is no such record, or it does not open.
        """
        decrypt, iv = self._decrypt, self._iv
        contents: list[bytes] = []
        other: bytes | None = None
        try:
            for sequence, header, fragment in zip(
                count(self.sequence), headers, fragments, strict=False
            ):
                content = decrypt((iv ^ sequence).to_bytes(12, "big"), fragment, header)
                if content[-1:] != _APPLICATION_DATA:
                    stripped = content.rstrip(b"\x00")  # padding (RFC 8446, section 5.4)
                    if stripped[-1:] != _APPLICATION_DATA:
                        other = stripped or None
                        break
                    contents.append(stripped)
                else:
                    contents.append(content)
        except _refusals():
            pass
        self.sequence += len(contents) + (other is not None)
        return contents, other


class Tls12Opener:
    """Opens TLS 1.2 records of an AEAD suite (RFC 5246, section 6.2.3.3)."""

    __slots__ = (
        "_cipher",
        "_explicit",
        "_iv",
        "_protection",
        "overhead",
        "overhead_before",
        "sequence",
    )

    def __init__(self, key: bytes, iv: bytes, protection: Protection) -> None:
        self._protection = protection
        self._cipher = _cipher(protection, key)
        self._iv = iv
        self._explicit = protection.aead != "chacha20-poly1305"
        self.overhead_before = _EXPLICIT_NONCE_OCTETS if self._explicit else 0
        self.overhead = self.overhead_before + protection.tag_octets
        self.sequence = 0

    def open(self, header: Octets, fragment: Octets) -> tuple[int, bytes]:
        """See `Opener.open`."""
        sequence = self.sequence.to_bytes(8, "big")
        before = self.overhead_before
        length = len(fragment) - before - self._protection.tag_octets
        if length < 0:
            raise CannotOpenError("the record is shorter than its protection")
        if self._explicit:
            nonce = self._iv + bytes(fragment[:before])
        else:  # RFC 7905, section 2
            nonce = (int.from_bytes(self._iv, "big") ^ self.sequence).to_bytes(12, "big")
        additional = sequence + bytes(header[:3]) + length.to_bytes(2, "big")
        try:
            plain = self._cipher.decrypt(nonce, fragment[before:], additional)
        except _refusals():
            raise CannotOpenError("the record does not open") from None
        self.sequence += 1
        return header[0], plain
