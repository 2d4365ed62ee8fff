"""Which ledger time is avoidable: the entries that hold the cost of a finding.

Everything that is drawn hatched, the headline's number and the costs in the list of findings
are this one claim.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.findings import Finding

NOBODY: Final = -1


def counts(finding: Finding) -> bool:
    """Whether its cost is avoidable time that no other finding holds already."""
    return finding.severity != "info" and finding.counted_in is None and bool(finding.cost_ns)


def claimed_by(analysis: Analysis) -> NDArray[np.int32]:
    """The finding_no that claims each ledger entry; NOBODY where the time is ordinary."""
    claims = np.full(len(analysis.tables.ledger), NOBODY, np.int32)
    for finding in analysis.findings:
        if counts(finding):
            claims[finding.ledger_rows] = finding.finding_no
    return claims
