"""Whose secrets open a connection whose ClientHello was not captured: found by trying."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.tls.decryption import tls12_openers, tls13_openers
from capture_analyzer.protocols.tls.key_schedule import TLS13_SUITES
from capture_analyzer.protocols.tls.protection import (
    CannotOpenError,
    Octets,
    Opener,
    Tls13Opener,
)

MAX_TRIES: Final = 200_000
"""Decryptions spent on such connections in all: about half a second. What they do not find stays
encrypted, and it is said why."""
MAX_TRIES_A_CONNECTION: Final = 20_000
_SET_UP: Final = 12  # deriving a key costs as much as so many decryptions
_FEWEST: Final = 48  # sequence numbers tried of each session at least
_FEW: Final = 16  # handshake keys are used for this many records at most

Trial = tuple[Octets, Octets]
"""(header, fragment) of a protected record."""


@quick_dataclass
class Session:
    """The session that fits.

    Attributes:
        secrets: by key log label.
        suite: the cipher suite.
        from_client: which direction it was found in.
        openers: for that direction, from the record that was tried on.
    """

    secrets: Mapping[str, bytes]
    suite: int
    from_client: bool
    openers: list[Tls13Opener]


class SessionFinder:
    """Tries the sessions of a key log on records.

    A record that opens was made with that key: the tag of an AEAD does not fit by chance.

    Args:
        sessions: (client random, secrets) of those that no captured ClientHello names, in
            the order of the key log. A session that was found is not tried again.
    """

    def __init__(self, sessions: Iterable[tuple[bytes, Mapping[str, bytes]]]) -> None:
        self._sessions = dict(sessions)
        self._tries = MAX_TRIES

    def find(
        self,
        suite: int | None,
        directions: Sequence[tuple[bool, Trial]],
        *,
        from_start: bool,
    ) -> Session | None:
        """The TLS 1.3 session of a connection.

        Args:
            suite: the cipher suite, if it is known.
            directions: (from the client, its first protected record that was captured).
            from_start: those are the first records that were sent with their keys.
        """
        tried = 0
        for from_client, trial in directions:
            side = "CLIENT" if from_client else "SERVER"
            handshake, application = f"{side}_HANDSHAKE_TRAFFIC_SECRET", f"{side}_TRAFFIC_SECRET_0"
            pairs = [
                (random, suite_)
                for random, secrets in self._sessions.items()
                for suite_ in _suites(suite, secrets.get(application))
            ]
            most = _FEW
            if pairs and not from_start:
                share = MAX_TRIES_A_CONNECTION // (2 * len(pairs))
                most = max(share - _FEW - _SET_UP, _FEWEST)
            for random, suite_ in pairs:
                if tried >= MAX_TRIES_A_CONNECTION or self._tries <= 0:
                    return None
                secrets = self._sessions[random]
                openers = tls13_openers(secrets, suite_, handshake, application)
                for place, opener in enumerate(openers):
                    count = most if opener is openers[-1] else _FEW
                    if _scan(opener, trial, count):
                        del self._sessions[random]
                        return Session(secrets, suite_, from_client, openers[place:])
                    tried += count + _SET_UP
                    self._tries -= count + _SET_UP
        return None

    def find_tls12(
        self,
        suite: int,
        server_random: bytes,
        directions: Sequence[tuple[bool, Trial]],
    ) -> tuple[Mapping[str, bytes], bytes] | None:
        """(secrets, client random) of a TLS 1.2 connection whose ServerHello was captured."""
        tried = 0
        for random, secrets in self._sessions.items():
            master = secrets.get("CLIENT_RANDOM", b"")
            if len(master) != 48:
                continue
            if tried >= MAX_TRIES_A_CONNECTION or self._tries <= 0:
                return None
            openers = tls12_openers(secrets, suite, random, server_random)
            if openers is None:
                return None
            for from_client, trial in directions:
                if _scan(openers[0 if from_client else 1], trial, _FEW):
                    del self._sessions[random]
                    return secrets, random
                tried += _FEW + _SET_UP
                self._tries -= _FEW + _SET_UP
        return None


def _suites(suite: int | None, secret: bytes | None) -> list[int]:
    """Suites that a secret of this length may belong to, the widespread ones only."""
    if secret is None:
        return []
    if suite is not None:
        return [suite] if suite in TLS13_SUITES else []
    return [
        number
        for number in (0x1301, 0x1302, 0x1303)
        if TLS13_SUITES[number].hash_octets == len(secret)
    ]


def _scan(opener: Opener, trial: Trial, count: int) -> bool:
    """Whether the record opens at a sequence number below `count`; the opener is left there."""
    for sequence in range(count):
        opener.sequence = sequence
        try:
            opener.open(*trial)
        except CannotOpenError:
            continue
        opener.sequence = sequence
        return True
    return False
