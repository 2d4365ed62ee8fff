"""Rows of table `exchanges` from messages that could be read, for every version of HTTP."""

from __future__ import annotations

from typing import Literal

from capture_analyzer.model.connections import Connection
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.messages import Field, Message

_PROTOCOLS: dict[str, Literal["http/1.0", "http/1.1", "h2"]] = {"http/1.0": "http/1.0", "h2": "h2"}


def exchange_row(
    connection: Connection, request: Message | None, response: Message | None
) -> Exchange:
    """The row of a pair; its numbers, set-up and phases come later."""
    message = request or response
    assert message is not None
    request_end = request.last_ns if request else message.seen_ns
    exchange = Exchange(
        exchange_no=0,
        connection_no=connection.connection_no,
        stream_id=message.stream_id,
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
        exchange.model = request.model
        exchange.max_tokens = request.max_tokens
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
    offset = response.transport_offset
    exchange.response_offset = response.offset if offset is None else offset
    exchange.response_first_packet_no = response.first_packet_no
    exchange.response_last_packet_no = response.last_packet_no
    exchange.response_fields = response.fields
    exchange.missing_bytes += response.missing_bytes
    exchange.last_ns = max(exchange.last_ns, response.last_ns)
    exchange.stream = response.stream
    if response.stream and asked:
        first_ns = response.stream.first_content_ns()
        if first_ns is not None:
            exchange.ttft_ns = _since(exchange.request_start_ns, first_ns)
    if response.start_certain:
        exchange.response_start_ns = response.start_ns
        if asked:
            exchange.ttfb_ns = _since(exchange.request_start_ns, response.start_ns)


def _since(start_ns: int, then_ns: int) -> int | None:
    """The time from one to the other; None if the clock went back between them."""
    return then_ns - start_ns if then_ns >= start_ns else None


def _end(request: Message | None, response: Message | None) -> int | None:
    """Later of last request byte and last response byte usable; None if there is none."""
    if response is None or response.end_ns is None:
        return None
    if request is None:
        return response.end_ns
    return max(response.end_ns, request.last_ns, request.seen_ns)  # the clock may have gone back


def _kind(response: Message | None) -> Literal["http", "sse", "websocket"]:
    if response is None:
        return "http"
    if response.status == 101:
        return "websocket" if _value(response.fields, "upgrade") == "websocket" else "http"
    media_type = _value(response.fields, "content-type").partition(";")[0].strip()
    return "sse" if media_type == "text/event-stream" else "http"


def _value(fields: list[Field], name: str) -> str:
    return next((field.value.lower() for field in fields if field.name == name), "")


def mark_shared(rows: list[Exchange]) -> None:
    """Mark exchanges that were open at the same time as another (pipelining, multiplexing)."""
    holder: Exchange | None = None  # the one open longest so far
    for row in sorted(rows, key=lambda row: row.request_start_ns):
        if holder is not None and row.request_start_ns < holder.last_ns:
            holder.shared_connection = row.shared_connection = True
        if holder is None or row.last_ns >= holder.last_ns:
            holder = row
