"""HTTP/2 exchanges: request and response of each stream (RFC 9113, section 8.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from capture_analyzer.model.connections import Connection
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.messages import Message
from capture_analyzer.pipeline.exchanges.rows import exchange_row, mark_shared


def find_http2(messages: Iterable[Message], connections: Sequence[Connection]) -> list[Exchange]:
    """Exchanges of HTTP/2 connections, by connection, then first frame of their stream.

    A promised response answers nothing that the client asked for and makes no exchange.
    """
    streams: dict[int, dict[int, list[Message | None]]] = {}
    for message in messages:
        if message.protocol != "h2" or message.stream_id is None or message.stream_id % 2 == 0:
            continue
        pair = streams.setdefault(message.connection_no, {}).setdefault(
            message.stream_id, [None, None]
        )
        side = 0 if message.from_client else 1
        if pair[side] is None:  # a stream has one message a direction; more breaks the rules
            pair[side] = message
    exchanges: list[Exchange] = []
    for connection_no in sorted(streams):
        connection = connections[connection_no]
        rows = []
        for request, response in streams[connection_no].values():
            row = exchange_row(connection, request, response)
            _end_reset(row, request, response, connection)
            rows.append(row)
        mark_shared(rows)
        exchanges += rows
    return exchanges


def _end_reset(
    row: Exchange, request: Message | None, response: Message | None, connection: Connection
) -> None:
    """End what RST_STREAM or a reset of the connection ended before its own end."""
    if row.end_ns is not None:
        return
    resets = [m.reset_ns for m in (request, response) if m is not None and m.reset_ns is not None]
    if connection.reset_ns is not None and connection.reset_ns >= row.request_start_ns:
        resets.append(connection.reset_ns)
    if resets:
        row.reset = True
        row.end_ns = row.last_ns = max(min(resets), row.last_ns)
