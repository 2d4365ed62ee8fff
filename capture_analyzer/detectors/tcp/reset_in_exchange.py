"""Connections were reset while a request was not finished.

What it detects:
    RST segments on a connection on which a request was being sent, waited for or answered.
    It says who sent the reset, and whether its IP time to live fits that host's other packets:
    firewalls and load balancers send resets in another's name. A reset after both sides were
    done is not meant.

    The connections of one server are one finding, apart for who sent the reset.

Why it matters:
    The request failed, or was cut: what had arrived of the answer may be incomplete, and
    whether the server carried the request out is not known.

What to do:
    Reset by the server: its process crashed or was stopped, it hit a limit of its own
    (time, size, requests), or it closed the connection while data was still arriving. Look at
    its log at this instant. Reset by a host in between (the time to live differs): look at idle
    and session limits of firewalls, NAT gateways and load balancers. Reset by the client: it
    gave up (its own time-out, or the user left): look at how long it had waited.

When it is wrong:
    Without keys the exchange is inferred, and a long answer that was just complete may be
    taken for unfinished; confidence is lower there.

    Some clients end every connection by reset, after they have read all they want.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer import wording
from capture_analyzer.detectors.contract import Meta
from capture_analyzer.detectors.phrases import upper_first
from capture_analyzer.detectors.rows_of import rows_by_connection
from capture_analyzer.detectors.servers import Server, label, server_of
from capture_analyzer.detectors.sides import whole
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import distinct
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.findings import MAX_EXAMPLES, Example, Finding
from capture_analyzer.model.packets import RST, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass

META = Meta(
    tables=("exchanges",),
    severity="critical: the server, or a host between, reset it; warning: the client did",
    references=(
        "RFC 9293, section 3.5.3 (reset processing)",
        "RFC 9293, section 3.10.4 (closing with data unread)",
    ),
)

OPAQUE_CONFIDENCE: Final = 0.6  # whether an encrypted exchange was finished can't be seen

HOPS_APART: Final = 2
"""A time to live that differs by more than a route change would make it: another host."""


@quick_dataclass(frozen=True)
class _Cut:
    """A connection that was reset, and the exchanges that were open."""

    connection: Connection
    exchanges: list[Exchange]
    packet_no: int  # the reset
    foreign: bool  # its TTL does not fit its sender


def detect(tables: Tables, options: object) -> Iterable[Finding]:
    """Yield a finding for each server and sender."""
    by_connection: dict[int, list[Exchange]] = {}
    columns = tables.exchanges.columns
    for exchange in tables.exchanges.rows(np.flatnonzero(columns.reset & ~columns.complete)):
        by_connection.setdefault(exchange.connection_no, []).append(exchange)
    if not by_connection:
        return
    numbers = np.array(list(by_connection), np.int32)
    both = dict(zip(numbers.tolist(), whole(tables, numbers).tolist(), strict=True))
    groups: dict[tuple[Server, str, bool], list[_Cut]] = {}
    rows = rows_by_connection(tables.packets, by_connection)
    for number, exchanges in by_connection.items():
        if not both[number]:
            continue  # what the other side answered was not captured
        connection = tables.connections[number]
        if connection.reset_ns is None or connection.reset_by is None:
            continue  # only its stream was reset
        open_ = [row for row in exchanges if (row.end_ns or 0) >= connection.reset_ns]
        if not open_:
            continue
        cut = _cut(tables.packets, rows[number], connection, open_)
        key = (server_of(connection), connection.reset_by, cut.foreign)
        groups.setdefault(key, []).append(cut)
    for (_, sender, foreign), group in groups.items():
        yield _finding(group, sender, foreign)


def _cut(
    packets: Packets, mine: NDArray[np.intp], connection: Connection, exchanges: list[Exchange]
) -> _Cut:
    """Find the reset's packet and compare its time to live with its sender's other packets."""
    resets = mine[
        ((packets.flags[mine] & RST) != 0) & (packets.time_ns[mine] == connection.reset_ns)
    ]
    at = int(resets[0]) if len(resets) else connection.last_packet_no - 1
    side = packets.from_client[at]
    others = mine[(packets.from_client[mine] == side) & ((packets.flags[mine] & RST) == 0)]
    foreign = False
    if len(others):
        usual = distinct(packets.ttl[others]).astype(int)
        foreign = bool((np.abs(usual - int(packets.ttl[at])) > HOPS_APART).all())
    return _Cut(connection, exchanges, at + 1, foreign)


def _finding(group: list[_Cut], sender: str, foreign: bool) -> Finding:
    server = label(group[0].connection)
    exchanges = [exchange for cut in group for exchange in cut.exchanges]
    inferred = all(exchange.inferred for exchange in exchanges)
    count = len(exchanges)
    connections = [cut.connection.connection_no for cut in group]
    evidence = [number for cut in group for number in _packets(cut)]
    unanswered = sum(exchange.response_seen_ns is None for exchange in exchanges)
    who = "the client" if sender == "client" else server
    if foreign:
        who = f"a host that spoke in the name of {'the client' if sender == 'client' else server}"
    what = (
        f"A request to {server} was"
        if count == 1
        else f"{upper_first(wording.count_word(count))} requests to {server} were"
    )
    when = ""
    if unanswered == count:
        when = " before any answer"
    elif not unanswered:
        when = " in the middle of the answer" if count == 1 else " in the middle of their answers"
    return Finding(
        detector="tcp/reset-in-exchange",
        severity="warning" if sender == "client" and not foreign else "critical",
        confidence=OPAQUE_CONFIDENCE if inferred else 0.95,
        summary=f"{what} cut off by a reset from {who}{when}.",
        advice=_advice(sender, foreign, server),
        action=_action(sender, foreign, server),
        connection_no=connections[0] if len(connections) == 1 else None,
        connection_nos=connections,
        exchange_nos=[exchange.exchange_no for exchange in exchanges],
        from_ns=min(exchange.request_start_ns for exchange in exchanges),
        to_ns=max(cut.connection.reset_ns or 0 for cut in group),
        count=count,
        measures={
            "requests": count,
            "unanswered": unanswered,
            "connections": len(connections),
            "reset_by": sender,
            "ttl_differs": foreign,
        },
        examples=[
            Example(_packets(cut), None, cut.exchanges[0].exchange_no)
            for cut in group[:MAX_EXAMPLES]
        ],
        packet_nos=evidence,
        packet_total=len(set(evidence)),
    )


def _packets(cut: _Cut) -> list[int]:
    """The reset, and the exchange's first and last packet before it."""
    exchange = cut.exchanges[0]
    ends = (
        cut.packet_no,
        exchange.request_first_packet_no,
        exchange.response_last_packet_no or exchange.request_last_packet_no,
    )
    return [number for number in ends if number is not None]


def _advice(sender: str, foreign: bool, server: str) -> str:
    if foreign:
        return (
            "The reset's IP time to live is not that of its sender: look at firewalls, NAT "
            "gateways and load balancers between for idle, session and content limits."
        )
    if sender == "client":
        return (
            "The client gave up: look at its own time limits, and at how long it had waited. A "
            "user who left looks the same."
        )
    return (
        f"Look at the log of {server} at this instant: a process that crashed or was stopped, or "
        "a limit on time, size or requests. Whether the request was carried out is not known."
    )


def _action(sender: str, foreign: bool, server: str) -> str:
    if foreign:
        return "Find what resets connections between client and server"
    if sender == "client":
        return "Find why the client gave up"
    return f"Find why {server} reset the connection"
