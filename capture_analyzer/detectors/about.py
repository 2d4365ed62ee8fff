"""What a finding about some connections says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capture_analyzer import wording
from capture_analyzer.detectors.display_filter import tcp_streams
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.connections import Connection


def about(tables: Tables, connections: Sequence[Connection]) -> dict[str, Any]:
    """The columns of a finding that name its connections, their exchanges and their time."""
    numbers = sorted({connection.connection_no for connection in connections})
    return {
        "connection_no": numbers[0] if len(numbers) == 1 else None,
        "connection_nos": numbers,
        "exchange_nos": tables.exchange_nos_of(numbers),
        "from_ns": min(connection.start_ns for connection in connections),
        "to_ns": max(connection.end_ns for connection in connections),
        "count": len(numbers),
        "display_filter": tcp_streams(connection.tcp_stream for connection in connections),
    }


def number_of(count: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun in a sentence: one connection, three connections."""
    return f"{wording.count_word(count)} {noun if count == 1 else plural or noun + 's'}"
