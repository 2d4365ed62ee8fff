"""Which keys open a TLS connection: those that a key log has for its session, or that fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.model.secrets import Secrets
from capture_analyzer.pipeline.dissect.hidden_hello import answered_hello, note_accepted
from capture_analyzer.pipeline.dissect.records import Records, Side
from capture_analyzer.pipeline.dissect.renegotiation import Agreed, Direction, later_handshakes
from capture_analyzer.protocols.tls import handshake, names
from capture_analyzer.protocols.tls.connection import Understood
from capture_analyzer.protocols.tls.decryption import (
    Decryptor,
    tls12_decryptors,
    tls13_decryptors,
)
from capture_analyzer.protocols.tls.records import HEADER_BYTES
from capture_analyzer.protocols.tls.sessions import SessionFinder, Trial
from capture_analyzer.protocols.tls.suites import why_not

Decryptors = tuple[Decryptor | None, Decryptor | None]
"""Of the client's and the server's direction; None without a secret for it."""

_NO_SECRETS: Final = "the key log has no secrets for this session"
_NO_INNER_SECRETS: Final = "the key log opens the encrypted ClientHello, but has no secrets for it"
_NOT_CAPTURED: Final = "the handshake was not captured"
_NONE_FITS: Final = "the handshake was not captured, and no session of the key log fits"
_TLS13: Final = "TLS 1.3"
TLS12: Final = "TLS 1.2"
_PROTECTED: Final = (handshake.ALERT, handshake.HANDSHAKE, handshake.APPLICATION_DATA)


def find_decryptors(
    connection: Connection,
    understood: Understood,
    sides: tuple[Side, Side],
    records: tuple[Records, Records],
    secrets: Secrets,
    finder: SessionFinder,
) -> Decryptors | str:
    """Decryptors of both directions, or why there are none."""
    tls = connection.tls
    assert tls is not None
    random, suite = understood.client_random, understood.suite
    session: Mapping[str, bytes] = secrets.of(random) if random else {}
    if tls.version not in (None, _TLS13, TLS12):
        return f"{tls.version} can't be decrypted by this version"
    if suite is not None and (reason := why_not(suite, tls13=tls.version != TLS12)):
        return f"cipher suite {tls.cipher_suite} can't be decrypted: {reason}"
    # Of an encrypted ClientHello the outer random is seen, and the log has the inner one.
    hidden = bool(tls.ech_offered) and tls.version != TLS12
    if hidden:
        session = answered_hello(connection, understood, session, secrets)
        if tls.ech == "accepted" and not session:
            return _NO_INNER_SECRETS
    if random is not None and not session and not hidden:
        return _NO_SECRETS
    if tls.version == TLS12:
        if suite is None or understood.server_random is None:
            return _NOT_CAPTURED
        if random is None:
            trials = _trials(sides, records)
            found12 = finder.find_tls12(suite, understood.server_random, trials)
            if found12 is None:
                return _NONE_FITS
            session, random = found12
        first = Agreed(session, suite, random, understood.server_random)
        return _tls12(first, understood, sides, secrets)
    if session and suite is not None:
        named = tls13_decryptors(session, suite, early=bool(tls.early_data))
        if named == (None, None):
            return "the key log has no traffic secrets for this session"
        return named
    decryptors = _found_by_trial(tls, understood, sides, records, session, finder)
    if hidden and not session and not isinstance(decryptors, str):
        note_accepted(connection)
    return decryptors


def _tls12(
    first: Agreed, understood: Understood, sides: tuple[Side, Side], secrets: Secrets
) -> Decryptors:
    """Decryptors of a TLS 1.2 connection, with the keys of all its handshakes."""
    openers = first.openers()
    if openers is None:
        return None, None
    client, server = (Direction(side.stream, side.records, side.protected_from) for side in sides)
    later, understood.keys_changed = later_handshakes(first, (client, server), secrets)
    return tls12_decryptors([openers, *later])


def _found_by_trial(
    tls: TlsSummary,
    understood: Understood,
    sides: tuple[Side, Side],
    records: tuple[Records, Records],
    session: Mapping[str, bytes],
    finder: SessionFinder,
) -> Decryptors | str:
    """Decryptors of a TLS 1.3 connection of which a hello was not captured.

    Or it is an encrypted one: then the key log goes by the random of the inner ClientHello
    (RFC 9850, section 2.3), which is not known.
    """
    suite = understood.suite
    from_start = suite is not None
    trials = _trials(sides, records)
    if session:  # the ServerHello is what lacks
        finder = SessionFinder([(b"", session)])
    found = finder.find(suite, trials, from_start=from_start)
    if found is None:
        return _NONE_FITS if understood.client_random is None or session else _NO_SECRETS
    tls.version = tls.version or _TLS13
    tls.cipher_suite = names.suite_name(found.suite)
    decryptors: list[Decryptor | None] = [None, None]
    alone = SessionFinder([(b"", found.secrets)])
    for from_client, trial in trials:
        own = (
            found
            if from_client == found.from_client
            else alone.find(found.suite, [(from_client, trial)], from_start=from_start)
        )
        side = sides[0 if from_client else 1]
        if own is not None:
            decryptors[0 if from_client else 1] = Decryptor(own.openers)
            side.protected_from = first_whole(side, records[0 if from_client else 1])
    return decryptors[0], decryptors[1]


def first_whole(side: Side, records: Records) -> int:
    """Index of the first protected record that was captured whole."""
    begin = side.protected_from
    protected = np.isin(records.content_type[begin:], _PROTECTED) & records.complete[begin:]
    found = np.flatnonzero(protected)
    return begin + int(found[0]) if len(found) else len(records)


def _trials(sides: tuple[Side, Side], records: tuple[Records, Records]) -> list[tuple[bool, Trial]]:
    """The first protected record of each direction, to try secrets on."""
    found: list[tuple[bool, Trial]] = []
    for from_client, side, rows in zip((True, False), sides, records, strict=True):
        index = first_whole(side, rows)
        if index < len(rows):
            raw = side.stream.read(int(rows.offset[index]), rows.end(index))
            found.append((from_client, (raw[:HEADER_BYTES], raw[HEADER_BYTES:])))
    return found
