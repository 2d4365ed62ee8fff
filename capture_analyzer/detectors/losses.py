"""Losses as their detectors judge them: by what made the sender repeat the bytes.

The facts are the table `holes` (what a receiver waited for) and the packets' labels and
mechanisms. A hole belongs to the mechanism of the repeat that filled it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.detectors.servers import Server, label, server_of
from capture_analyzer.detectors.shares import Episodes, Share, deal_out, joined
from capture_analyzer.detectors.sides import whole
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.column import NO_TIME, distinct
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, MAX_PACKET_NOS, Example, Finding
from capture_analyzer.model.holes import HOLE_KINDS
from capture_analyzer.model.packets import LABELS, MECHANISMS, SPURIOUS, Packets
from capture_analyzer.model.quick_dataclass import quick_dataclass

FAST: Final = 0
TAIL: Final = 1
TIMEOUT: Final = 2
"""Faults, by number: repaired fast, by a tail loss probe, by the retransmission timer."""

MOST_CONNECTIONS: Final = 20
"""Where a fault hit more connections of one server than this, they are one finding: nobody
reads more, and it is the path that they have in common."""

_FAULT_OF: Final = np.array(
    [
        {"fast": FAST, "tlp": TAIL, "rto": TIMEOUT, "after_rto": TIMEOUT}.get(name, -1)
        for name in MECHANISMS
    ]
)
_RETRANSMISSION: Final = LABELS.index("retransmission")
_NEEDLESS: Final = SPURIOUS.index("true")
_LOSS: Final = HOLE_KINDS.index("loss")

LEAST_CONFIDENCE: Final = 0.5  # holes are at least as certain as this, or they are not booked


@quick_dataclass
class Loss:
    """One fault on one connection, or on several of one server.

    Attributes:
        connections: which.
        repeats: packets that repeat lost bytes, ascending.
        from_client: for each of them, who sent it.
        mechanisms: for each of them, how the sender came to it.
        waits: (how long, packet that showed it, packet that ended it, when it began) of each
            hole, worst first.
        confidence: of its holes, 0 to 1.
        share: its ledger time.
        examples: its longest waits, with the exchange that each delayed most.
        from_ns: begin of its first hole, or its first repeat.
        to_ns: end of its last.
    """

    connections: list[Connection]
    repeats: list[int]
    from_client: list[bool]
    mechanisms: list[str]
    waits: list[tuple[int, int, int, int]]
    confidence: float
    share: Share
    examples: list[Example]
    from_ns: int
    to_ns: int

    @property
    def server(self) -> str:
        """The server's name in a sentence."""
        return label(self.connections[0])

    @property
    def worst_ns(self) -> int:
        """The longest wait of a receiver; 0 where none was seen."""
        return self.waits[0][0] if self.waits else 0

    @property
    def whose(self) -> str:
        """Which way the data went: "from NAME", "to NAME" or "from and to NAME"."""
        if all(self.from_client):
            return f"to {self.server}"
        return f"from and to {self.server}" if any(self.from_client) else f"from {self.server}"


def losses(tables: Tables, fault: int) -> list[Loss]:
    """One fault's losses, by connection (by server where many connections have it)."""
    packets = tables.packets
    rows = np.flatnonzero(packets.label == _RETRANSMISSION)
    rows = rows[(packets.spurious[rows] != _NEEDLESS) & (packets.payload_bytes[rows] > 0)]
    rows = rows[_repaired_by(packets, rows) == fault]
    if len(rows):
        # How a sender came to a repeat can't be told without what it was told.
        rows = rows[whole(tables, packets.connection_no[rows])]
    if not len(rows):
        return []
    # Rows and holes by unit: a connection, or a server that many connections belong to.
    unit_of = _units(tables, distinct(packets.connection_no[rows]))
    unit = unit_of[packets.connection_no[rows]]
    order = np.argsort(unit, kind="stable")
    rows, unit = rows[order], unit[order]
    units, starts = np.unique(unit, return_index=True)
    bounds = np.append(starts, len(rows)).tolist()

    holes = tables.holes
    of_hole = fault_of_holes(tables)
    booked = of_hole >= 0
    shares = deal_out(
        tables,
        "loss_recovery",
        Episodes(
            holes.connection_no[booked],
            holes.opened_ns[booked],
            holes.filled_ns[booked],
            of_hole[booked],
        ),
        fault,
    )
    mine = np.flatnonzero(of_hole == fault)
    hole_unit = unit_of[holes.connection_no[mine]]
    mine = mine[np.argsort(hole_unit, kind="stable")]
    hole_unit = np.sort(hole_unit)
    low = np.searchsorted(hole_unit, units, "left").tolist()
    high = np.searchsorted(hole_unit, units, "right").tolist()
    found = []
    for at in range(len(units)):
        repeats = np.sort(rows[bounds[at] : bounds[at + 1]])
        waits, confidence, begins, ends = _holes(tables, mine[low[at] : high[at]])
        times = packets.time_ns[repeats]
        numbers = distinct(packets.connection_no[repeats]).tolist()
        share = joined([shares[number] for number in numbers if number in shares])
        found.append(
            Loss(
                connections=[tables.connections[number] for number in numbers],
                repeats=(repeats + 1).tolist(),
                from_client=(packets.from_client[repeats] == 1).tolist(),
                mechanisms=[MECHANISMS[code] for code in packets.mechanism[repeats].tolist()],
                waits=waits,
                confidence=confidence,
                share=share,
                examples=_examples(tables, waits, share, (repeats + 1).tolist()),
                from_ns=min([int(times.min()), *begins]),
                to_ns=max([int(times.max()), *ends]),
            )
        )
    return found


def _units(tables: Tables, numbers: NDArray[np.int32]) -> NDArray[np.int64]:
    """For each of the tables' connections the lowest number of those it is judged with.

    Args:
        tables: the facts.
        numbers: connections that have the fault, ascending.
    """
    unit = np.arange(len(tables.connections))
    for group in by_server(tables, numbers.tolist()):
        unit[group] = group[0]
    return unit


def by_server(tables: Tables, numbers: Iterable[int]) -> list[list[int]]:
    """Connections with a fault as findings name them, in order of their first.

    One by one, save where more than `MOST_CONNECTIONS` are of one server.
    """
    servers: dict[Server, list[int]] = {}
    for number in numbers:
        servers.setdefault(server_of(tables.connections[number]), []).append(number)
    groups = []
    for group in servers.values():
        groups += [group] if len(group) > MOST_CONNECTIONS else [[number] for number in group]
    return sorted(groups)


def _repaired_by(packets: Packets, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """The fault that each repeat counts for: that of the last repeat of the same bytes.

    A probe or a fast repeat that was lost too did not repair anything.
    """
    if not len(rows):
        return np.empty(0, np.int64)
    owner, side, seq = packets.connection_no[rows], packets.from_client[rows], packets.seq[rows]
    order = np.lexsort((rows, seq, side, owner))
    same = np.ones(len(rows) - 1, np.bool_)
    for column in (owner, side, seq):
        same &= column[order[1:]] == column[order[:-1]]
    ends = np.flatnonzero(np.append(~same, True))
    group = np.append(0, np.cumsum(~same))
    result = np.empty(len(rows), np.int64)
    result[order] = _FAULT_OF[packets.mechanism[rows[order[ends]]]][group]
    return result


def fault_of_holes(tables: Tables) -> NDArray[np.int64]:
    """The fault of each hole; -1 = no loss, or never repaired."""
    holes = tables.holes
    filled = (holes.kind == _LOSS) & (holes.filled_ns != NO_TIME) & (holes.filled_packet_no > 0)
    faults = _FAULT_OF[tables.packets.mechanism[holes.filled_packet_no - 1]]
    return np.where(filled, faults, -1)


def _holes(
    tables: Tables, rows: NDArray[np.intp]
) -> tuple[list[tuple[int, int, int, int]], float, list[int], list[int]]:
    """Waits for holes, worst first; their mean confidence; begin and end of all."""
    holes = tables.holes
    if not len(rows):
        return [], LEAST_CONFIDENCE, [], []
    opened, filled = holes.opened_ns[rows], holes.filled_ns[rows]
    waited = filled - opened
    order = rows[np.lexsort((opened, -waited))]
    columns = (
        holes.filled_ns[order] - holes.opened_ns[order],
        holes.opened_packet_no[order],
        holes.filled_packet_no[order],
        holes.opened_ns[order],
    )
    waits = list(zip(*(column.tolist() for column in columns), strict=True))
    weights = np.maximum(waited, 1).astype(np.float64)  # the sum may pass 2^63
    confidence = float((holes.confidence[rows] * weights).sum() / weights.sum())
    return waits, confidence, [int(opened.min())], [int(filled.max())]


def finding_of(
    detector: str,
    loss: Loss,
    count: int,
    summary: str,
    advice: str,
    action: str,
    measures: dict[str, int | float | str | bool | None],
) -> Finding:
    """The finding of a loss; what differs between detectors is given."""
    evidence = [number for _, opener, filler, _ in loss.waits for number in (opener, filler)]
    evidence += loss.repeats
    share = loss.share
    return Finding(
        detector=detector,
        severity=share.severity(),
        confidence=round(loss.confidence, 2),
        summary=summary,
        advice=advice,
        action=action,
        connection_no=loss.connections[0].connection_no if len(loss.connections) == 1 else None,
        connection_nos=[connection.connection_no for connection in loss.connections],
        exchange_nos=share.exchange_nos,
        from_ns=loss.from_ns,
        to_ns=loss.to_ns,
        count=count,
        cost_ns=share.cost_ns if share.rows else None,
        measures={
            "connections": len(loss.connections),
            "segments_repeated": len(loss.repeats),
            "wait_max_ns": loss.worst_ns,
            **measures,
        },
        examples=loss.examples,
        packet_nos=evidence[:MAX_PACKET_NOS],
        packet_total=len({number for number in evidence if number > 0}),
        ledger_rows=share.rows,
    )


def _examples(
    tables: Tables, waits: list[tuple[int, int, int, int]], share: Share, repeats: list[int]
) -> list[Example]:
    if not waits:
        return [Example([number]) for number in repeats[:MAX_EXAMPLES]]
    return [
        Example(
            [number for number in (opener, filler) if number > 0],
            waited,
            _exchange_of(tables, share, filler, opened, opened + waited),
        )
        for waited, opener, filler, opened in waits[:MAX_EXAMPLES]
    ]


def _exchange_of(
    tables: Tables, share: Share, packet_no: int, from_ns: int, to_ns: int
) -> int | None:
    """The exchange of a packet's connection that lost most of a span of time; None = none did."""
    ledger, packets = tables.ledger, tables.packets
    if not share.rows or packet_no <= 0:
        return None
    rows = np.array(share.rows)
    shared = np.minimum(ledger.to_ns[rows], to_ns) - np.maximum(ledger.from_ns[rows], from_ns)
    connection = packets.connection_no[packet_no - 1]
    for at in np.argsort(-shared, kind="stable").tolist():
        number = int(ledger.exchange_no[rows[at]])
        if shared[at] <= 0:
            break
        if tables.exchanges[number].connection_no == connection:
            return number
    return None
