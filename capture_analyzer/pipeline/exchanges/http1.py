"""HTTP/1.x exchanges: each request with its response, in order (RFC 9112, section 9.3).

A response answers the oldest request without one. Where the capture begins in mid-connection
or lacks bytes, time and stream offsets tell which half is missing: a response that was seen
before a request does not answer it, and a hole in the server's stream in front of a response
holds the answers of the requests that came before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from capture_analyzer.model.connections import Connection
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.messages import Field, Message

Pair = tuple[Message | None, Message | None]

_PROTOCOLS: dict[str, Literal["http/1.0", "http/1.1"]] = {"http/1.0": "http/1.0"}


@dataclasses.dataclass(frozen=True, slots=True)
class Tunnel:
    """Where a connection stops speaking HTTP (Upgrade, CONNECT).

    Attributes:
        connection_no: the connection.
        client_offset, server_offset: stream offsets of the first bytes behind HTTP.
    """

    connection_no: int
    client_offset: int
    server_offset: int


def find_http1(
    messages: Iterable[Message],
    connections: Sequence[Connection],
    server_fin_ns: Callable[[int], int | None],
) -> tuple[list[Exchange], list[Tunnel]]:
    """Exchanges of clear-text HTTP/1.x, by connection, then request.

    Args:
        messages: requests and responses of all connections; a final response carries its
            1xx responses.
        connections: by number.
        server_fin_ns: when the server of a connection (by number) sent its FIN.

    Returns:
        The exchanges, numbered 0 (their numbers come later), and the tunnels they opened.
    """
    halves: dict[int, tuple[list[Message], list[Message]]] = {}
    for message in messages:
        if not message.protocol.startswith("http/1"):
            continue
        requests, responses = halves.setdefault(message.connection_no, ([], []))
        (requests if message.from_client else responses).append(message)
    exchanges: list[Exchange] = []
    tunnels: list[Tunnel] = []
    for connection_no in sorted(halves):
        requests, responses = halves[connection_no]
        requests.sort(key=_offset)
        responses.sort(key=_offset)
        connection = connections[connection_no]
        pairs = _pair(requests, responses)
        rows = [_exchange(connection, request, response) for request, response in pairs]
        _end_unanswered(rows, connection, server_fin_ns)
        _mark_shared(rows)
        exchanges += rows
        tunnel = _tunnel(connection_no, requests, responses)
        if tunnel:
            tunnels.append(tunnel)
    return exchanges, tunnels


def _offset(message: Message) -> int:
    return message.offset


def _pair(requests: list[Message], responses: list[Message]) -> list[Pair]:
    """Join requests and responses of one connection, both in stream order."""
    numbered = {m.pair_no: i for i, m in enumerate(requests) if m.pair_no is not None}
    pairs: list[Pair] = []
    waiting = 0  # the oldest request without a response
    expected = 0  # server offset behind what has been read
    for response in responses:
        opening = response.interim[0] if response.interim else response
        skipped = opening.offset > expected
        expected = response.offset + response.length
        chosen = -1 if response.pair_no is None else numbered.get(response.pair_no, -1)
        if chosen < waiting:
            chosen = _answered(requests, waiting, opening.seen_ns, skipped)
        if chosen < 0:
            pairs.append((None, response))
            continue
        pairs += [(request, None) for request in requests[waiting:chosen]]
        pairs.append((requests[chosen], response))
        waiting = chosen + 1
    pairs += [(request, None) for request in requests[waiting:]]
    return pairs


def _answered(requests: list[Message], waiting: int, seen_ns: int, skipped: bool) -> int:
    """Which request a response seen at `seen_ns` answers, the parser not having told.

    Args:
        requests: all of the connection.
        waiting: the oldest of them without a response.
        seen_ns: when the response (or its first 1xx) was seen.
        skipped: the capture lacks bytes of the server's stream in front of the response.

    Returns:
        An index into `requests`; -1 if the request is not in the capture.
    """
    if waiting >= len(requests) or seen_ns < requests[waiting].seen_ns:
        return -1
    # A request that was followed by another, which this response can answer as well, may
    # have had its answer in the missing bytes.
    while skipped and waiting + 1 < len(requests) and requests[waiting + 1].seen_ns <= seen_ns:
        waiting += 1
    return waiting


def _exchange(
    connection: Connection, request: Message | None, response: Message | None
) -> Exchange:
    """The row of a pair; its numbers, set-up and phases come later."""
    message = request or response
    assert message is not None
    request_end = request.last_ns if request else message.seen_ns
    exchange = Exchange(
        exchange_no=0,
        connection_no=connection.connection_no,
        stream_id=None,
        protocol=_PROTOCOLS.get(message.protocol, "http/1.1"),
        kind=_kind(response),
        inferred=False,
        start_ns=message.seen_ns,
        request_start_ns=message.seen_ns,
        request_end_ns=max(request_end, message.seen_ns),
        last_ns=message.seen_ns,
    )
    if request:
        exchange.method = request.method
        exchange.authority = request.authority
        exchange.path = request.target
        exchange.request_bytes = request.length
        exchange.request_first_packet_no = request.first_packet_no
        exchange.request_last_packet_no = request.last_packet_no
        exchange.request_fields = request.fields
        exchange.missing_bytes += request.missing_bytes
        exchange.last_ns = max(exchange.last_ns, request.last_ns)
    if response:
        _add_response(exchange, response, request is not None)
    exchange.complete = bool(request and request.complete and response and response.complete)
    exchange.end_ns = _end(request, response)
    if exchange.end_ns is not None:
        exchange.last_ns = exchange.end_ns
    return exchange


def _add_response(exchange: Exchange, response: Message, asked: bool) -> None:
    exchange.status = response.status
    exchange.interim_statuses = [m.status for m in response.interim if m.status is not None]
    exchange.response_seen_ns = response.seen_ns
    exchange.response_head_ns = response.head_ns
    exchange.response_bytes = response.length + sum(m.length for m in response.interim)
    exchange.response_first_packet_no = response.first_packet_no
    exchange.response_last_packet_no = response.last_packet_no
    exchange.response_fields = response.fields
    exchange.missing_bytes += response.missing_bytes
    exchange.last_ns = max(exchange.last_ns, response.last_ns)
    if response.start_certain:
        exchange.response_start_ns = response.start_ns
        if asked:
            exchange.ttfb_ns = response.start_ns - exchange.request_start_ns


def _end(request: Message | None, response: Message | None) -> int | None:
    """Later of last request byte and last response byte usable; None if there is none."""
    if response is None or response.end_ns is None:
        return None
    return response.end_ns if request is None else max(response.end_ns, request.last_ns)


def _end_unanswered(
    rows: list[Exchange], connection: Connection, server_fin_ns: Callable[[int], int | None]
) -> None:
    """End what a reset, or the server's FIN instead of an answer, ended.

    Only behind the last exchange that was answered: an earlier one without an answer, or
    without its end, is one that the capture lacks.
    """
    for row in reversed(rows):
        if row.end_ns is not None:
            return
        closed = None
        if connection.reset_ns is not None and connection.reset_ns >= row.request_start_ns:
            closed, row.reset = connection.reset_ns, True
        elif row.response_seen_ns is None:
            closed = server_fin_ns(connection.connection_no)
        if closed is not None and closed >= row.request_start_ns:
            row.end_ns = row.last_ns = max(closed, row.last_ns)


def _kind(response: Message | None) -> Literal["http", "sse", "websocket"]:
    if response is None:
        return "http"
    if response.status == 101:
        return "websocket" if _value(response.fields, "upgrade") == "websocket" else "http"
    media_type = _value(response.fields, "content-type").partition(";")[0].strip()
    return "sse" if media_type == "text/event-stream" else "http"


def _value(fields: list[Field], name: str) -> str:
    return next((field.value.lower() for field in fields if field.name == name), "")


def _mark_shared(rows: list[Exchange]) -> None:
    """Mark exchanges that were open at the same time as another (pipelining)."""
    holder: Exchange | None = None  # the one open longest so far
    for row in sorted(rows, key=lambda row: row.request_start_ns):
        if holder is not None and row.request_start_ns < holder.last_ns:
            holder.shared_connection = row.shared_connection = True
        if holder is None or row.last_ns >= holder.last_ns:
            holder = row


def _tunnel(connection_no: int, requests: list[Message], responses: list[Message]) -> Tunnel | None:
    """The tunnel that the last response opened, if it did."""
    opener = next((m for m in responses if m.upgrade), None)
    if opener is None:
        return None
    asked = [m for m in requests if m.seen_ns <= opener.seen_ns]
    client_offset = asked[-1].offset + asked[-1].length if asked else 0
    return Tunnel(connection_no, client_offset, opener.offset + opener.length)
