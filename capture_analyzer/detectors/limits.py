"""What held senders back, by connection and direction, as detectors judge it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.detectors.servers import label
from capture_analyzer.detectors.shares import Episodes, Share, deal_out
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.connections import Connection
from capture_analyzer.model.findings import MAX_EXAMPLES, Example
from capture_analyzer.model.limits import LIMIT_CODE
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class Held:
    """The stretches of some kinds in one direction of one connection, longest first.

    Attributes:
        connection: the connection.
        from_client: whose data was held.
        rows: indices into the table.
        lengths_ns: how long each was.
    """

    connection: Connection
    from_client: bool
    rows: NDArray[np.intp]
    lengths_ns: list[int]

    @property
    def sender(self) -> str:
        """The sender in a sentence."""
        return "the client" if self.from_client else label(self.connection)

    @property
    def subject(self) -> str:
        """The sender where a sentence begins."""
        return "The client" if self.from_client else self.sender

    @property
    def receiver(self) -> str:
        """The receiver in a sentence."""
        return label(self.connection) if self.from_client else "the client"

    @property
    def total_ns(self) -> int:
        """All stretches together; they don't overlap."""
        return sum(self.lengths_ns)

    def packet_nos(self, tables: Tables) -> list[int]:
        """What proves them, the longest first."""
        return [number for numbers in self._packets(tables, len(self.rows)) for number in numbers]

    def _packets(self, tables: Tables, count: int) -> list[list[int]]:
        """What proves each of the longest."""
        limits, rows = tables.limits, self.rows[:count]
        columns = (
            limits.from_packet_no[rows].tolist(),
            limits.freed_packet_no[rows].tolist(),
            limits.to_packet_no[rows].tolist(),
        )
        return [[no for no in numbers if no > 0] for numbers in zip(*columns, strict=True)]

    def examples(self, tables: Tables) -> list[Example]:
        """The longest of them."""
        numbers = self._packets(tables, MAX_EXAMPLES)
        return list(map(Example, numbers, self.lengths_ns))

    def confidence(self, tables: Tables) -> float:
        """Of all, weighted by their length."""
        weights = np.maximum(np.array(self.lengths_ns, np.float64), 1)  # the sum may pass 2^63
        values = tables.limits.confidence[self.rows]
        return round(float((values * weights).sum() / weights.sum()), 2)

    def span(self, tables: Tables) -> tuple[int, int]:
        """Begin of the first and end of the last."""
        limits = tables.limits
        return int(limits.from_ns[self.rows].min()), int(limits.to_ns[self.rows].max())


def held(tables: Tables, kinds: Sequence[str]) -> Iterable[Held]:
    """Stretches of some kinds, by connection and direction (the server's data first)."""
    limits = tables.limits
    codes = np.array([LIMIT_CODE[kind] for kind in kinds], np.uint8)
    rows = np.flatnonzero(np.isin(limits.kind, codes))
    if not len(rows):
        return
    key = limits.connection_no[rows].astype(np.int64) * 2 + limits.from_client[rows]
    lengths = limits.to_ns[rows] - limits.from_ns[rows]
    order = np.lexsort((limits.from_ns[rows], -lengths, key))
    rows, lengths = rows[order], lengths[order]
    numbers, starts = np.unique(key[order], return_index=True)
    parts = zip(np.split(rows, starts[1:]), np.split(lengths, starts[1:]), strict=True)
    for number, (mine, long) in zip(numbers.tolist(), parts, strict=True):
        yield Held(tables.connections[number // 2], bool(number % 2), mine, long.tolist())


def shares(tables: Tables, cause: str, kind: str, others: Sequence[str] = ()) -> dict[int, Share]:
    """Ledger time of a cause that one kind of limit took, by connection.

    Args:
        tables: the facts.
        cause: the cause.
        kind: the kind that is asked for.
        others: kinds of the same cause, which other detectors judge.
    """
    limits = tables.limits
    codes = [LIMIT_CODE[name] for name in (*others, kind)]
    rows = np.flatnonzero(np.isin(limits.kind, np.array(codes, np.uint8)))
    fault = limits.kind[rows].astype(np.int64)
    episodes = Episodes(limits.connection_no[rows], limits.from_ns[rows], limits.to_ns[rows], fault)
    return deal_out(tables, cause, episodes, LIMIT_CODE[kind])
