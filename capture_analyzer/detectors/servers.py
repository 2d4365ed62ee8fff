"""Servers as findings name and group them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.connections import Connection

Server = tuple[str, int]
"""What one server is: its name (or address where no name is known) and port."""


def server_of(connection: Connection) -> Server:
    """The server of a connection: endpoints of one name and port are one server."""
    return (connection.server_name or connection.server_ip, connection.server_port)


def exchanges_by_server(tables: Tables, chosen: NDArray[np.bool_]) -> dict[Server, int]:
    """How many of the chosen exchanges each server has; those that have none are left out."""
    count = np.bincount(
        tables.exchanges.columns.connection_no[chosen], minlength=len(tables.connections)
    )
    totals: dict[Server, int] = {}
    of = tables.once(servers)
    for number in np.flatnonzero(count).tolist():
        totals[of[number]] = totals.get(of[number], 0) + int(count[number])
    return totals


def servers(tables: Tables) -> list[Server]:
    """The server of each connection, by number; to be asked for by `Tables.once`."""
    return [server_of(connection) for connection in tables.connections]


def label(connection: Connection) -> str:
    """A server in a sentence: by name, else by address and port (IPv6 in brackets)."""
    if connection.server_name:
        return connection.server_name
    ip = connection.server_ip
    return f"[{ip}]:{connection.server_port}" if ":" in ip else f"{ip}:{connection.server_port}"


class Established:
    """Connections that came up, found by server and client.

    Two connections are meant for one server by port, and by address or name: of a connection
    that failed only the address is known, unless DNS named it. A flood of connections that did
    not come up asks this for each of them.
    """

    def __init__(self, connections: Iterable[Connection], ports: set[int]) -> None:
        """Of these connections, those to one of these ports."""
        self._by_end: dict[tuple[str, int, str | None], list[int]] = {}
        for up in connections:
            if up.established_ns is not None and up.server_port in ports:
                begin = up.start_ns if up.syn_ns is None else up.syn_ns
                for end in filter(None, {up.server_ip, up.server_name}):
                    for client in (up.client_ip, None):
                        self._by_end.setdefault((end, up.server_port, client), []).append(begin)
        for starts in self._by_end.values():
            starts.sort()

    def after(self, one: Connection, instant_ns: int, *, any_client: bool = False) -> int | None:
        """When the next connection for the same server was opened behind an instant, if any.

        Args:
            one: a connection to that server; the next one is the same client's.
            instant_ns: later than this.
            any_client: or anyone's.
        """
        client = None if any_client else one.client_ip
        found = [
            starts[at]
            for end in filter(None, {one.server_ip, one.server_name})
            if (starts := self._by_end.get((end, one.server_port, client)))
            and (at := bisect_right(starts, instant_ns)) < len(starts)
        ]
        return min(found, default=None)

    def about(self, one: Connection, port: int, within_ns: int) -> bool:
        """Whether the same client opened one to another port of the same host about then."""
        starts = self._by_end.get((one.server_ip, port, one.client_ip), [])
        at = bisect_left(starts, one.start_ns - within_ns)
        return at < len(starts) and starts[at] <= one.start_ns + within_ns


def with_port(connection: Connection) -> str:
    """A server in a sentence, with its port."""
    text = label(connection)
    return f"{text} (port {connection.server_port})" if connection.server_name else text
