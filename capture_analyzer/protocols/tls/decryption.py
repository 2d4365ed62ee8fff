"""Decrypting one direction of a TLS connection with secrets from a key log.

Which key and sequence number a record needs is found by trying: handshake messages that would
tell may be lost, and a record that opens under an AEAD was made with that key and number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.tls.cbc import CBC_SUITES, CbcOpener, cbc_keys
from capture_analyzer.protocols.tls.key_schedule import (
    TLS12_SUITES,
    TLS13_SUITES,
    tls12_keys,
)
from capture_analyzer.protocols.tls.protection import (
    CannotOpenError,
    Octets,
    Opener,
    Tls12Opener,
    Tls13Opener,
)

CHANGE_CIPHER_SPEC: Final = 20
ALERT: Final = 21
HANDSHAKE: Final = 22
APPLICATION_DATA: Final = 23

MAX_LOST_RECORDS: Final = 4096
"""Most records that may have been lost in front of one: so many sequence numbers are tried."""
MAX_TRIES: Final = 1 << 13
"""Decryptions that one direction may cost beyond one a record and key, about 3 µs each."""
_SLACK: Final = 2
"""How far the search goes beyond what was lost: a record may be lost without a trace where
the records' boundaries were."""


@quick_dataclass
class Opened:
    """A record that opened.

    Attributes:
        content_type: its inner type.
        plaintext: what it holds, padding removed.
        lead: octets of its fragment before the first octet of ciphertext.
        early: it was early data (0-RTT).
        lost: how many records of this key were lost in front of it, by the sequence numbers.
        new_key: it is the first record that opened with its key.
    """

    content_type: int
    plaintext: bytes
    lead: int
    early: bool = False
    lost: int = 0
    new_key: bool = False


class Decryptor:
    """Opens the protected records of one direction in order.

    Args:
        openers: in the order in which a sender uses them. The first may be for early data.
        early: the first of `openers` is for early data.
        data_from: the first of `openers` whose key is for application data; None = the last.

    Attributes:
        overhead: octets that protection adds to the content of a record, without padding.
        data_key: a key for application data is in use.
        opened: records that opened.
        failed: records that did not.
    """

    def __init__(
        self, openers: Sequence[Opener], *, early: bool = False, data_from: int | None = None
    ) -> None:
        self._openers = list(openers)
        self._data_from = len(openers) - 1 if data_from is None else data_from
        self._early = openers[0] if early else None
        self._current = 0
        # How many records were lost since the last one that opened: at least, at most.
        self._least = 0
        self._most = 0
        self._tries = MAX_TRIES
        self.overhead = openers[0].overhead
        self.data_key = self._data_from == 0
        self._fresh = False  # no record has opened with the current key, which followed another
        self.opened = 0
        self.failed = 0

    def lose(self, least: int, most: int) -> None:
        """Between so many records were lost in front of the next one."""
        self._least = min(self._least + least, MAX_LOST_RECORDS)
        self._most = min(self._most + most, MAX_LOST_RECORDS)

    def open(self, header: Octets, fragment: Octets) -> Opened | None:
        """Open the next record; None if no key opens it."""
        if not self._most:  # nothing was lost: the common case
            opener = self._openers[self._current]
            found = self._try(opener, header, fragment)
            if found is None:
                found = self._open_with_next(header, fragment)
        else:
            found = self._search(header, fragment)
        if found is None:
            self.failed += 1
            self.lose(0, 1)
            return None
        self.opened += 1
        self._least = self._most = 0
        found.new_key |= self._fresh
        self._fresh = False
        if found.content_type == HANDSHAKE:
            self._follow(found.plaintext)
        return found

    def _follow(self, messages: bytes) -> None:
        """Go on to the next key of TLS 1.3 behind the last record of one."""
        opener = self._openers[self._current]
        if not isinstance(opener, Tls13Opener):
            return
        if opener.asks_update(messages):
            opener.update()
        elif (
            not self.data_key
            and self._current + 1 < len(self._openers)
            and opener.finishes(messages)
        ):
            self._take(self._current + 1)
            self._fresh = True

    @property
    def opens_runs(self) -> bool:
        """Whether `open_run` may open anything: nothing was lost, and it is not early data."""
        return not self._most and self._openers[self._current] is not self._early

    @property
    def lead(self) -> int:
        """Octets of a fragment before the first octet of ciphertext."""
        return self._openers[self._current].overhead_before

    @property
    def typed(self) -> bool:
        """`open_run` leaves the octet of its type behind each content."""
        return self._openers[self._current].typed

    def open_run(
        self, headers: Sequence[bytes], fragments: Sequence[Octets]
    ) -> tuple[list[bytes], list[int]]:
        """Open records of application data in a row, as `Opener.open_run` does.

        It goes as far as they open with the current key. There may be none.
        """
        opener = self._openers[self._current]
        contents, others = opener.open_run(headers, fragments, one_key=self.data_key)
        if contents:
            self.opened += len(contents)
            self._fresh = False
        if others:
            last = contents[others[-1]]
            if last[-1] == HANDSHAKE:
                self._follow(last[:-1])
        return contents, others

    def _try(self, opener: Opener, header: Octets, fragment: Octets) -> Opened | None:
        try:
            inner, plaintext = opener.open(header, fragment)
        except CannotOpenError:
            return None
        return Opened(inner, plaintext, opener.overhead_before, opener is self._early)

    def _open_with_next(self, header: Octets, fragment: Octets) -> Opened | None:
        for position in range(self._current + 1, len(self._openers)):
            found = self._try(self._openers[position], header, fragment)
            if found is not None:
                found.new_key = True
                self._take(position)
                return found
        return None

    def _take(self, position: int) -> None:
        self._current = position
        self.data_key = position >= self._data_from

    def _search(self, header: Octets, fragment: Octets) -> Opened | None:
        """Records may have been lost: look ahead in sequence numbers, then for other keys."""
        current = self._openers[self._current]
        least = 0 if self._fresh else self._least  # others may have been of the key before
        found = self._scan(current, least, self._most, header, fragment, new_key=False)
        if found is not None:
            return found
        for position in range(self._current + 1, len(self._openers)):
            opener = self._openers[position]
            found = self._scan(opener, 0, self._most, header, fragment)
            if found is not None:
                self._take(position)
                return found
        if isinstance(current, Tls13Opener) and self.opened:
            updated = current.updated()  # a KeyUpdate may be among what was lost
            found = self._scan(updated, 0, self._most, header, fragment)
            if found is not None:
                self._openers[self._current] = updated
        return found

    def _scan(
        self,
        opener: Opener,
        least: int,
        most: int,
        header: Octets,
        fragment: Octets,
        *,
        new_key: bool = True,
    ) -> Opened | None:
        """Try the sequence numbers behind so many lost records."""
        before = opener.sequence
        # The likeliest first; one try is free, as if nothing had been lost.
        stop = most + 1 + _SLACK if self._tries > 0 else least + 1
        for lost in (*range(least, stop), *range(least)):
            opener.sequence = before + lost
            found = self._try(opener, header, fragment)
            if found is not None:
                found.lost, found.new_key = lost, new_key
                return found
            self._tries -= 1
            if self._tries <= 0:
                break
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
    early_openers = tls13_openers(secrets, suite, "CLIENT_EARLY_TRAFFIC_SECRET") if early else []
    client = early_openers + tls13_openers(
        secrets, suite, "CLIENT_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0"
    )
    server = tls13_openers(
        secrets, suite, "SERVER_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0"
    )
    return (
        Decryptor(client, early=bool(early_openers)) if client else None,
        Decryptor(server) if server else None,
    )


def tls13_openers(secrets: Mapping[str, bytes], suite: int, *labels: str) -> list[Tls13Opener]:
    """An opener for each of these labels that the secrets have, if it fits the suite."""
    protection = TLS13_SUITES.get(suite)
    if protection is None:
        return []
    return [
        Tls13Opener(secrets[label], protection)
        for label in labels
        if len(secrets.get(label, b"")) == protection.hash_octets
    ]


def tls12_decryptors(
    handshakes: Sequence[tuple[Opener, Opener]],
) -> tuple[Decryptor, Decryptor]:
    """(client's, server's) decryptors of a TLS 1.2 connection.

    Args:
        handshakes: openers of the client's and the server's records for the keys of each of its
            handshakes, in order (RFC 5246, section 7.4.1).
    """
    client, server = zip(*handshakes, strict=True)
    return Decryptor(client, data_from=0), Decryptor(server, data_from=0)


def tls12_openers(
    secrets: Mapping[str, bytes], suite: int, client_random: bytes, server_random: bytes
) -> tuple[Opener, Opener] | None:
    """Openers of both directions of a TLS 1.2 connection; None without a secret for it."""
    master = secrets.get("CLIENT_RANDOM")
    if master is None or len(master) != 48:
        return None
    protection = TLS12_SUITES.get(suite)
    if protection is not None:
        client, server = tls12_keys(master, client_random, server_random, protection)
        return Tls12Opener(*client, protection), Tls12Opener(*server, protection)
    cbc = CBC_SUITES.get(suite)
    if cbc is None:
        return None
    client, server = cbc_keys(master, client_random, server_random, cbc)
    return CbcOpener(*client, cbc), CbcOpener(*server, cbc)
