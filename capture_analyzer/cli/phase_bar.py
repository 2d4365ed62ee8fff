"""An exchange as a bar of characters: whose time it was, and what of it was lost."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.causes import CAUSE_NAMES
from capture_analyzer.report.causes import GROUPS
from capture_analyzer.report.claims import NOBODY

LOST: Final = "#"
UNKNOWN: Final = "?"
_CHARACTERS: Final = {
    "setup": ":",
    "path": LOST,  # repairing what the path lost
    "limit": ".",
    "network": ".",
    "server": "=",
    "idle": " ",
    "unknown": UNKNOWN,
}
LEGEND: Final = ": set-up  . network  = server  # lost"
_OF_CAUSE: Final = tuple(_CHARACTERS[GROUPS[name]] for name in CAUSE_NAMES)
_ORDER: Final = ("#", "=", ":", ".", "?", " ")  # which is shown where two share a place equally


def bar(
    tables: Tables, claimed: NDArray[np.int32], exchange_no: int, columns: int, longest_ns: int
) -> tuple[str, list[int]]:
    """Draw an exchange to scale.

    Args:
        tables: the facts.
        claimed: the finding that claims each ledger entry, as `claims.claimed_by` gives it.
        exchange_no: which exchange.
        columns: characters for an exchange that takes `longest_ns`.
        longest_ns: length of the longest exchange that is shown.

    Returns:
        The characters, and for each the finding_no that claims it (`NOBODY` if none does).
    """
    rows = tables.ledger.rows_of(exchange_no)
    entries = list(
        zip(
            tables.ledger.from_ns[rows].tolist(),
            tables.ledger.to_ns[rows].tolist(),
            tables.ledger.cause[rows].tolist(),
            claimed[rows].tolist(),
            strict=True,
        )
    )
    if not entries or longest_ns <= 0:
        return "", []
    begin = entries[0][0]
    length = entries[-1][1] - begin
    count = min(max(round(columns * length / longest_ns), 1), columns)
    weights: list[dict[tuple[str, int], float]] = [{} for _ in range(count)]
    for from_ns, to_ns, cause, finding_no in entries:
        character = _OF_CAUSE[cause] if finding_no == NOBODY else LOST
        # Where the entry lies, in characters from the left.
        left = (from_ns - begin) * count / max(length, 1)
        right = (to_ns - begin) * count / max(length, 1)
        for place in range(int(left), min(int(right) + 1, count)):
            share = min(right, place + 1) - max(left, place)
            if share > 0:
                key = (character, finding_no)
                weights[place][key] = weights[place].get(key, 0.0) + share
    chosen = [
        min(part, key=lambda key: (-round(part[key], 9), _ORDER.index(key[0]), key[1]))
        for part in weights
        if part
    ]
    return "".join(character for character, _ in chosen), [number for _, number in chosen]
