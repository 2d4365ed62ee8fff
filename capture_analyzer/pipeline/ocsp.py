"""OCSP over HTTP: clients that asked a responder, about whose certificate, and who waited.

A client asks once it has the certificate (TLS 1.2: at ServerHelloDone; TLS 1.3: at the
server's Finished). Whether it waited is read off its next step on the TLS connection: its part
of the handshake, or its first request. If that came promptly behind the answer (or the
time-out), the step had waited; if it came before, the fetch ran beside it.

A fetch is tied to a connection by the identifiers in the request, which are hashes of what is
in the certificate (RFC 6960, section 4.1.1), else by the responder that the certificate
names. Where the certificate can't be read (TLS 1.3 without keys), only the time speaks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from capture_analyzer.model.certificates import OcspFetch
from capture_analyzer.model.column import NO_TIME, rows_equal
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.exchanges import Exchange, Exchanges
from capture_analyzer.model.lookups import Lookup
from capture_analyzer.model.messages import Message
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.model.tls_records import (
    ROLE_CODE,
    HandshakeMessages,
    TlsRecords,
)
from capture_analyzer.pipeline.certificates import Presented, Read
from capture_analyzer.pipeline.join import PROMPT_NS
from capture_analyzer.pipeline.reassemble import Streams

if TYPE_CHECKING:
    from capture_analyzer.protocols.ocsp import CertificateId

TOLERANCE_NS: Final = 1_000_000
"""Stamps of packets that one step caused can be in either order by so much."""

SILENT_NS: Final = 200_000_000
"""A step this long behind an unanswered question that nobody took back had waited for it."""

MAX_CANDIDATES: Final = 64
"""Connections of a client that are looked at for a fetch, the latest before it."""

_TRUST: Final = {"certificate": 1.0, "responder": 0.9, "time": 0.7}
_TIES: Final = tuple(_TRUST)  # best first
_GIVEN_UP_TRUST: Final = 0.6
_SHORTEST_PATH: Final = 60

Tie = Literal["certificate", "responder", "time"]


@quick_dataclass
class Found:
    """A fetch, with the exchange that it is, whose number is given later."""

    fetch: OcspFetch
    exchange: Exchange | None
    asked: CertificateId | None = None


@quick_dataclass
class Steps:
    """A client's steps on a TLS connection; None = it did not take it.

    Attributes:
        connection_no: the connection.
        certificate_ns: the certificate (and the rest of the server's flight) was there.
        handshake_ns: the client went on with the handshake.
        handshake_packet_no: the packet of that.
        request_ns: its first request.
        request_packet_no: the packet of that.
    """

    connection_no: int
    certificate_ns: int
    handshake_ns: int | None = None
    handshake_packet_no: int | None = None
    request_ns: int | None = None
    request_packet_no: int | None = None


@quick_dataclass
class Facts:
    """What the search looks at; all of it in the order of its table."""

    connections: Sequence[Connection]
    exchanges: Exchanges
    messages: Sequence[Message]
    lookups: Sequence[Lookup]
    streams: Streams
    tls_records: TlsRecords
    handshake_messages: HandshakeMessages
    presented: Presented
    read: Read


def find_fetches(facts: Facts) -> list[Found]:
    """The fetches of all clients, by their begin.

    Args:
        facts: the exchanges have no numbers yet.
    """
    found = [_of_exchange(facts, exchange, asked) for exchange, asked in _questions(facts)]
    found += _unreachable(facts)
    if not found:
        return []
    found.sort(key=lambda row: (row.fetch.from_ns, row.fetch.asked_connection_no))
    clients = {facts.connections[row.fetch.asked_connection_no].client_ip for row in found}
    steps: dict[str, list[Steps]] = {}
    for step in _steps(facts, clients):
        steps.setdefault(facts.connections[step.connection_no].client_ip, []).append(step)
    for rows in steps.values():
        rows.sort(key=_certificate_ns)
    for row in found:
        client = facts.connections[row.fetch.asked_connection_no].client_ip
        mine = steps.get(client, [])
        before = bisect_right(mine, row.fetch.from_ns + TOLERANCE_NS, key=_certificate_ns)
        _tie(facts, row, mine[max(0, before - MAX_CANDIDATES) : before])
    _chain([row.fetch for row in found])
    return found


def awaited(found: Iterable[Found]) -> dict[int, tuple[int, int]]:
    """For each connection whose first request waited for fetches: from when, until when."""
    spans: dict[int, tuple[int, int]] = {}
    for row in found:
        fetch = row.fetch
        number, until = fetch.connection_no, fetch.waited_until_ns
        if number is None or until is None or fetch.phase != "request":
            continue
        begin, end = spans.get(number, (fetch.from_ns, until))
        spans[number] = (min(begin, fetch.from_ns), max(end, until))
    return spans


def number_fetches(found: Iterable[Found]) -> list[OcspFetch]:
    """The table: its rows, now that exchanges have numbers."""
    rows = []
    for row in found:
        if row.exchange is not None:
            row.fetch.exchange_no = row.exchange.exchange_no
        rows.append(row.fetch)
    return rows


def _questions(facts: Facts) -> list[tuple[Exchange, CertificateId | None]]:
    """Exchanges in clear that ask a responder, and what they ask for."""
    in_clear = [
        exchange
        for _, exchange in facts.exchanges.made()
        if exchange.method in ("POST", "GET") and not facts.connections[exchange.connection_no].tls
    ]
    if not in_clear:
        return []
    from capture_analyzer.protocols.ocsp import REQUEST_TYPE, RESPONSE_TYPE, request_in_path

    found: list[tuple[Exchange, CertificateId | None]] = []
    requests: dict[tuple[int, int], Message] = {}
    for exchange in in_clear:
        if exchange.method == "POST":
            if _type(exchange.request_fields) == REQUEST_TYPE:
                found.append((exchange, _posted(facts, exchange, requests)))
            continue
        path = exchange.path or ""
        asked = request_in_path(path) if len(path) >= _SHORTEST_PATH else None
        if asked is not None or _type(exchange.response_fields) == RESPONSE_TYPE:
            found.append((exchange, asked))
    return found


def _type(fields: Sequence[object]) -> str:
    for field in fields:
        if getattr(field, "name", "") == "content-type":
            return str(getattr(field, "value", "")).partition(";")[0].strip().lower()
    return ""


def _posted(
    facts: Facts, exchange: Exchange, requests: dict[tuple[int, int], Message]
) -> CertificateId | None:
    """What a POST asks for; None if its content can't be read."""
    from capture_analyzer.protocols.ocsp import MAX_REQUEST_BYTES, MalformedOcspError, parse_request

    if not requests:
        requests.update({(m.connection_no, m.seen_ns): m for m in facts.messages if m.from_client})
    message = requests.get((exchange.connection_no, exchange.request_start_ns))
    if message is None or not 0 < message.content_bytes <= MAX_REQUEST_BYTES:
        return None
    end = message.offset + message.length
    stream = facts.streams.stream(message.connection_no, True)
    try:
        return parse_request(stream.read(end - message.content_bytes, end))
    except MalformedOcspError:
        return None


def _of_exchange(facts: Facts, exchange: Exchange, asked: CertificateId | None) -> Found:
    number = exchange.connection_no
    connection = facts.connections[number]
    first = connection.first_packet_no
    begin = exchange.request_start_ns
    up = connection.established_ns or connection.syn_ack_ns
    if up is not None and begin - up <= max(PROMPT_NS, connection.rtt_ns or 0):
        begin = _connect_ns(facts, connection)
    else:
        first = exchange.request_first_packet_no or first
    fetch = OcspFetch(
        responder=exchange.authority or connection.server_name or connection.server_ip,
        asked_connection_no=number,
        from_ns=begin,
        first_packet_no=first,
    )
    gone = int(facts.streams.fin_ns[2 * number])
    if gone == NO_TIME and connection.reset_by == "client" and connection.reset_ns is not None:
        gone = connection.reset_ns
    answered = exchange.end_ns if exchange.response_seen_ns is not None else None
    if answered is not None and (gone == NO_TIME or answered <= gone + TOLERANCE_NS):
        fetch.to_ns, fetch.outcome = answered, "answered"
        fetch.last_packet_no = exchange.response_last_packet_no
    elif gone != NO_TIME:
        fetch.to_ns, fetch.outcome = gone, "given_up"
    elif connection.reset_by == "server":
        fetch.to_ns, fetch.outcome = connection.reset_ns, "refused"
        fetch.last_packet_no = connection.last_packet_no
    return Found(fetch, exchange, asked)


def _connect_ns(facts: Facts, connection: Connection) -> int:
    """Where the way to a responder began: its lookup, if it had one, else the first SYN."""
    syn = connection.syn_ns if connection.syn_ns is not None else connection.start_ns
    if connection.lookup_no is not None:
        lookup = facts.lookups[connection.lookup_no]
        if lookup.end_ns is not None and 0 <= syn - lookup.end_ns <= PROMPT_NS:
            return lookup.start_ns
    return syn


def _unreachable(facts: Facts) -> list[Found]:
    """Attempts to reach a responder that some certificate names, which led nowhere."""
    responders = {row.ocsp_responder for row in facts.read.certificates} - {None}
    if not responders:
        return []
    found = []
    for connection in facts.connections:
        if (
            connection.server_name not in responders
            or connection.client_bytes
            or connection.tls is not None
            or connection.established_ns is not None
        ):
            continue
        fetch = OcspFetch(
            responder=connection.server_name or connection.server_ip,
            asked_connection_no=connection.connection_no,
            from_ns=_connect_ns(facts, connection),
            first_packet_no=connection.first_packet_no,
            last_packet_no=connection.last_packet_no,
        )
        if connection.refused and connection.reset_ns is not None:
            fetch.to_ns, fetch.outcome = connection.reset_ns, "refused"
        found.append(Found(fetch, None))
    return found


def _steps(facts: Facts, clients: set[str]) -> list[Steps]:
    """The steps on all TLS connections of these clients that showed a certificate."""
    chosen = [
        connection
        for connection in facts.connections
        if connection.client_ip in clients and connection.tls and not connection.tls.resumed
    ]
    if not chosen:
        return []
    ready: dict[int, int] = {}
    for message in facts.handshake_messages:
        last = "finished" if _is_tls13(facts, message.connection_no) else "server_hello_done"
        if message.type == last and not message.from_client:
            ready.setdefault(message.connection_no, message.complete_ns)
    request: dict[int, Exchange] = {}
    for exchange in facts.exchanges:
        known = request.get(exchange.connection_no)
        if exchange.request_first_packet_no is not None and (
            known is None or exchange.request_start_ns < known.request_start_ns
        ):
            request[exchange.connection_no] = exchange
    records = facts.tls_records
    steps = []
    for connection in chosen:
        number = connection.connection_no
        part = rows_equal(records.connection_no, number)
        shaking = records.role[part] == ROLE_CODE["handshake"]
        client = records.from_client[part]
        seen, complete = records.seen_ns[part], records.complete_ns[part]
        flight = complete[shaking & ~client & (complete != NO_TIME)]
        if number not in ready and not len(flight):
            continue
        step = Steps(number, ready.get(number, int(flight.max()) if len(flight) else 0))
        answers = np.flatnonzero(shaking & client & (seen >= step.certificate_ns))
        if len(answers):
            first = answers[seen[answers].argmin()]
            step.handshake_ns = int(seen[first])
            step.handshake_packet_no = int(records.first_packet_no[part][first])
        asked = request.get(number)
        if asked is not None:
            step.request_ns = asked.request_start_ns
            step.request_packet_no = asked.request_first_packet_no
        steps.append(step)
    return steps


def _is_tls13(facts: Facts, number: int) -> bool:
    tls = facts.connections[number].tls
    return tls is not None and tls.version == "TLS 1.3"


def _certificate_ns(step: Steps) -> int:
    return step.certificate_ns


def _tie(facts: Facts, row: Found, steps: Sequence[Steps]) -> None:
    """Find the connection that a fetch is about, and what waited for it.

    Args:
        facts: all.
        row: the fetch.
        steps: of its client's connections whose certificate was there when it began.
    """
    fetch = row.fetch
    best: tuple[tuple[int, bool, int], Steps, Tie, _Wait | None] | None = None
    for step in steps:
        tie = _tied_by(facts, row, step.connection_no)
        if tie is None:
            continue
        wait = _wait(fetch, step)
        if wait is None and tie == "time" and not _near(fetch, step):
            continue
        rank = (-_TIES.index(tie), wait is not None, step.certificate_ns)
        if best is None or rank > best[0]:
            best = rank, step, tie, wait
    if best is None:
        return
    _, step, tie, wait = best
    fetch.connection_no = step.connection_no
    fetch.tied_by = tie
    fetch.phase = "beside"
    if wait is not None:
        fetch.phase = wait.phase
        fetch.waited_until_ns, fetch.next_packet_no = wait.until_ns, wait.packet_no
        fetch.confidence = min(_TRUST[tie], 1.0 if wait.certain else _GIVEN_UP_TRUST)
        if fetch.to_ns is None:
            fetch.outcome = "given_up"


def _tied_by(facts: Facts, row: Found, connection_no: int) -> Tie | None:
    """How a fetch belongs to a connection's certificates; None if it does not."""
    chain = facts.presented.chain_of.get(connection_no)
    first = -1 if chain is None else facts.read.first_row[chain]
    if first < 0:
        return "time"
    named = untold = False
    for index in range(first, len(facts.read.certificates)):
        certificate = facts.read.certificates[index]
        if certificate.chain_no != chain:
            break
        identity = facts.read.identities[index]
        if row.asked is not None and identity is not None:
            same = row.asked.names(identity)
            if same:
                return "certificate"
            untold |= same is None
        responder = certificate.ocsp_responder
        named |= responder is not None and responder == row.fetch.responder.partition(":")[0]
    # Another certificate of the same responder, unless what was asked for can't be read.
    return "responder" if named and (row.asked is None or untold) else None


@quick_dataclass(frozen=True)
class _Wait:
    phase: Literal["handshake", "request"]
    until_ns: int
    packet_no: int | None
    certain: bool = True


def _wait(fetch: OcspFetch, step: Steps) -> _Wait | None:
    """Which step of the client waited for a fetch; None if none did."""
    steps: Mapping[Literal["handshake", "request"], tuple[int | None, int | None]] = {
        "handshake": (step.handshake_ns, step.handshake_packet_no),
        "request": (step.request_ns, step.request_packet_no),
    }
    for phase, (at, packet_no) in steps.items():
        if at is None or at < fetch.from_ns:
            continue
        if fetch.to_ns is None:
            if at - fetch.from_ns >= SILENT_NS:
                return _Wait(phase, at, packet_no, certain=False)
        elif 0 <= at - fetch.to_ns + TOLERANCE_NS <= PROMPT_NS:
            return _Wait(phase, at, packet_no)
        return None  # it went on before the answer
    return None


def _near(fetch: OcspFetch, step: Steps) -> bool:
    """Whether a fetch nobody waited for began when a client checks a certificate."""
    last = step.request_ns if step.request_ns is not None else step.handshake_ns
    return last is None or fetch.from_ns <= last + PROMPT_NS


def _chain(fetches: Sequence[OcspFetch]) -> None:
    """Questions one after the other: an earlier one was waited for if the next one was."""
    for index in range(len(fetches) - 2, -1, -1):
        fetch = fetches[index]
        if fetch.to_ns is None or fetch.waited_until_ns is not None:
            continue
        for later in fetches[index + 1 : index + 1 + MAX_CANDIDATES]:
            if later.from_ns > fetch.to_ns + PROMPT_NS:
                break
            if (
                later.waited_until_ns is not None
                and later.connection_no == fetch.connection_no
                and later.from_ns >= fetch.to_ns - TOLERANCE_NS
            ):
                fetch.phase = later.phase
                fetch.waited_until_ns = later.waited_until_ns
                fetch.next_packet_no = later.next_packet_no
                fetch.confidence = min(_TRUST.get(fetch.tied_by, 0.0), later.confidence)
                break
