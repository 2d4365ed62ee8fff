"""Which ledger time is avoidable: the entries that findings claim.

A finding of severity critical or warning whose detector owns causes of the ledger claims the
entries with these causes in the exchanges it names. Everything that is drawn hatched, the
headline's number and the costs in the list of findings are this one claim.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.causes import CAUSE_CODE, CAUSE_NAMES
from capture_analyzer.model.findings import Finding

NOBODY: Final = -1


def counts(finding: Finding) -> bool:
    """Whether its cost is avoidable time that no other finding holds already."""
    return finding.severity != "info" and finding.counted_in is None and bool(finding.cost_ns)


def claimed_by(analysis: Analysis) -> NDArray[np.int32]:
    """The finding_no that claims each ledger entry; NOBODY where the time is ordinary.

    Where two findings could claim an entry the one with the lower number has it, so time is
    never counted twice.
    """
    ledger = analysis.tables.ledger
    claims = np.full(len(ledger), NOBODY, np.int32)
    owned = {outcome.id: outcome.causes for outcome in analysis.detectors}
    for finding in analysis.findings:
        causes = owned.get(finding.detector, ())
        if not causes or not counts(finding):
            continue
        owns = np.zeros(len(CAUSE_NAMES), np.bool_)
        owns[[CAUSE_CODE[name] for name in causes]] = True
        rows = _rows_of(ledger.exchange_no, np.array(sorted(finding.exchange_nos), np.int32))
        mine = owns[ledger.cause[rows]] & (claims[rows] == NOBODY)
        if finding.from_ns is not None:
            mine &= ledger.to_ns[rows] > finding.from_ns
        if finding.to_ns is not None:
            mine &= ledger.from_ns[rows] < finding.to_ns
        claims[rows[mine]] = finding.finding_no
    return claims


def _rows_of(exchange_no: NDArray[np.int32], wanted: NDArray[np.int32]) -> NDArray[np.int64]:
    """Indices of all entries of the wanted exchanges; both arrays are sorted."""
    first = np.searchsorted(exchange_no, wanted, "left")
    lengths = np.searchsorted(exchange_no, wanted, "right") - first
    total = int(lengths.sum())
    begins = np.cumsum(lengths) - lengths  # of each exchange's run in the result
    rows: NDArray[np.int64] = np.arange(total, dtype=np.int64) + np.repeat(first - begins, lengths)
    return rows
