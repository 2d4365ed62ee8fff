"""Opening protected records: TLS 1.3 (RFC 8446, section 5.2) and the AEADs of TLS 1.2."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from capture_analyzer.protocols.tls.key_schedule import (
    Protection,
    next_traffic_secret,
    traffic_key,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

_EXPLICIT_NONCE_OCTETS: Final = 8  # RFC 5288, section 3
_DATA: Final = b"\x17"  # content type of application data
_HANDSHAKE: Final = 22
_HEAD_OF_FINISHED: Final = {
    octets: (slice(-4 - octets, -octets), bytes((20, 0, 0, octets))) for octets in (32, 48)
}
"""Where its type and length stand if Finished is the last message, and what they are then, by the
octets of a hash."""
_KEY_UPDATE: Final = b"\x18\x00\x00\x01"  # type and length of the message, RFC 8446, 4.6.3


Octets = bytes | memoryview


class CannotOpenError(ValueError):
    """The record does not open with this key at this sequence number."""


class _Cipher(Protocol):
    def decrypt(self, nonce: bytes, data: Octets, associated_data: Octets | None) -> bytes: ...


@cache
def _aeads() -> tuple[type[AESGCM], type[ChaCha20Poly1305], type[AESCCM]]:
    # Imported when there is something to decrypt: it takes as long as thousands of records.
    from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

    return AESGCM, ChaCha20Poly1305, AESCCM


def _cipher(protection: Protection, key: bytes) -> _Cipher:
    aes_gcm, chacha, aes_ccm = _aeads()
    if protection.aead == "aes-gcm":
        return aes_gcm(key)
    if protection.aead == "chacha20-poly1305":
        return chacha(key)
    return aes_ccm(key, tag_length=protection.tag_octets)


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
    typed: bool
    """`open_run` leaves the octet of its type behind each content."""

    def open(self, header: Octets, fragment: Octets) -> tuple[int, bytes]:
        """(content type, plaintext) of a record.

        Args:
            header: the record's five octets of type, version and length.
            fragment: all behind it.

        Raises:
            CannotOpenError: wrong key, wrong sequence number or damaged record.
        """
        ...

    def open_run(
        self, headers: Sequence[bytes], fragments: Sequence[Octets], *, one_key: bool
    ) -> tuple[list[bytes], list[int]]:
        """Open records of application data in a row, for as long as they open.

        Args:
            headers: of the records, whose type is that of application data.
            fragments: what is behind them.
            one_key: all of them may be expected to open with this key.

        Returns:
            What they hold, padding removed; and which of them hold something else, by place
            in that list. None follows a record that may be the last of its key.
        """
        ...


def open_in_turn(
    opener: Opener, headers: Sequence[bytes], fragments: Sequence[Octets]
) -> tuple[list[bytes], list[int]]:
    """`Opener.open_run` where the type of a record is what it says."""
    contents: list[bytes] = []
    with suppress(CannotOpenError):
        for header, fragment in zip(headers, fragments, strict=True):
            contents.append(opener.open(header, fragment)[1])
    return contents, []


class Tls13Opener:
    """Opens TLS 1.3 records with one traffic secret and what KeyUpdate makes of it."""

    __slots__ = (
        "_decrypt",
        "_in_turn",
        "_iv",
        "_protection",
        "_secret",
        "hash_octets",
        "overhead",
        "sequence",
    )
    overhead_before = 0
    typed = True

    def __init__(self, secret: bytes, protection: Protection) -> None:
        self._protection = protection
        self.hash_octets = protection.hash_octets
        self.overhead = protection.tag_octets + 1  # the inner content type
        self._in_turn = False  # some were opened in vain: from now on one after the other
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

    def open_run(
        self, headers: Sequence[bytes], fragments: Sequence[Octets], *, one_key: bool
    ) -> tuple[list[bytes], list[int]]:
        """See `Opener.open_run`; a record of nothing but padding does not open."""
        open_them = self._open_at_once if one_key and not self._in_turn else self._open_in_turn
        contents, others = open_them(headers, fragments)
        self.sequence += len(contents)
        return contents, others

    def _open_at_once(
        self, headers: Sequence[bytes], fragments: Sequence[Octets]
    ) -> tuple[list[bytes], list[int]]:
        """What all that open hold is looked at afterwards: that is the fastest way."""
        iv, sequence = self._iv, self.sequence
        numbers = range(sequence, sequence + len(fragments))
        nonces = [(iv ^ number).to_bytes(12, "big") for number in numbers]
        contents: list[bytes] = []
        with suppress(*_refusals()):  # those in front of one that does not open are kept
            contents.extend(map(self._decrypt, nonces, fragments, headers))
        others: list[int] = []
        rare = [place for place, content in enumerate(contents) if content[-1:] != _DATA]
        for place in rare:
            content = contents[place] = contents[place].rstrip(b"\x00")  # RFC 8446, section 5.4
            if content[-1:] == _DATA:
                continue
            if content:
                others.append(place)
                if not self._ends_key(content):
                    continue
            stop = place + len(content[:1])
            # Another key is due behind it. A sender that does without is not tried like this again.
            self._in_turn = stop < len(contents)
            del contents[stop:]
            break
        return contents, others

    def _open_in_turn(
        self, headers: Sequence[bytes], fragments: Sequence[Octets]
    ) -> tuple[list[bytes], list[int]]:
        """Each is looked at before the next one is tried."""
        decrypt, iv = self._decrypt, self._iv
        contents: list[bytes] = []
        others: list[int] = []
        with suppress(*_refusals()):
            for sequence, header, fragment in zip(
                count(self.sequence), headers, fragments, strict=False
            ):
                content = decrypt((iv ^ sequence).to_bytes(12, "big"), fragment, header)
                content = content.rstrip(b"\x00")
                if not content:
                    break
                contents.append(content)
                if content[-1:] != _DATA:
                    others.append(len(contents) - 1)
                    if self._ends_key(content):
                        break
        return contents, others

    def _ends_key(self, content: bytes) -> bool:
        """Whether a content, with its type behind it, may be the last that has this key.

        Finished is the last of the handshake's (RFC 8446, section 4.4.4), KeyUpdate of any
        other (4.6.3).
        """
        messages = content[:-1]
        return content[-1] == _HANDSHAKE and (self.finishes(messages) or self.asks_update(messages))

    def finishes(self, messages: bytes) -> bool:
        """Whether the last of these handshake messages is Finished."""
        place, head = _HEAD_OF_FINISHED[self.hash_octets]
        return messages[place] == head

    @staticmethod
    def asks_update(messages: bytes) -> bool:
        """Whether the last of these handshake messages is KeyUpdate."""
        return messages[-5:-1] == _KEY_UPDATE


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
    typed = False

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

    def open_run(
        self, headers: Sequence[bytes], fragments: Sequence[Octets], *, one_key: bool
    ) -> tuple[list[bytes], list[int]]:
        """See `Opener.open_run`."""
        return open_in_turn(self, headers, fragments)
