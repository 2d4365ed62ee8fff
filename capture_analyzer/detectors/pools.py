"""What a client does with its connections to one server, exchange by exchange.

A client's connections to a server are its pool, whatever keeps them: requests are put on an idle
one or wait for one, and new ones are opened. The capture shows the client by its address only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, Literal

import numpy as np

from capture_analyzer.detectors.servers import Server, servers
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.exchanges import Exchange, ExchangeRows
from capture_analyzer.model.packets import FIN, RST
from capture_analyzer.model.quick_dataclass import quick_dataclass

NEVER: Final = 1 << 62  # of what did not end in this capture

_TUNNELS: Final = ("CONNECT",)  # behind it the connection is another protocol's
_SWITCHED: Final = 101
_GOAWAY: Final = 7  # RFC 9113, section 6.8


@quick_dataclass
class Pooled:
    """A connection with its exchanges.

    Attributes:
        connection: the connection.
        exchanges: on it, in order of their requests; at least one.
        inferred: what it carries was not read.
        closed_ns: first FIN or RST; NEVER = none in this capture.
        multiplexed: exchanges may run side by side on it.
        starts: when the request of each exchange began.
    """

    connection: Connection
    exchanges: ExchangeRows
    inferred: bool
    closed_ns: int
    multiplexed: bool
    starts: list[int]

    @property
    def opened_ns(self) -> int:
        """Its first SYN, else its first packet."""
        opened = self.connection.syn_ns
        return self.connection.start_ns if opened is None else opened

    def before(self, instant_ns: int) -> Exchange | None:
        """The last exchange whose request had begun by then."""
        at = bisect_right(self.starts, instant_ns)
        return self.exchanges[at - 1] if at else None


def pools(
    tables: Tables, least: int = 1, among: Iterable[int] | None = None
) -> dict[tuple[str, Server], list[Pooled]]:
    """Connections with exchanges by client and server, each pool in order of opening.

    Args:
        tables: the facts.
        least: leave out pools of fewer connections.
        among: only pools with one of these connections; None = all.
    """
    keys = tables.once(_by_ends)
    wanted = None if among is None else set(among)
    columns = tables.exchanges.columns
    started, inferred = columns.request_start_ns.tolist(), columns.inferred.tolist()
    found: dict[tuple[str, Server], list[Pooled]] = {}
    for key, rows in keys.items():
        if len(rows) < least or (
            wanted is not None and all(row.connection_no not in wanted for row in rows)
        ):
            continue
        used = []
        for row in rows:
            numbers = tables.exchange_nos_of((row.connection_no,))
            if numbers:
                exchanges = ExchangeRows(tables.exchanges, numbers)
                starts = [started[number] for number in numbers]
                used.append(_pooled(row, exchanges, inferred[numbers[0]], starts))
        if used and len(used) >= least:
            found[key] = sorted(used, key=_opening)
    return found


def _by_ends(tables: Tables) -> dict[tuple[str, Server], list[Connection]]:
    """All connections by client and server."""
    keys: dict[tuple[str, Server], list[Connection]] = {}
    for connection, server in zip(tables.connections, tables.once(servers), strict=True):
        keys.setdefault((connection.client_ip, server), []).append(connection)
    return keys


def _pooled(
    connection: Connection, exchanges: ExchangeRows, inferred: bool, starts: list[int]
) -> Pooled:
    ends = [end for end in (connection.fin_ns, connection.reset_ns) if end is not None]
    return Pooled(
        connection,
        exchanges,
        inferred,
        min(ends, default=NEVER),
        connection.alpn == "h2" or (not inferred and exchanges[0].protocol in ("h2", "h3")),
        starts,
    )


def _opening(pooled: Pooled) -> tuple[int, int]:
    return pooled.opened_ns, pooled.connection.connection_no


def end_of(exchange: Exchange) -> int:
    """When an exchange was over; NEVER = not in this capture."""
    return NEVER if exchange.end_ns is None else exchange.end_ns


def switched(exchange: Exchange) -> bool:
    """Behind this exchange the connection belongs to another protocol."""
    return (
        exchange.status == _SWITCHED or exchange.kind == "websocket" or exchange.method in _TUNNELS
    )


def announced_close(exchange: Exchange) -> Literal["client", "server"] | None:
    """Who said that the connection ends behind an exchange (RFC 9112, section 9.6).

    HTTP/1.0 ends it unless both say otherwise; that is the client's choice of version.
    """
    kept = False
    for fields, side in (
        (exchange.request_fields, "client"),
        (exchange.response_fields, "server"),
    ):
        for field in fields:
            if field.name == "connection":
                options = [option.strip() for option in field.value.lower().split(",")]
                if "close" in options:
                    return "client" if side == "client" else "server"
                kept |= "keep-alive" in options
    return "client" if exchange.protocol == "http/1.0" and not kept else None


def closers(tables: Tables, numbers: Iterable[int]) -> dict[int, tuple[str, int]]:
    """Who sent the first FIN or RST of these connections, and in which packet."""
    wanted = np.zeros(len(tables.connections), np.bool_)
    wanted[list(numbers)] = True
    packets = tables.packets
    rows = np.flatnonzero((packets.flags & (FIN | RST)) != 0)
    owner = packets.connection_no[rows]
    rows = rows[(owner >= 0) & wanted[owner]]
    chosen, first = np.unique(packets.connection_no[rows], return_index=True)
    rows = rows[first]
    side = packets.from_client[rows]
    columns = (chosen.tolist(), side.tolist(), (rows + 1).tolist())
    return {
        number: ("client" if client == 1 else "server", packet_no)
        for number, client, packet_no in zip(*columns, strict=True)
    }


def told_to_go(tables: Tables) -> set[int]:
    """Connections of HTTP/2 on which the server sent GOAWAY: no new requests are for them."""
    frames = tables.frames
    return set(frames.connection_no[(frames.type == _GOAWAY) & ~frames.from_client].tolist())
