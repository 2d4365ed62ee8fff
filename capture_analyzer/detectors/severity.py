"""Judgement that detectors share: what a cause cost each exchange, and how bad that is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.findings import SEVERITIES, Severity
from capture_analyzer.model.quick_dataclass import quick_dataclass

CRITICAL_NS: Final = 500_000_000  # half a second is what people call slow
WARNING_NS: Final = 20_000_000  # below this, measuring and scheduling noise


@quick_dataclass(frozen=True)
class Booked:
    """Ledger time of some causes, one element an exchange that has any, by exchange_no.

    Attributes:
        exchange_nos: the exchanges.
        cost_ns: time booked on the causes.
        length_ns: the whole exchange, which is the sum of its ledger.
        confidence: mean over the entries, weighted by their time.
        rows: indices of the ledger's entries, all exchanges' one after the other.
        bounds: the entries of element i are ``rows[bounds[i]:bounds[i + 1]]``.
    """

    exchange_nos: NDArray[np.int32]
    cost_ns: NDArray[np.int64]
    length_ns: NDArray[np.int64]
    confidence: NDArray[np.float64]
    rows: NDArray[np.int64]
    bounds: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.exchange_nos)

    def rows_of(self, index: int) -> list[int]:
        """Ledger entries of one element."""
        rows: list[int] = self.rows[self.bounds[index] : self.bounds[index + 1]].tolist()
        return rows


def booked(tables: Tables, *causes: str) -> Booked:
    """What the ledger books on these causes, summed for each exchange."""
    ledger = tables.ledger
    codes = np.array([CAUSE_CODE[cause] for cause in causes], np.uint8)
    durations = ledger.to_ns - ledger.from_ns
    rows = np.flatnonzero(np.isin(ledger.cause, codes) & (durations > 0))
    if not len(rows):
        nothing = np.empty(0, np.int64)
        return Booked(
            nothing.astype(np.int32), nothing, nothing, nothing.astype(float), nothing, nothing
        )
    owner = ledger.exchange_no[rows]
    starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    exchange_nos = owner[starts]
    cost = np.add.reduceat(durations[rows], starts)
    trust = np.add.reduceat(ledger.confidence[rows] * durations[rows], starts) / cost
    # Lengths of all exchanges by the whole ledger, then of those wanted.
    begins = np.searchsorted(ledger.exchange_no, exchange_nos, "left")
    ends = np.searchsorted(ledger.exchange_no, exchange_nos, "right")
    length = ledger.to_ns[ends - 1] - ledger.from_ns[begins]
    return Booked(exchange_nos, cost, length, trust, rows, np.append(starts, len(rows)))


def by_default(cost_ns: int, length_ns: int, *, failed: bool = False) -> Severity:
    """The default rule for one affected exchange (in words: `contract.DEFAULT_SEVERITY`).

    Args:
        cost_ns: what the cause took of it.
        length_ns: how long it was.
        failed: it did not succeed because of the cause.
    """
    if failed or (cost_ns >= CRITICAL_NS and 2 * cost_ns >= length_ns):
        return "critical"
    if cost_ns >= WARNING_NS and 10 * cost_ns >= length_ns:
        return "warning"
    return "info"


def worst(severities: Iterable[Severity]) -> Severity:
    """The most severe of some; info of none."""
    return min(severities, key=SEVERITIES.index, default="info")
