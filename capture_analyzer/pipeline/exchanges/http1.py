"""HTTP/1.x exchanges: each request with its response, in order (RFC 9112, section 9.3).

A response answers the oldest request without one. Where the capture begins in mid-connection
or lacks bytes, time and stream offsets tell which half is missing: a response that was seen
before a request does not answer it, and a hole in the server's stream in front of a response
holds the answers of the requests that came before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from capture_analyzer.model.connections import Connection
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.messages import Message
from capture_analyzer.pipeline.exchanges.rows import exchange_row, mark_shared
from capture_analyzer.pipeline.http_tunnels import Tunnel, find_tunnel

Pair = tuple[Message | None, Message | None]


def find_http1(
    messages: Iterable[Message],
    connections: Sequence[Connection],
    server_fin_ns: Callable[[int], int | None],
) -> tuple[list[Exchange], list[Tunnel]]:
    """Exchanges of HTTP/1.x, by connection, then request.

    Args:
        messages: requests and responses of all connections; a final response carries its
            1xx responses.
        connections: by number.
        server_fin_ns: when the server of a connection (by number) sent its FIN.

    Returns:
        The exchanges, numbered 0 (their numbers come later), and the tunnels they opened,
        save inside of another one.
    """
    # By connection, and whether inside of its tunnel: there HTTP begins anew.
    halves: dict[tuple[int, bool], tuple[list[Message], list[Message]]] = {}
    for message in messages:
        if not message.protocol.startswith("http/1"):
            continue
        layer = message.connection_no, message.tunnelled
        requests, responses = halves.setdefault(layer, ([], []))
        (requests if message.from_client else responses).append(message)
    exchanges: list[Exchange] = []
    tunnels: list[Tunnel] = []
    for connection_no, tunnelled in sorted(halves):
        requests, responses = halves[connection_no, tunnelled]
        requests.sort(key=_offset)
        responses.sort(key=_offset)
        connection = connections[connection_no]
        pairs = _pair(requests, responses)
        rows = [exchange_row(connection, request, response) for request, response in pairs]
        _end_unanswered(rows, connection, server_fin_ns)
        mark_shared(rows)
        exchanges += rows
        tunnel = None if tunnelled else find_tunnel(connection_no, requests, responses)
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
