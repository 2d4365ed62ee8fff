"""Which of several faults of one cause a ledger entry's time belongs to.

One cause can have several faults: bytes that were lost are repeated fast, by a probe or by a
timer, each a detector of its own. The ledger's entries of that cause are dealt out among them,
each entry whole and to one fault: the one whose episodes cover most of it. So no two detectors
claim the same time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.detectors.severity import by_default, worst
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.column import distinct
from capture_analyzer.model.findings import Severity
from capture_analyzer.model.quick_dataclass import quick_dataclass

Times = NDArray[np.int64]

_ROOM = 1 << 62


@quick_dataclass(frozen=True)
class Episodes:
    """Stretches of time on connections, each of one fault; one element an episode.

    Attributes:
        connection_no: the connection.
        from_ns: begin.
        to_ns: end.
        fault: which fault, by the caller's numbers; of equal coverage the greater wins.
    """

    connection_no: NDArray[np.int32]
    from_ns: Times
    to_ns: Times
    fault: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.from_ns)


@quick_dataclass
class Share:
    """Ledger time of one connection that belongs to one fault.

    Attributes:
        rows: ledger entries.
        costs: (cost, length of the exchange, exchange_no) of each exchange, by number.
    """

    rows: list[int] = dataclasses.field(default_factory=list)
    costs: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)

    @property
    def cost_ns(self) -> int:
        """The whole time."""
        return sum(cost for cost, _, _ in self.costs)

    @property
    def exchange_nos(self) -> list[int]:
        """Exchanges that lost time."""
        return [exchange_no for _, _, exchange_no in self.costs]

    def severity(self) -> Severity:
        """By the default rule, the worst of its exchanges."""
        return worst(by_default(cost, length) for cost, length, _ in self.costs)


def deal_out(tables: Tables, cause: str, episodes: Episodes, fault: int) -> dict[int, Share]:
    """What one fault took of the exchanges, by connection in order of number.

    Args:
        tables: the facts.
        cause: whose ledger entries are dealt out.
        episodes: of all faults of this cause.
        fault: the one that is asked for.
    """
    ledger = tables.ledger
    rows = np.flatnonzero(ledger.cause == CAUSE_CODE[cause])
    if not len(rows) or not len(episodes):
        return {}
    exchange_no = ledger.exchange_no[rows]
    connection_no = tables.exchanges.columns.connection_no[exchange_no]
    from_ns, to_ns = ledger.from_ns[rows], ledger.to_ns[rows]
    most = np.zeros(len(rows), np.int64)
    winner = np.full(len(rows), -1)
    for number in distinct(episodes.fault).tolist():
        covered = coverage(_of_fault(episodes, number), connection_no, from_ns, to_ns)
        better = (covered >= most) & (covered > 0)
        most[better], winner[better] = covered[better], number
    mine = np.flatnonzero(winner == fault)
    if not len(mine):
        return {}
    begins = np.searchsorted(ledger.exchange_no, exchange_no[mine], "left")
    ends = np.searchsorted(ledger.exchange_no, exchange_no[mine], "right")
    length = ledger.to_ns[ends - 1] - ledger.from_ns[begins]
    columns = (rows[mine], connection_no[mine], exchange_no[mine], (to_ns - from_ns)[mine], length)
    shares: dict[int, Share] = {}
    for row, connection, exchange, cost, whole in zip(*(c.tolist() for c in columns), strict=True):
        share = shares.setdefault(connection, Share())
        share.rows.append(row)
        same = share.costs and share.costs[-1][2] == exchange
        before = share.costs.pop()[0] if same else 0
        share.costs.append((before + cost, whole, exchange))
    return dict(sorted(shares.items()))


def joined(shares: Sequence[Share]) -> Share:
    """The shares of several connections as one."""
    return Share(
        [row for share in shares for row in share.rows],
        [cost for share in shares for cost in share.costs],
    )


def _of_fault(episodes: Episodes, fault: int) -> Episodes:
    mine = episodes.fault == fault
    return Episodes(
        episodes.connection_no[mine],
        episodes.from_ns[mine],
        episodes.to_ns[mine],
        episodes.fault[mine],
    )


def coverage(
    episodes: Episodes, connection_no: NDArray[np.int32], from_ns: Times, to_ns: Times
) -> Times:
    """How much of each span on a connection lies in any of the episodes.

    Exact to the nanosecond; to a coarser unit where a capture of many connections lasts for so
    long that connection and time don't fit into one number.
    """
    if not len(episodes) or not len(from_ns):
        return np.zeros(len(from_ns), np.int64)
    zero = min(int(episodes.from_ns.min()), int(from_ns.min()))
    span = max(int(episodes.to_ns.max()), int(to_ns.max())) - zero + 1
    count = max(int(episodes.connection_no.max()), int(connection_no.max())) + 1
    shift = max((span * count).bit_length() - _ROOM.bit_length() + 1, 0)
    span = (span >> shift) + 1

    def key(connection: NDArray[np.int32], time: Times) -> Times:
        keys: Times = connection.astype(np.int64) * span + ((time - zero) >> shift)
        return keys

    begin = key(episodes.connection_no, episodes.from_ns)
    order = np.argsort(begin, kind="stable")
    begin = begin[order]
    end = np.maximum.accumulate(key(episodes.connection_no, episodes.to_ns)[order])
    # The union of the episodes: disjoint pieces, ascending.
    new = np.append(True, begin[1:] > end[:-1])
    begin, end = begin[new], end[np.append(np.flatnonzero(new)[1:] - 1, len(end) - 1)]
    before = np.append(0, np.cumsum(end - begin))

    def covered_until(keys: Times) -> Times:
        at = np.searchsorted(begin, keys, "right")
        last = np.maximum(at - 1, 0)
        over = np.where(at > 0, np.maximum(end[last] - keys, 0), 0)
        total: Times = before[at] - over
        return total

    result = covered_until(key(connection_no, to_ns)) - covered_until(key(connection_no, from_ns))
    lengths: Times = result << shift
    return lengths
