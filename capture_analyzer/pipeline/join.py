"""Join: what an exchange's set-up was, where the exchange starts, and the final numbers.

A connection's first exchange carries its set-up if its request followed readiness at once
(`PROMPT_NS` or a round trip, whichever is longer): then the client waited for all of it. So it
did if in between it waited for something that has a name, an OCSP fetch.
Otherwise the connection stood ready before anyone asked for it (`Connection.preconnected`)
and its set-up cost the exchange nothing. The set-up is, in order:

* the *resolution*: the DNS lookups of the server's name, if their answers came just before
  the first connection attempt; with the search-list questions that failed before it
  (resolv.conf's ndots) and other address types asked at the same time (RFC 8305, section 3);
* *failed attempts*: connections of the same client to the same server or name, refused or
  never answered, in the `ATTEMPT_NS` before (RFC 8305, section 5);
* the TCP handshake, then the TLS handshake, of the connection itself.

Through a proxy there are two set-ups: CONNECT carries that of the transport, and the first
exchange behind it the TLS handshake.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.connections import Connection, TlsSummary
from capture_analyzer.model.exchanges import Exchange, Exchanges
from capture_analyzer.model.lookups import Lookup
from capture_analyzer.model.quick_dataclass import quick_dataclass

PROMPT_NS: Final = 50_000_000
"""A client that goes on within this time (or a round trip) of being able to was waiting."""

ATTEMPT_NS: Final = 3_000_000_000
"""How long before a connection a failed attempt can lie and still belong to it."""

TIMEOUT_NS: Final = 5_000_000_000
"""How long a stub resolver waits for an answer by default (resolv.conf(5), timeout)."""

_MOST_LOOKUPS: Final = 32  # of one resolution: bounds the walk back over a client's lookups


@quick_dataclass
class Setup:
    """What a connection's first exchange had to wait for, as instants in order.

    Attributes:
        exchange_no: the exchange that carries it.
        connection_no: its connection.
        attempt_nos: failed attempts that belong to it, in order.
        lookups: the resolution's questions, in order; empty without one.
        dns_ns: the resolution began; None without one.
        dns_end_ns: the last answer that the client waited for.
        connect_ns: first SYN, of the first attempt.
        established_ns: the transport was ready.
        tls: there was a TLS handshake.
        tunnelled: it is the whole of the set-up; `connect_ns` and `established_ns` are where it
            began.
        ready_ns: all was ready for the request (behind the TLS handshake, if there is one).
    """

    exchange_no: int
    connection_no: int
    attempt_nos: list[int]
    lookups: list[Lookup]
    dns_ns: int | None
    dns_end_ns: int | None
    connect_ns: int
    established_ns: int
    tls: bool
    ready_ns: int
    tunnelled: bool = False


def join(
    exchanges: Exchanges,
    connections: Sequence[Connection],
    lookups: Sequence[Lookup],
    awaited: Mapping[int, tuple[int, int]] | None = None,
) -> tuple[Exchanges, list[Setup]]:
    """Give exchanges their set-up and final numbers.

    Writes `Connection.preconnected`.

    Args:
        exchanges: of all connections, in any order that is the same in every run.
        connections: by number.
        lookups: by number, already joined to connections.
        awaited: for a connection what its first request waited for beside its set-up: from
            when, until when.

    Returns:
        The exchanges by first request byte, then connection, which is the order of their
        numbers; the set-ups that one of them carries, by exchange number.
    """
    columns = exchanges.columns
    exchanges = exchanges.take(np.lexsort((columns.connection_no, columns.request_start_ns)))
    columns = exchanges.columns
    attempts = _failed_attempts(connections)
    names = _Resolutions(lookups, connections)
    taken: set[int] = set()
    setups: list[Setup] = []
    first = np.full(len(connections), -1, np.int64)  # exchange of each connection
    first[columns.connection_no[::-1]] = np.arange(len(exchanges))[::-1]
    first = np.sort(first[first >= 0])
    for exchange_no, connection_no, request_ns, asked in zip(
        first.tolist(),
        columns.connection_no[first].tolist(),
        columns.request_start_ns[first].tolist(),
        (columns.request_first_packet_no[first] != NO_TIME).tolist(),
        strict=True,
    ):
        connection = connections[connection_no]
        if not asked:
            connection.preconnected = connection.syn_ns is None
            continue  # the request is not in the capture, so neither is what came before it
        waited = None if awaited is None else awaited.get(connection_no)
        setup = _setup(exchange_no, request_ns, connection, waited)
        if setup is None:
            connection.preconnected = True
            continue
        _add_attempts(setup, connection, attempts, taken)
        names.add(setup, connection)
        setups.append(setup)
    tunnels = _in_tunnels(exchanges, first, connections)
    if tunnels:
        setups = sorted(setups + tunnels, key=_carrier)
    _carry(exchanges, setups, connections)
    return exchanges, setups


def _carry(
    exchanges: Exchanges, setups: Sequence[Setup], connections: Sequence[Connection]
) -> None:
    """Write set-ups into the exchanges that carry them."""
    columns = exchanges.columns
    numbers = np.array([setup.exchange_no for setup in setups], np.intp)
    starts = [setup.connect_ns if setup.dns_ns is None else setup.dns_ns for setup in setups]
    columns.carries_setup[numbers] = True
    columns.start_ns[numbers] = starts
    for setup in setups:
        lookup_no = connections[setup.connection_no].lookup_no
        if setup.lookups and lookup_no is not None:
            columns.lookup_no[setup.exchange_no] = lookup_no
    exchanges.setup_connection_nos = {
        setup.exchange_no: setup.attempt_nos for setup in setups if setup.attempt_nos
    }
    carried = dict(zip((setup.exchange_no for setup in setups), starts, strict=True))
    for number, row in exchanges.made():
        if number in carried:
            row.carries_setup = True
            row.start_ns = carried[number]
            row.setup_connection_nos = exchanges.setup_connection_nos.get(number, [])
            lookup_no = int(columns.lookup_no[number])
            row.lookup_no = None if lookup_no == NO_TIME else lookup_no


def name_opaque(exchanges: Exchanges) -> None:
    """Give opaque exchanges the name of their server, where only DNS or the file told it."""
    for _, exchange in exchanges.made():
        if exchange.protocol == "opaque" and exchange.authority is None:
            exchange.authority = exchanges.connections[exchange.connection_no].server_name


def _setup(
    exchange_no: int, request: int, connection: Connection, awaited: tuple[int, int] | None
) -> Setup | None:
    """The set-up of a connection if its first exchange waited for it, else None.

    Args:
        exchange_no: that exchange.
        request: its first request byte.
        connection: the connection.
        awaited: what it waited for beside: from when, until when.
    """
    connect = connection.syn_ns
    if connect is None or connect > request:
        return None
    established = connection.established_ns
    if established is None:
        established = connection.syn_ack_ns
    established = request if established is None else min(established, request)
    established = max(established, connect)  # the clock may have gone back
    tls = connection.tls
    if tls is not None and tls.tunnelled:
        tls = None  # what is asked of the proxy does not wait for it
    ready = _ready(connection, tls, established, request)
    patience = max(PROMPT_NS, connection.rtt_ns or 0)
    if request - ready > patience and (
        awaited is None or awaited[0] - ready > patience or request - awaited[1] > patience
    ):
        return None
    return Setup(
        exchange_no=exchange_no,
        connection_no=connection.connection_no,
        attempt_nos=[],
        lookups=[],
        dns_ns=None,
        dns_end_ns=None,
        connect_ns=connect,
        established_ns=established,
        tls=tls is not None,
        ready_ns=ready,
    )


def _ready(connection: Connection, tls: TlsSummary | None, established: int, request: int) -> int:
    """When a request could be sent: behind the TLS handshake, if there is one."""
    if tls is None or tls.end_ns is None:
        return established
    ready = tls.end_ns
    if tls.version != "TLS 1.3" and not tls.resumed:
        # The server's Finished ends this handshake (RFC 5246, section 7.3): seen away
        # from the client, it still has to get there, and the request to come back.
        ready += connection.client_side_rtt_ns or 0
    return min(max(ready, established), request)  # early data, False Start


def _in_tunnels(
    exchanges: Exchanges, first: NDArray[np.int64], connections: Sequence[Connection]
) -> list[Setup]:
    """The TLS handshakes inside of tunnels for which an exchange waited.

    Args:
        exchanges: with their numbers.
        first: the first exchange of each connection.
        connections: by number.
    """
    to_come = {c.connection_no for c in connections if c.tls is not None and c.tls.tunnelled}
    if not to_come:
        return []
    owner = exchanges.columns.connection_no
    inside = np.isin(owner, list(to_come))
    inside[first] = False
    found: list[Setup] = []
    for exchange in exchanges.rows(np.flatnonzero(inside)):
        if exchange.connection_no in to_come and exchange.method != "CONNECT":
            to_come.remove(exchange.connection_no)
            found += _tunnelled(exchange, connections[exchange.connection_no])
    return found


def _tunnelled(exchange: Exchange, connection: Connection) -> list[Setup]:
    """The TLS handshake inside of a tunnel, if its first exchange waited for it."""
    tls, request = connection.tls, exchange.request_start_ns
    if tls is None or tls.start_ns is None or tls.start_ns > request:
        return []
    if exchange.request_first_packet_no is None:
        return []
    ready = _ready(connection, tls, tls.start_ns, request)
    if request - ready > max(PROMPT_NS, connection.rtt_ns or 0):
        return []
    return [
        Setup(
            exchange_no=exchange.exchange_no,
            connection_no=connection.connection_no,
            attempt_nos=[],
            lookups=[],
            dns_ns=None,
            dns_end_ns=None,
            connect_ns=tls.start_ns,
            established_ns=tls.start_ns,
            tls=True,
            ready_ns=ready,
            tunnelled=True,
        )
    ]


def _carrier(setup: Setup) -> int:
    return setup.exchange_no


_Aim = tuple[str, int, str]
"""A client, a port, and a server's address or name: what two attempts have in common."""


def _aims(connection: Connection) -> list[_Aim]:
    ends = [connection.server_ip]
    if connection.server_name is not None and connection.server_name != connection.server_ip:
        ends.append(connection.server_name)
    return [(connection.client_ip, connection.server_port, end) for end in ends]


def _failed_attempts(connections: Sequence[Connection]) -> dict[_Aim, list[Connection]]:
    """Connections that were refused or never answered, by aim, in order of their SYN."""
    failed: dict[_Aim, list[Connection]] = {}
    for connection in connections:
        if connection.syn_ns is not None and (
            connection.refused
            or (
                connection.syn_ack_ns is None
                and connection.established_ns is None
                and not connection.client_bytes
                and not connection.server_bytes
            )
        ):
            for aim in _aims(connection):
                failed.setdefault(aim, []).append(connection)
    for rows in failed.values():
        rows.sort(key=_syn)
    return failed


def _syn(connection: Connection) -> int:
    assert connection.syn_ns is not None
    return connection.syn_ns


def _by_syn(connection: Connection) -> tuple[int, int]:
    return _syn(connection), connection.connection_no


def _add_attempts(
    setup: Setup,
    connection: Connection,
    failed: dict[_Aim, list[Connection]],
    taken: set[int],
) -> None:
    """Add the failed attempts of the same client to the same server or name, just before."""
    if not failed:
        return
    connect = setup.connect_ns
    found: dict[int, Connection] = {}
    for aim in _aims(connection):
        rows = failed.get(aim)
        if not rows:
            continue
        first = bisect_right(rows, connect - ATTEMPT_NS - 1, key=_syn)
        last = bisect_right(rows, connect, key=_syn)
        mine = rows[first:last]
        # An attempt belongs to one connection: those behind need not look at it again.
        rows[first:last] = [row for row in mine if row is connection]
        found.update((row.connection_no, row) for row in mine if row is not connection)
    for attempt in sorted(found.values(), key=_by_syn):
        if attempt.connection_no not in taken:
            taken.add(attempt.connection_no)
            setup.attempt_nos.append(attempt.connection_no)
            setup.connect_ns = min(setup.connect_ns, _syn(attempt))


class _Resolutions:
    """Finds the lookups that a set-up waited for."""

    def __init__(self, lookups: Sequence[Lookup], connections: Sequence[Connection]) -> None:
        self._lookups = lookups
        self._connections = connections
        self._first_use: dict[int, int] = {}
        self._of_client: dict[str, list[Lookup]] = {}
        for lookup in lookups:
            self._of_client.setdefault(lookup.client_ip, []).append(lookup)
        for rows in self._of_client.values():
            rows.sort(key=_start)

    def add(self, setup: Setup, connection: Connection) -> None:
        """Add the resolution that ended just before the first connection attempt, if one did."""
        if connection.lookup_no is None:
            return
        used = self._lookups[connection.lookup_no]
        connect = setup.connect_ns
        if used.end_ns is None or used.end_ns > connect:
            return
        awaited = connect - self._used_first(used) <= PROMPT_NS
        rows = self._of_client[used.client_ip]
        index = bisect_right(rows, connect, key=_start)
        chosen = [used]
        began, ended = used.start_ns, used.end_ns
        # Others of the same name, asked at the same time or just before, in reverse.
        for lookup in reversed(rows[max(0, index - _MOST_LOOKUPS) : index]):
            if lookup is used or not _same_search(lookup.name, used.name):
                continue
            if lookup.end_ns is not None and lookup.end_ns <= connect:
                answered = lookup.end_ns
            elif awaited:
                # No answer in time: the client gave up on it, and then connected.
                answered = min(connect, lookup.start_ns + lookup.question_count * TIMEOUT_NS)
            else:
                answered = lookup.start_ns
            if answered < began - PROMPT_NS:
                break
            chosen.append(lookup)
            began, ended = min(began, lookup.start_ns), max(ended, answered)
        if connect - ended > max(PROMPT_NS, connection.rtt_ns or 0):
            return  # the name was known for a while
        setup.lookups = sorted(chosen, key=_start)
        setup.dns_ns, setup.dns_end_ns = began, ended

    def _used_first(self, lookup: Lookup) -> int:
        """The first SYN of a connection that used the lookup's answer."""
        first = self._first_use.get(lookup.lookup_no)
        if first is None:
            rows = (self._connections[number] for number in lookup.connection_nos)
            first = min((row.syn_ns for row in rows if row.syn_ns is not None), default=0)
            self._first_use[lookup.lookup_no] = first
        return first


def _start(lookup: Lookup) -> int:
    return lookup.start_ns


def _same_search(asked: str, used: str) -> bool:
    """Whether a name is the one used, or that with a search-list suffix (or without it)."""
    return asked == used or asked.startswith(used + ".") or used.startswith(asked + ".")
