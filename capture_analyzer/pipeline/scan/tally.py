"""Counting what could not be decoded, by reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.anomalies import Anomaly, Origin
from capture_analyzer.model.quick_dataclass import quick_dataclass

MAX_REASONS: Final = 64
"""Reasons that are named one by one: more than a real network has."""


@quick_dataclass
class _Reason:
    origin: Origin
    packet_no: int  # the first
    count: int


class Tally:
    """Counts undecoded packets by reason."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, str], _Reason] = {}

    def add(self, code: str, origin: Origin, detail: str, packets: NDArray[np.intp]) -> None:
        """Count packets for one reason."""
        if len(packets):
            self._add((code, detail), origin, int(packets[0]) + 1, len(packets))

    def add_kinds(
        self,
        code: str,
        kinds: NDArray[Any],
        packets: NDArray[np.intp],
        describe: Callable[[int], str],
    ) -> None:
        """Count packets by kind (an EtherType ...), each described in words."""
        numbers, first, counts = np.unique(kinds, return_index=True, return_counts=True)
        for index in np.argsort(first, kind="stable").tolist():
            detail = describe(int(numbers[index]))
            if (code, detail) not in self._reasons and len(self._reasons) >= MAX_REASONS:
                detail = "other kinds"
            packet_no = int(packets[first[index]]) + 1
            self._add((code, detail), "analyzer", packet_no, int(counts[index]))

    def _add(self, key: tuple[str, str], origin: Origin, packet_no: int, count: int) -> None:
        reason = self._reasons.setdefault(key, _Reason(origin, packet_no, 0))
        reason.count += count
        reason.packet_no = min(reason.packet_no, packet_no)

    def anomalies(self) -> list[Anomaly]:
        """One a reason: by code, then most packets first, then by first packet."""
        rows = sorted(
            self._reasons.items(),
            key=lambda item: (item[0][0], -item[1].count, item[1].packet_no),
        )
        return [
            Anomaly(code, reason.origin, detail, None, reason.packet_no, reason.count)
            for (code, detail), reason in rows
        ]
