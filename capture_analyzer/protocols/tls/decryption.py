"""Decrypting one direction of a TLS connection with secrets from a key log.

Which key a record needs is found by trying: handshake messages that would tell may be lost,
and a record that opens under an AEAD was made with that key and sequence number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

from capture_analyzer.protocols.tls.key_schedule import (
    TLS12_SUITES,
    TLS13_SUITES,
    Protection,
    tls12_keys,
)
from capture_analyzer.protocols.tls.protection import (
    CannotOpenError,
    Opener,
    Tls12Opener,
    Tls13Opener,
)

CHANGE_CIPHER_SPEC: Final = 20
ALERT: Final = 21
HANDSHAKE: Final = 22
APPLICATION_DATA: Final = 23
_KEY_UPDATE: Final = 24  # handshake message type, RFC 8446, section 4.6.3

MAX_LOST_RECORDS: Final = 256
"""How many records may have been lost between two: so many sequence numbers are tried, each
for the price of one decryption (about 2 µs)."""
MAX_TRIED_FAILURES: Final = 8
"""After so many records in a row that no key opens, the long search is not made again until
one opens: a connection that can't be decrypted must not cost 256 tries a record."""


@dataclasses.dataclass(slots=True)
class Opened:
    """A record that opened.

    Attributes:
        content_type: its inner type.
        plaintext: what it holds, padding removed.
        lead: octets of its fragment before the first octet of ciphertext.
        early: it was early data (0-RTT).
    """

    content_type: int
    plaintext: bytes
    lead: int
    early: bool = False


class Decryptor:
    """Opens the protected records of one direction in order.

    Args:
        openers: in the order in which a sender uses them. The first may be for early data.
        early: the first of `openers` is for early data.
    """

    def __init__(self, openers: list[Opener], *, early: bool = False) -> None:
        self._openers = openers
        self._early = openers[0] if early else None
        self._current = 0
        self._failures = 0
        self.opened = 0
        self.failed = 0

    def open(self, content_type: int, version: bytes, fragment: bytes) -> Opened | None:
        """Open the next record; None if no key opens it."""
        for position in range(self._current, len(self._openers)):
            opener = self._openers[position]
            found = self._try(opener, content_type, version, fragment)
            if found is not None:
                return self._advance(position, found)
        return self._search(content_type, version, fragment)

    def _try(
        self, opener: Opener, content_type: int, version: bytes, fragment: bytes
    ) -> Opened | None:
        try:
            inner, plaintext = opener.open(content_type, version, fragment)
        except CannotOpenError:
            return None
        return Opened(inner, plaintext, opener.overhead_before, opener is self._early)

    def _advance(self, position: int, found: Opened) -> Opened:
        self._current = position
        self._failures = 0
        self.opened += 1
        opener = self._openers[position]
        if (
            found.content_type == HANDSHAKE
            and isinstance(opener, Tls13Opener)
            and found.plaintext[:1] == bytes((_KEY_UPDATE,))
        ):
            opener.update()
        return found

    def _search(self, content_type: int, version: bytes, fragment: bytes) -> Opened | None:
        """Records may have been lost: look ahead in sequence numbers, then for a key update."""
        self._failures += 1
        self.failed += 1
        if self._failures > MAX_TRIED_FAILURES:
            return None
        for position in range(self._current, len(self._openers)):
            opener = self._openers[position]
            before = opener.sequence
            for sequence in range(before + 1, before + MAX_LOST_RECORDS):
                opener.sequence = sequence
                found = self._try(opener, content_type, version, fragment)
                if found is not None:
                    self.failed -= 1
                    return self._advance(position, found)
            opener.sequence = before
        return None


def tls13_decryptors(
    secrets: Mapping[str, bytes], suite: int, *, early: bool
) -> tuple[Decryptor | None, Decryptor | None]:
    """(client's, server's) decryptors of a TLS 1.3 connection; None without a secret for it.

    Args:
        secrets: of this session, by key log label.
        suite: the agreed cipher suite.
        early: the client offered early data.
    """
    protection = TLS13_SUITES.get(suite)
    if protection is None:
        return None, None

    def made(*labels: str) -> list[Opener]:
        return [
            Tls13Opener(secrets[label], protection)
            for label in labels
            if len(secrets.get(label, b"")) == protection.hash_octets
        ]

    early_openers = made("CLIENT_EARLY_TRAFFIC_SECRET") if early else []
    client = early_openers + made("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0")
    server = made("SERVER_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0")
    return (
        Decryptor(client, early=bool(early_openers)) if client else None,
        Decryptor(server) if server else None,
    )


def tls12_decryptors(
    secrets: Mapping[str, bytes], suite: int, client_random: bytes, server_random: bytes
) -> tuple[Decryptor | None, Decryptor | None]:
    """(client's, server's) decryptors of a TLS 1.2 connection with an AEAD suite."""
    protection = TLS12_SUITES.get(suite)
    master = secrets.get("CLIENT_RANDOM")
    if protection is None or master is None or len(master) != 48:
        return None, None
    client, server = tls12_keys(master, client_random, server_random, protection)
    return (
        Decryptor([Tls12Opener(*client, protection)]),
        Decryptor([Tls12Opener(*server, protection)]),
    )


def can_decrypt(suite: int, *, tls13: bool) -> bool:
    """Whether records of this suite can be opened at all."""
    return suite in (TLS13_SUITES if tls13 else TLS12_SUITES)


def find_session(
    sessions: Iterator[dict[str, bytes]],
    from_client: bool,
    records: list[tuple[int, bytes, bytes]],
) -> tuple[dict[str, bytes], int] | None:
    """(secrets, suite) of a TLS 1.3 connection whose ClientHello was not captured, by trial.

    Args:
        sessions: the secrets of every session of the key log.
        from_client: the direction of `records`.
        records: (outer type, version, fragment) of the first application records captured.

    A session is believed when its traffic secret opens one of the records at a sequence
    number below MAX_LOST_RECORDS. Handshake secrets are tried as well, since a capture may
    begin between ClientHello and Finished.
    """
    side = "CLIENT" if from_client else "SERVER"
    labels = (f"{side}_TRAFFIC_SECRET_0", f"{side}_HANDSHAKE_TRAFFIC_SECRET")
    for secrets in sessions:
        for suite, protection in TLS13_SUITES.items():
            if suite not in (0x1301, 0x1302, 0x1303):
                continue
            openers = _openers(secrets, labels, protection)
            if openers and _opens_any(openers, records):
                return secrets, suite
    return None


def _openers(
    secrets: Mapping[str, bytes], labels: tuple[str, ...], protection: Protection
) -> list[Tls13Opener]:
    return [
        Tls13Opener(secrets[label], protection)
        for label in labels
        if len(secrets.get(label, b"")) == protection.hash_octets
    ]


def _opens_any(openers: list[Tls13Opener], records: list[tuple[int, bytes, bytes]]) -> bool:
    for opener in openers:
        for content_type, version, fragment in records:
            for sequence in range(MAX_LOST_RECORDS):
                opener.sequence = sequence
                try:
                    opener.open(content_type, version, fragment)
                except CannotOpenError:
                    continue
                return True
    return False
