"""Handshakes inside the encrypted part of TLS 1.2: whose keys follow whose.

Up to TLS 1.2 either side may shake hands again on a connection (RFC 5246, section 7.4.1; RFC
5746). The hellos travel under the keys in use, and ChangeCipherSpec, whose type stays in clear
text, puts new keys in force. A key log has a line for each of these handshakes, under the
random of its own ClientHello.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from capture_analyzer.model.byte_stream import ByteStream
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.secrets import Secrets
from capture_analyzer.pipeline.dissect.records import Records
from capture_analyzer.protocols.tls import handshake
from capture_analyzer.protocols.tls.decryption import tls12_openers
from capture_analyzer.protocols.tls.handshake import split_messages
from capture_analyzer.protocols.tls.hello import (
    MalformedHelloError,
    parse_client_hello,
    parse_server_hello,
)
from capture_analyzer.protocols.tls.protection import CannotOpenError, Opener
from capture_analyzer.protocols.tls.records import HEADER_BYTES

MAX_ROUNDS: Final = 16
"""Handshakes followed on one connection. Each costs a key derivation, and every record that does
not open is tried with the keys of all that follow."""

REACH: Final = 64
"""Sequence numbers tried for a handshake record, beyond the one that counting gives: so many
records may be missing in front of it."""

MAX_RECORDS: Final = 64
"""Handshake records looked at of one direction and handshake."""


@quick_dataclass
class Agreed:
    """What the keys of one handshake are made with."""

    secrets: Mapping[str, bytes]
    suite: int
    client_random: bytes
    server_random: bytes

    def openers(self) -> tuple[Opener, Opener] | None:
        """Openers of the client's and the server's records; None without a secret for them."""
        return tls12_openers(self.secrets, self.suite, self.client_random, self.server_random)


@quick_dataclass
class Direction:
    """The records of one side, and the first that is protected."""

    stream: ByteStream
    records: Records
    protected_from: int

    def changes(self) -> list[int]:
        """Indices of the protected ChangeCipherSpec records."""
        kinds = self.records.content_type[self.protected_from :]
        found = np.flatnonzero(kinds == handshake.CHANGE_CIPHER_SPEC) + self.protected_from
        return [int(index) for index in found[:MAX_ROUNDS]]


def later_handshakes(
    first: Agreed, sides: tuple[Direction, Direction], secrets: Secrets
) -> tuple[list[tuple[Opener, Opener]], bool]:
    """Keys of the handshakes behind the first one, in order.

    Args:
        first: the one that began the connection.
        sides: the client's and the server's direction.
        secrets: of the key logs.

    Returns:
        Openers of both sides for each, and whether there is one more that can't be followed.
    """
    changes = [side.changes() for side in sides]
    found: list[tuple[Opener, Opener]] = []
    begins = [side.protected_from for side in sides]
    for number in range(min(map(len, changes))):
        openers = first.openers()
        if openers is None:
            return found, True
        ends = [indices[number] for indices in changes]
        agreed = _agreed(sides, openers, begins, ends, secrets)
        following = None if agreed is None else agreed.openers()
        if agreed is None or following is None:
            return found, True
        found.append(following)
        first = agreed
        begins = [end + 1 for end in ends]
    return found, False


def _agreed(
    sides: Sequence[Direction],
    openers: Sequence[Opener],
    begins: Sequence[int],
    ends: Sequence[int],
    secrets: Secrets,
) -> Agreed | None:
    """What the hellos among these records agree on; None if they can't be read."""
    client, server = (
        _hello(side, opener, begin, end, kind)
        for side, opener, begin, end, kind in zip(
            sides,
            openers,
            begins,
            ends,
            (handshake.CLIENT_HELLO, handshake.SERVER_HELLO),
            strict=True,
        )
    )
    if client is None or server is None:
        return None
    try:
        random, hello = parse_client_hello(client).random, parse_server_hello(server)
    except MalformedHelloError:
        return None
    return Agreed(secrets.of(random), hello.cipher_suite, random, hello.random)


def _hello(side: Direction, opener: Opener, begin: int, end: int, kind: int) -> bytes | None:
    """Body of the last hello among some records of one key, of which `begin` is the first."""
    records = side.records
    chosen = records.complete[begin:end] & (records.content_type[begin:end] == handshake.HANDSHAKE)
    parts: list[tuple[int, bytes]] = []
    lost = 0  # records that are missing without a trace, by the sequence numbers
    for place in np.flatnonzero(chosen)[-MAX_RECORDS:].tolist():
        index = begin + place
        raw = side.stream.read(int(records.offset[index]), records.end(index))
        for more in range(REACH):
            opener.sequence = place + lost + more
            try:
                _, plaintext = opener.open(raw[:HEADER_BYTES], raw[HEADER_BYTES:])
            except CannotOpenError:
                continue
            lost += more
            parts.append((index, plaintext))
            break
    bodies = [message.body for message in split_messages(parts) if message.type == kind]
    return bodies[-1] if bodies else None
