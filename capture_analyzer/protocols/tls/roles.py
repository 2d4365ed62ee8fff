"""What the encrypted records of TLS 1.3 carry, as far as it shows without keys.

Behind the ServerHello every record looks like application data (RFC 8446, section 5.2).
Their order, lengths and times still tell most of them apart:

* A Finished message has the length of the suite's hash, so its record has a known length
  unless it is coalesced with what precedes it or padded, which is rare.
* The server's flight ends with its Finished; all that was seen before the client's Finished
  belongs to it, or follows it as half-RTT data (section 4.4.4), tickets mostly.
* A server sends its tickets at once when it has the client's Finished (section 4.6.1),
  a round trip before it can have answered a request that followed that Finished.

All of this is inference, and is marked so in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.protocols.tls.handshake import (
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
)

AES_256_GCM_SHA384: Final = 0x1302
"""The one cipher suite of TLS 1.3 whose hash has 48 bytes; that of the others has 32."""

RECORD_OVERHEAD: Final = 17
"""Bytes by which a record is longer than its content: inner content type and a tag of 16."""

CLOSE_NOTIFY_BYTES: Final = 2 + RECORD_OVERHEAD
"""Length of a record with an alert."""

END_OF_EARLY_DATA_BYTES: Final = 4 + RECORD_OVERHEAD

MIN_EXTENSIONS_BYTES: Final = 4 + 2
"""Length of an EncryptedExtensions message without any extension."""

_FLAGS_BYTES: Final = (0, 4, 8)  # of extensions without content

_CHANGE: Final = bytes((CHANGE_CIPHER_SPEC,))
_HELLO_THEN_DATA: Final = bytes((HANDSHAKE, APPLICATION_DATA))

MAX_CERTIFICATE_RECORDS: Final = 6
"""Records in which a client's Certificate and CertificateVerify may come before its Finished:
more would be a chain of 64 KB."""

MIN_TICKET_BYTES: Final = 80
"""A ticket holds at least a key name or session ID, nonce and lifetimes; HTTP/2 SETTINGS and
WINDOW_UPDATE frames, which servers send at once too, are shorter."""

MAX_TICKET_BYTES: Final = 4096
"""Tickets with a client certificate inside reach some 2 KB."""

MAX_TICKETS: Final = 8
"""Tickets sent in a row: OpenSSL sends two, others one to four."""

BURST_NS: Final = 5_000_000
"""What is sent in one go is seen within this time of each other."""

DELAYED_ACK_NS: Final = 250_000_000
"""Longest usual delay of an acknowledgement (200 ms), and a little."""


@quick_dataclass
class Columns:
    """Records of many directions, as parallel columns.

    Attributes:
        types: outer content types.
        lengths: fragment lengths.
        first_packet_nos, last_packet_nos: packets of their first and last captured byte.
        seen_ns: first byte captured.
        last_seen_ns: last captured byte captured.
        complete_ns: complete in order.
    """

    types: bytes
    lengths: Sequence[int]
    first_packet_nos: Sequence[int]
    last_packet_nos: Sequence[int]
    seen_ns: Sequence[int]
    last_seen_ns: Sequence[int]
    complete_ns: Sequence[int]


@quick_dataclass
class Head:
    """The first records of one direction: start to stop - 1 of the columns.

    Records go by their place in the columns, wherever they are spoken of.

    Attributes:
        columns: of its records, among others.
        start, stop: which they are.
        total: how many records the direction has in all.
    """

    columns: Columns
    start: int
    stop: int
    total: int

    def of_type(self, kind: int) -> Sequence[int]:
        """Its records of one outer content type."""
        types, start, stop = self.columns.types, self.start, self.stop
        first = types.find(kind, start, stop)
        if first < 0:
            return range(0)
        if types.count(kind, first, stop) == stop - first:
            return range(first, stop)  # mostly no other type follows
        return [place for place in range(first, stop) if types[place] == kind]


@quick_dataclass
class Tls13Roles:
    """Records by what they carry; what is in none is application data.

    Attributes:
        client_finished: the record with the client's Finished, None if it was not found.
        exact: the Finished was recognised by its length.
    """

    client_handshake: Sequence[int] = ()
    client_early: Sequence[int] = ()
    client_alert: Sequence[int] = ()
    server_handshake: Sequence[int] = ()
    server_tickets: Sequence[int] = ()
    server_alert: Sequence[int] = ()
    client_finished: int | None = None
    exact: bool = False


def infer_roles(
    client: Head,
    server: Head,
    *,
    hash_bytes: int,
    resumed: bool,
    early_data: bool,
    hello_seen_ns: int,
    server_hello_seen_ns: int,
    server_hello_no: int,
    rtt_ns: int | None,
    skipped: Sequence[int] = (),
) -> Tls13Roles:
    """Tell handshake, tickets and application data of TLS 1.3 apart.

    Args:
        client: its first records.
        server: its first records.
        hash_bytes: length of the suite's hash.
        resumed: the server accepted a PSK, so that it sends no certificate.
        early_data: the client offered early data.
        hello_seen_ns: first byte of the last ClientHello seen.
        server_hello_seen_ns: first byte of the ServerHello seen.
        server_hello_no: the packet with that byte.
        rtt_ns: round trip between the capture point and the server; None if not known.
        skipped: records of the client with early data that a retry rejects.
    """
    roles = Tls13Roles()
    finished_bytes = 4 + hash_bytes + RECORD_OVERHEAD
    encrypted = client.of_type(APPLICATION_DATA)
    if skipped:
        encrypted = [place for place in encrypted if place > skipped[-1]]
    _find_finished(roles, client, encrypted, finished_bytes, early_data, server_hello_no)
    if skipped:
        roles.client_early = list(skipped)

    flight = server.of_type(APPLICATION_DATA)
    finished = roles.client_finished
    if finished is None:
        # The handshake was not completed, or the capture lacks that part.
        if not encrypted or roles.client_alert:
            _split_alert(roles, server, flight)
        else:
            roles.server_handshake = _up_to_finished(server, flight, finished_bytes) or ()
        return roles
    # Packets tell the order even where a coarse clock does not.
    client_nos, server_nos = client.columns.first_packet_nos, server.columns.first_packet_nos
    finished_no = client_nos[finished]
    before = [place for place in flight if server_nos[place] < finished_no]
    handshake = _up_to_finished(server, before, finished_bytes)
    if handshake is None and resumed and before:
        # EncryptedExtensions and Finished are all there is, and fit in one record.
        length = server.columns.lengths[before[0]]
        handshake = before[:1] if length >= finished_bytes + MIN_EXTENSIONS_BYTES else None
    roles.server_handshake = before if handshake is None else handshake
    if rtt_ns is None:
        rtt_ns = max(0, server_hello_seen_ns - hello_seen_ns)
    tickets: list[int] = []
    request_no: int | None = None
    if roles.client_early:
        request_no = client_nos[roles.client_early[0]]
    half_rtt = before[len(roles.server_handshake) :]
    if half_rtt and request_no is None:
        lengths = server.columns.lengths
        tickets = [place for place in half_rtt if may_be_ticket(lengths[place])]
    elif half_rtt:
        # Half-RTT data may answer the early request.
        tickets = _tickets(server, half_rtt, server_hello_seen_ns, rtt_ns, request_no)
    if request_no is None and encrypted[-1] > finished:
        request_no = client_nos[next(place for place in encrypted if place > finished)]
    after = flight[len(before) :]
    if after:
        finished_ns = client.columns.seen_ns[finished]
        tickets += _tickets(server, after, finished_ns, rtt_ns, request_no)
    roles.server_tickets = tickets
    return roles


def _find_finished(
    roles: Tls13Roles,
    client: Head,
    encrypted: Sequence[int],
    finished_bytes: int,
    early_data: bool,
    server_hello_no: int,
) -> None:
    lengths = client.columns.lengths
    if not encrypted:
        return
    if early_data:
        exact = [i for i in encrypted if lengths[i] == finished_bytes]
        # Accepted early data ends with EndOfEarlyData; rejected early data does not.
        ended = [i for i in exact if i > client.start and lengths[i - 1] == END_OF_EARLY_DATA_BYTES]
        if not exact:
            first_packet_nos = client.columns.first_packet_nos
            roles.client_early = [i for i in encrypted if first_packet_nos[i] < server_hello_no]
            return
        found = (ended or exact)[0]
        roles.client_finished, roles.exact = found, True
        before = [i for i in encrypted if i < found]
        roles.client_handshake = [before.pop(), found] if ended else [found]
        roles.client_early = before
        return
    first = encrypted[0]
    if lengths[first] == CLOSE_NOTIFY_BYTES:
        roles.client_alert = (first,)  # it refused the server's handshake
        return
    for place, index in enumerate(encrypted[: MAX_CERTIFICATE_RECORDS + 1], 1):
        if lengths[index] == finished_bytes:
            roles.client_handshake = encrypted[:place]
            roles.client_finished, roles.exact = index, True
            return
    if lengths[first] > finished_bytes:
        # With a certificate in front of it in the same record, or padded.
        roles.client_handshake = (first,)
        roles.client_finished = first


def _up_to_finished(
    server: Head, flight: Sequence[int], finished_bytes: int
) -> Sequence[int] | None:
    """The flight up to the record with a Finished's length; None if none has it.

    The first record holds EncryptedExtensions, so it is never a Finished alone.
    """
    lengths = server.columns.lengths
    for place, index in enumerate(flight[1:], 2):
        if lengths[index] == finished_bytes:
            return flight[:place]
    return None


def _split_alert(roles: Tls13Roles, server: Head, flight: Sequence[int]) -> None:
    lengths = server.columns.lengths
    roles.server_alert = [i for i in flight if lengths[i] == CLOSE_NOTIFY_BYTES]
    roles.server_handshake = [i for i in flight if lengths[i] != CLOSE_NOTIFY_BYTES]


@overload
def may_be_ticket(length: int) -> bool: ...


@overload
def may_be_ticket(length: NDArray[np.int32]) -> NDArray[np.bool_]: ...


def may_be_ticket(length: int | NDArray[np.int32]) -> bool | NDArray[np.bool_]:
    """Whether a record of this length may carry a ticket."""
    return (length >= MIN_TICKET_BYTES) & (length <= MAX_TICKET_BYTES)


@overload
def has_openssl_form(length: int) -> bool: ...


@overload
def has_openssl_form(length: NDArray[np.int32]) -> NDArray[np.bool_]: ...


def has_openssl_form(length: int | NDArray[np.int32]) -> bool | NDArray[np.bool_]:
    """Whether a record is as long as one with a stateless ticket of OpenSSL or BoringSSL.

    Its ticket is 64 bytes of key name, IV and MAC around whole cipher blocks of 16; the
    message around it has 25 bytes, or 33 where it allows early data.
    """
    return (length >= 180) & (length <= 420) & ((length - RECORD_OVERHEAD - 25 - 64) % 8 == 0)


def _tickets(
    server: Head, after: Sequence[int], finished_ns: int, rtt_ns: int, request_no: int | None
) -> list[int]:
    """Which of the server's first records behind the client's Finished carry tickets."""
    lengths, times = server.columns.lengths, server.columns.seen_ns
    first = after[0]
    length, seen_ns = lengths[first], times[first]
    if not may_be_ticket(length):
        return []
    openssl = has_openssl_form(length)
    # Nagle's algorithm may hold the second ticket until the first is acknowledged.
    apart_ns = rtt_ns + DELAYED_ACK_NS if openssl else BURST_NS
    run = [first]
    for index in after[1:MAX_TICKETS]:
        if lengths[index] != length or times[index] - seen_ns > apart_ns:
            break
        run.append(index)
    unasked = request_no is None or server.columns.first_packet_nos[first] < request_no
    if unasked:
        return run
    if len(run) >= 2:
        at_once = seen_ns <= finished_ns + 2 * rtt_ns + 50_000_000
        return run if openssl or at_once else []
    # One alone may be a whole small answer: take it only with the form of a ticket, in time,
    # and with an answer behind it.
    at_once = seen_ns <= finished_ns + rtt_ns + max(rtt_ns // 4, BURST_NS)
    return run if openssl and at_once and len(after) > 1 else []


def has_tls13_order(client: Head, server: Head) -> bool:
    """Whether the outer types alone tell TLS 1.3, without what is in the hellos.

    A hello and then, but for a ChangeCipherSpec, application data: up to TLS 1.2 each side
    sends a Finished of type handshake behind its ChangeCipherSpec.
    """
    for head in (client, server):
        types = head.columns.types[head.start : head.stop].replace(_CHANGE, b"")
        if types[:2] != _HELLO_THEN_DATA:
            return False
    return True


def hash_by_finished(length: int) -> int:
    """The length of the suite's hash, if a record of this length holds a Finished."""
    return 48 if length == 4 + 48 + RECORD_OVERHEAD else 32


def inferred_alpn(offered: Sequence[str], length: int) -> str | None:
    """The protocol that TLS 1.3 agreed on, by the length of EncryptedExtensions.

    It can be told where EncryptedExtensions has a record of its own: its only extensions
    then are an ALPN answer (7 bytes and the name, RFC 7301) and perhaps an empty
    server_name (RFC 6066, section 3) and early_data, of 4 bytes each.

    Args:
        offered: by the client.
        length: of the first record of a flight that has more than one.

    Returns:
        The name; "" if the server named none; None where that can't be told.
    """
    if not offered:
        return None
    extensions = length - RECORD_OVERHEAD - MIN_EXTENSIONS_BYTES
    if extensions in _FLAGS_BYTES:
        return ""
    fitting = [name for name in offered if extensions - 7 - len(name) in _FLAGS_BYTES]
    return fitting[0] if len(fitting) == 1 else None
