"""The usual handshakes of TLS 1.3 of many connections, read at once.

Usual is: a ClientHello and a ServerHello, each sound and in a record of its own, perhaps a
ChangeCipherSpec behind it, and from then on nothing but encrypted records, of which the client's
first is as long as one with a Finished. No retry, early data or alert. All that is something else
is left to `connection.understand`, which says the same of a usual connection alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME, distinct
from capture_analyzer.model.connections import TlsSummary
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import ROLE_CODE, TlsRecords
from capture_analyzer.protocols.tls import names
from capture_analyzer.protocols.tls.chunks import Chunks, Walked
from capture_analyzer.protocols.tls.connection import TLS13, Understood
from capture_analyzer.protocols.tls.flights import infer_flights
from capture_analyzer.protocols.tls.handshake import (
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    CLIENT_HELLO,
    HANDSHAKE,
    SERVER_HELLO,
)
from capture_analyzer.protocols.tls.hello import (
    ALPN,
    EARLY_DATA,
    ENCRYPTED_CLIENT_HELLO,
    KEY_SHARE,
    PRE_SHARED_KEY,
    SERVER_NAME,
    SESSION_TICKET,
    STATUS_REQUEST,
    SUPPORTED_VERSIONS,
    host_name,
    protocol_names,
)
from capture_analyzer.protocols.tls.hello_columns import (
    Hellos,
    read_client_hellos,
    read_server_hellos,
)
from capture_analyzer.protocols.tls.roles import (
    AES_256_GCM_SHA384,
    RECORD_OVERHEAD,
    inferred_alpn,
)
from capture_analyzer.protocols.tls.walk import HEADER_BYTES

MAX_HELLO_BYTES: Final = 8192
"""Longest record with a hello that is read here, since all of them are copied: with the keys of
post-quantum groups and a ticket it has some 4 KB."""

_LATER: Final = np.int64(np.iinfo(np.int64).max)  # than any packet

T = TypeVar("T")


@quick_dataclass
class Side:
    """How one side of some connections begins, one element each in every array.

    Attributes:
        first: the record with the hello.
        clear: how many records are in clear; 0 where it does not begin as usual.
        count: how many records are looked at.
    """

    first: NDArray[np.int64]
    clear: NDArray[np.int64]
    count: NDArray[np.int64]

    def of(self, which: NDArray[np.intp]) -> Side:
        """Some of the connections."""
        return Side(self.first[which], self.clear[which], self.count[which])

    @property
    def protected(self) -> NDArray[np.int64]:
        """The first record that is not in clear."""
        return self.first + self.clear


@quick_dataclass
class Usual:
    """Connections with a usual handshake, one element each in every list and array.

    Attributes:
        places: which of those that were looked at, ascending.
        client, server: their records.
        hellos: of the client and of the server; `which` are theirs.
        summaries: their TLS facts; `decrypted` and `why_not` are left alone.
        server_names: SNI.
        alpns: agreed protocols, inferred.
        special, roles: records of all of them where the role is not the one that the outer
            content type says, and that role.
    """

    places: NDArray[np.intp]
    which: NDArray[np.intp]
    client: Side
    server: Side
    hellos: tuple[Hellos, Hellos]
    summaries: list[TlsSummary]
    server_names: list[str | None]
    alpns: list[str | None]
    special: NDArray[np.int64]
    roles: NDArray[np.uint8]

    def understood(self, index: int) -> Understood:
        """What is known of one of them, as `connection.understand` puts it, but for roles."""
        summary, which = self.summaries[index], int(self.which[index])
        asked, answered = (hellos.body(which) for hellos in self.hellos)
        result = Understood(
            summary,
            self.server_names[index],
            self.alpns[index],
            client_random=asked[2:34],
            server_random=answered[2:34],
            suite=int(self.hellos[1].suite[which]),
            client_protected_from=int(self.client.clear[index]),
            server_protected_from=int(self.server.clear[index]),
        )
        if summary.ech_offered:
            result.client_hellos, result.server_hellos = [asked], [answered]
        return result


def find_usual(
    chunks: Chunks,
    walked: Walked,
    records: TlsRecords,
    first: NDArray[np.int64],
    totals: NDArray[np.int64],
    rtt_ns: NDArray[np.int64],
    *,
    most: int,
) -> Usual:
    """Find the connections with a usual handshake, and read it.

    Args:
        chunks: of all streams.
        walked: their records.
        records: the table of these.
        first: first record of each stream: client and server of one connection, of the next ...
        totals: how many records each stream has.
        rtt_ns: for each connection the round trip between the capture point and the server;
            NO_TIME where it is not known.
        most: so many records of a direction are looked at.
    """
    counts = np.minimum(totals, most)
    others = np.zeros(len(walked.row) + 1, np.int32)
    np.cumsum(walked.content_type != APPLICATION_DATA, out=others[1:])
    client = _side(walked.content_type, others, first[0::2], counts[0::2])
    server = _side(walked.content_type, others, first[1::2], counts[1::2])
    places = np.flatnonzero((client.clear > 0) & (server.clear > 0))
    client, server = client.of(places), server.of(places)
    offer = read_client_hellos(*_hellos(chunks, walked, client.first, CLIENT_HELLO))
    choice = read_server_hellos(*_hellos(chunks, walked, server.first, SERVER_HELLO))
    finished = client.protected
    hash_bytes = np.where(choice.suite == AES_256_GCM_SHA384, 48, 32)
    finished_bytes = 4 + hash_bytes + RECORD_OVERHEAD
    usual = offer.sound & choice.sound & offer.offers(TLS13) & ~offer.has(EARLY_DATA)
    usual &= choice.number(SUPPORTED_VERSIONS) == TLS13
    usual &= records.length[finished] == finished_bytes

    asked_ns, answered_ns = records.seen_ns[client.first], records.seen_ns[server.first]
    rtt_ns = rtt_ns[places]
    goes_on = client.clear + 1 < client.count
    request_no = records.first_packet_no[np.where(goes_on, finished + 1, 0)]
    flights = infer_flights(
        records,
        server.protected,
        server.count - server.clear,
        finished=finished,
        request_no=np.where(goes_on, request_no, _LATER),
        finished_bytes=finished_bytes,
        resumed=choice.has(PRE_SHARED_KEY),
        rtt_ns=np.where(rtt_ns == NO_TIME, np.maximum(answered_ns - asked_ns, 0), rtt_ns),
    )
    which = np.flatnonzero(usual & flights.in_order)
    special, roles = flights.special(which)
    nothing: list[str] = []
    offers = _read(
        offer, ALPN, which, lambda content: protocol_names(content, 2, len(content)), nothing
    )
    ends_ns = chunks.seen_ns[walked.last_chunk[finished[which]]]
    alone = np.where(flights.handshake > 1, records.length[server.protected], -1)
    return Usual(
        places[which],
        which,
        client.of(which),
        server.of(which),
        (offer, choice),
        _summaries(offer, choice, which, offers, asked_ns[which].tolist(), ends_ns.tolist()),
        _read(offer, SERVER_NAME, which, lambda content: host_name(content, 0, len(content)), None),
        _alpns(offers, alone[which].tolist()),
        np.concatenate((finished[which], special)),
        np.concatenate((np.full(len(which), ROLE_CODE["handshake"], np.uint8), roles)),
    )


def _side(
    types: NDArray[np.uint8],
    others: NDArray[np.int32],
    first: NDArray[np.int64],
    count: NDArray[np.int64],
) -> Side:
    """Which sides begin with a handshake record, perhaps a change, and then data alone.

    Args:
        types: outer content types of all records.
        others: how many records in front of each have another type than application data.
        first: first record of each side.
        count: how many records of each are looked at.
    """
    if not len(types):
        return Side(first, np.zeros(len(first), np.int64), count)
    change = types.take(first + 1, mode="clip") == CHANGE_CIPHER_SPEC
    clear = 1 + change.astype(np.int64)
    data_from, stop = (others.take(at, mode="clip") for at in (first + clear, first + count))
    usual = (count > clear) & (types.take(first, mode="clip") == HANDSHAKE) & (data_from == stop)
    return Side(first, np.where(usual, clear, 0), count)


def _hellos(
    chunks: Chunks, walked: Walked, records: NDArray[np.int64], kind: int
) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
    """The bodies of the messages of one type that fill these records.

    Returns:
        The messages end to end; where the body of each begins and ends in them, twice the same
        where a record is not filled by one such message, or too long.
    """
    length = walked.length[records].astype(np.int64)
    whole = np.flatnonzero(walked.complete[records] & (length > 4) & (length <= MAX_HELLO_BYTES))
    data = _contents(chunks, walked, records[whole])
    length = length[whole]
    stop = np.cumsum(length)
    start = stop - length
    raw = np.frombuffer(data, np.uint8)
    size = sum(raw[start + at].astype(np.int64) << 24 - 8 * at for at in (1, 2, 3))
    alone = (raw[start] == kind) & (size == length - 4)
    begin, end = np.zeros((2, len(records)), np.int64)
    begin[whole[alone]], end[whole[alone]] = start[alone] + 4, stop[alone]
    return data, begin, end


def _contents(chunks: Chunks, walked: Walked, records: NDArray[np.int64]) -> bytes:
    """The contents of some records, which were captured whole, end to end."""
    first, last = walked.first_chunk[records], walked.last_chunk[records]
    counts = (last - first + 1).astype(np.int64)
    # Each lies in pieces, one a chunk.
    chunk = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    offset = walked.offset[records] + HEADER_BYTES
    begin = np.maximum(np.repeat(offset, counts), chunks.starts[chunk])
    end = np.minimum(
        np.repeat(offset + walked.length[records], counts),
        chunks.starts[chunk] + chunks.lengths[chunk],
    )
    shift = chunks.buffer_offsets[chunk] - chunks.starts[chunk]
    views = [memoryview(buffer) for buffer in chunks.buffers]
    return b"".join(
        [
            views[buffer_no][start:stop]
            for buffer_no, start, stop in zip(
                chunks.buffer_nos[chunk].tolist(),
                (begin + shift).tolist(),
                (end + shift).tolist(),
                strict=True,
            )
        ]
    )


def _read(
    hellos: Hellos,
    kind: int,
    which: NDArray[np.intp],
    read: Callable[[bytes], T],
    otherwise: T,
) -> list[T]:
    """What is read from an extension of some hellos; the same content is read once."""
    data, known = hellos.data, {b"": otherwise}
    found = []
    for begin, end in zip(
        hellos.begin(kind)[which].tolist(), hellos.end(kind)[which].tolist(), strict=True
    ):
        content = data[begin:end] if begin >= 0 else b""
        if content not in known:
            known[content] = read(content)
        found.append(known[content])
    return found


def _alpns(offers: Sequence[list[str]], lengths: Sequence[int]) -> list[str | None]:
    """Agreed protocols, by offers and the lengths of records with EncryptedExtensions alone."""
    known: dict[tuple[tuple[str, ...], int], str | None] = {}
    found = []
    for offer, length in zip(offers, lengths, strict=True):
        key = tuple(offer), length
        if key not in known:
            agreed = inferred_alpn(offer, length) if length >= 0 else None
            if agreed is None and len(offer) == 1:
                agreed = offer[0]
            known[key] = agreed or None
        found.append(known[key])
    return found


def _summaries(
    offer: Hellos,
    choice: Hellos,
    which: NDArray[np.intp],
    offers: Sequence[list[str]],
    starts_ns: Sequence[int],
    ends_ns: Sequence[int],
) -> list[TlsSummary]:
    """The facts of connections.

    Args:
        offer: ClientHellos.
        choice: ServerHellos.
        which: hellos of these connections.
        offers: application protocols that each client offers.
        starts_ns: when the first byte of each handshake was seen.
        ends_ns: when the last byte was.
    """
    version = names.version_name(TLS13)
    ticket = offer.end(SESSION_TICKET) > offer.begin(SESSION_TICKET)
    offered = offer.has(PRE_SHARED_KEY) | (ticket & offer.has(SESSION_TICKET))
    groups = choice.number(KEY_SHARE)[which]
    suites = choice.suite[which]
    suite_of = {number: names.suite_name(number) for number in distinct(suites).tolist()}
    group_of = {
        number: names.group_name(number) if number >= 0 else None
        for number in distinct(groups).tolist()
    }
    return [
        TlsSummary(
            version=version,
            cipher_suite=suite_of[suite],
            group=group_of[group],
            resumption_offered=offered_psk,
            resumed=resumed,
            early_data=False,
            alpn_offered=alpn_offered.copy(),
            ech_offered=ech,
            ocsp_requested=status,
            ocsp_stapled=False if resumed else None,  # none without a certificate
            start_ns=start_ns,
            end_ns=end_ns,
            duration_ns=end_ns - start_ns,
        )
        for suite, group, offered_psk, resumed, alpn_offered, ech, status, start_ns, end_ns in zip(
            suites.tolist(),
            groups.tolist(),
            offered[which].tolist(),
            choice.has(PRE_SHARED_KEY)[which].tolist(),
            offers,
            offer.has(ENCRYPTED_CLIENT_HELLO)[which].tolist(),
            offer.has(STATUS_REQUEST)[which].tolist(),
            starts_ns,
            ends_ns,
            strict=True,
        )
    ]
