"""Stretches of time of a connection in a report: what held its senders, holes, queues, silences.

Each list holds the longest ones, in order of time. `assets/traces.js` reads them back.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME, rows_equal
from capture_analyzer.model.holes import Holes
from capture_analyzer.model.repeats import Repeats
from capture_analyzer.model.sender_limits import SenderLimits
from capture_analyzer.model.stalls import Stalls

MAX_STRETCHES: Final = 200  # of each kind of a connection, the longest; more can't be told apart
MAX_SILENCES: Final = 20  # listed; nobody reads more
MAX_REPEATS: Final = 300  # packets of which it is said what they carried

Ints = NDArray[np.int64]

LIMIT_LOOKS: Final = {
    "zero_window": (
        "Window of 0: the receiver was full",
        "window of 0",
        "A window of 0 (the receiver was full)",
        "receiver_window",
    ),
    "window_full": (
        "Receiver’s window, used up",
        "window used up",
        "The receiver’s window",
        "receiver_window",
    ),
    "congestion_window": (
        "Congestion window",
        "congestion window",
        "The congestion window",
        "congestion_window",
    ),
    "idle_restart": (
        "Congestion window, small after idle time",
        "small after idle time",
        "The congestion window, small after idle time,",
        "congestion_window",
    ),
    "nagle_delayed_ack": (
        "Nagle’s algorithm and a delayed ACK",
        "Nagle, delayed ACK",
        "Nagle’s algorithm, with a delayed ACK,",
        "nagle_delayed_ack",
    ),
    "nagle": (
        "Nagle’s algorithm",
        "Nagle",
        "Nagle’s algorithm",
        "nagle_delayed_ack",
    ),
}
"""For each single wait its name, the same in short, as the subject of a sentence, and the cause
whose colour it has."""

SENDER_LOOKS: Final = {
    "unknown": ("Not known", "", "unknown"),
    "sending": ("Nothing: it was sending", "", "transfer"),
    "application": ("Its program: nothing to send", "It had nothing to send", "client_idle"),
    "nagle": ("Nagle’s algorithm", "Nagle’s algorithm limited it", "nagle_delayed_ack"),
    "congestion_window": (
        "Congestion window",
        "The congestion window limited it",
        "congestion_window",
    ),
    "receiver_window": (
        "Receiver’s window",
        "The receiver’s window limited it",
        "receiver_window",
    ),
    "recovery": ("Repair of losses", "It was busy repairing losses", "loss_recovery"),
}
"""For each limit of a sender its name, the begin of a sentence ("… for 9 % of its time"; "" = not
worth one), and the cause whose colour it has."""


def longest(
    length: Ints, connection_no: NDArray[np.int32], number: int, most: int = MAX_STRETCHES
) -> NDArray[np.intp]:
    """The connection's longest stretches, by their place in the table."""
    rows = rows_equal(connection_no, number)
    places = np.arange(rows.start, rows.stop)
    if len(places) > most:
        places = np.sort(places[np.argsort(-length[rows], kind="stable")[:most]])
    return places


def held(tables: Tables, number: int, unit: int) -> list[list[int]]:
    """[from client, kind, from, length, in flight, last packet, next, what let it go]."""
    limits = tables.limits
    places = longest(limits.to_ns - limits.from_ns, limits.connection_no, number)
    return [
        [
            int(limits.from_client[at]),
            int(limits.kind[at]),
            int(limits.from_ns[at]) // unit,
            int(limits.to_ns[at] - limits.from_ns[at]) // unit,
            int(limits.in_flight_bytes[at]),
            int(limits.from_packet_no[at]),
            int(limits.to_packet_no[at]),
            int(limits.freed_packet_no[at]),
        ]
        for at in places.tolist()
    ]


def holes(table: Holes, number: int, unit: int) -> list[list[int | None]]:
    """[from client, kind, offset, bytes, opened, length, packet that opened it, that filled it].

    The length is None where it was never filled.
    """
    never, length = table.filled_ns == NO_TIME, lasted(table)
    return [
        [
            int(table.from_client[at]),
            int(table.kind[at]),
            int(table.offset[at]),
            int(table.length[at]),
            int(table.opened_ns[at]) // unit,
            None if never[at] else int(length[at]) // unit,
            int(table.opened_packet_no[at]),
            int(table.filled_packet_no[at]),
        ]
        for at in longest(length, table.connection_no, number).tolist()
    ]


def lasted(holes: Holes) -> Ints:
    """For how long each hole was open; those never filled longest."""
    filled = np.where(holes.filled_ns == NO_TIME, np.iinfo(np.int64).max // 2, holes.filled_ns)
    length: Ints = filled - holes.opened_ns
    return length


def queues(tables: Tables, number: int, unit: int) -> list[list[int]]:
    """[from client, from, length, samples, smallest, typical, largest, its packet]."""
    queues = tables.queues
    places = longest(queues.to_ns - queues.from_ns, queues.connection_no, number)
    return [
        [
            int(queues.from_client[at]),
            int(queues.from_ns[at]) // unit,
            int(queues.to_ns[at] - queues.from_ns[at]) // unit,
            int(queues.samples[at]),
            int(queues.smallest_ns[at]),
            int(queues.typical_ns[at]),
            int(queues.largest_ns[at]),
            int(queues.largest_packet_no[at]),
        ]
        for at in places.tolist()
    ]


def limited(limits: SenderLimits, number: int, unit: int) -> list[list[int]]:
    """[from client, limit, from, length, bytes sent meanwhile, segment before it].

    Where a direction has too many stretches, equal parts of its time take their place, each with
    what limited it for the longest; neighbours alike are one.
    """
    result: list[list[int]] = []
    for way in (True, False):
        rows = limits.rows_of(number)
        places = np.flatnonzero(limits.from_client[rows] == way) + rows.start
        begin, end, kind = limits.from_ns[places], limits.to_ns[places], limits.limit[places]
        sent, first = limits.bytes[places], limits.from_packet_no[places]
        if len(places) > MAX_STRETCHES:
            edges = np.linspace(begin[0], end[-1], MAX_STRETCHES + 1).astype(np.int64)
            kind = prevailing(begin, end, kind, edges)
            heads = np.flatnonzero(np.diff(kind, prepend=-1))
            at = np.searchsorted(begin, edges[heads], "right") - 1
            total = np.concatenate(([0], np.cumsum(sent)))
            bounds = np.searchsorted(begin, np.append(edges[heads], edges[-1]), "left")
            sent, first, kind = np.diff(total[bounds]), first[at], kind[heads]
            begin, end = edges[heads], np.append(edges[heads[1:]], edges[-1])
        columns = (kind, begin // unit, (end - begin) // unit, sent, first)
        shown = zip(*(column.tolist() for column in columns), strict=True)
        result += [[int(way), *row] for row in shown]
    return result


def prevailing(begin: Ints, end: Ints, kind: NDArray[np.uint8], edges: Ints) -> Ints:
    """The kind with most time between each two edges, of stretches that do not overlap."""
    kinds = np.unique(kind)
    times = np.zeros((len(kinds), len(edges) - 1), np.int64)
    for row, code in enumerate(kinds.tolist()):
        mine = kind == code
        starts, ends = begin[mine], end[mine]
        before = np.concatenate(([0], np.cumsum(ends - starts)))
        at = np.searchsorted(starts, edges, "right")
        beyond = np.maximum(ends[np.maximum(at - 1, 0)] - edges, 0)
        times[row] = np.diff(before[at] - np.where(at > 0, beyond, 0))
    found: Ints = kinds[np.argmax(times, axis=0)].astype(np.int64)
    return found


def silences(stalls: Stalls, number: int, unit: int) -> list[list[int]]:
    """[from client, cause, from, length, packet before it, packet that ended it]."""
    length = stalls.to_ns - stalls.from_ns
    return [
        [
            int(stalls.from_client[at]),
            int(stalls.cause[at]),
            int(stalls.from_ns[at]) // unit,
            int(length[at]) // unit,
            int(stalls.from_packet_no[at]),
            int(stalls.to_packet_no[at]),
        ]
        for at in longest(length, stalls.connection_no, number, MAX_SILENCES).tolist()
    ]


def carried(repeats: Repeats, number: int, unit: int) -> list[list[int | None]]:
    """[packet, exchange, whether its bytes only waited behind those, delay or None if not known].

    One row a packet that was sent again and exchange, with the longest delay.
    """
    rows = np.flatnonzero((repeats.connection_no == number) & (repeats.exchange_no >= 0))
    found: dict[tuple[int, int, int], int | None] = {}
    for at in rows[: 4 * MAX_REPEATS].tolist():
        key = (int(repeats.packet_no[at]), int(repeats.exchange_no[at]), int(repeats.behind[at]))
        ns = int(repeats.delayed_ns[at])
        known = None if ns == NO_TIME else ns // unit
        before = found.setdefault(key, known)
        if known is not None and (before is None or known > before):
            found[key] = known
    return [[*key, delay] for key, delay in list(found.items())[:MAX_REPEATS]]
