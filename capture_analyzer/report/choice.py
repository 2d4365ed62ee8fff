"""Which exchanges and connections a report lists.

A report must open in a browser and fit in a ticket: of a capture with a million exchanges it
lists those that findings name and the slowest, says how many there are, and counts with all.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Analysis
from capture_analyzer.report import packet_rows, traces

MAX_EXCHANGES: Final = 20_000  # some 300 bytes each: 6 MB
MAX_CONNECTIONS: Final = 20_000  # some 150 bytes each, and those of the listed exchanges
MAX_NAMED: Final = 500  # of one finding; the others must be seen, too


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """What is listed; None stands for all.

    Attributes:
        exchanges: exchange numbers, ascending.
        connections: connection numbers, ascending; those of all listed exchanges among them.
    """

    exchanges: NDArray[np.int64] | None
    connections: NDArray[np.int64] | None

    def has_connection(self, number: int) -> bool:
        """Whether a connection is listed."""
        if self.connections is None:
            return True
        at = int(np.searchsorted(self.connections, number))
        return at < len(self.connections) and int(self.connections[at]) == number


ALL: Final = Choice(None, None)


def choose(analysis: Analysis) -> Choice:
    """Choose what a report lists."""
    tables = analysis.tables
    exchanges = connections = None
    if len(tables.exchanges) > MAX_EXCHANGES:
        named = [
            no
            for finding in analysis.findings
            for no in (
                *(one.exchange_no for one in finding.examples if one.exchange_no is not None),
                *finding.exchange_nos[:MAX_NAMED],
            )
        ]
        columns = tables.exchanges.columns
        length = np.maximum(columns.last_ns, np.maximum(columns.end_ns, 0)) - columns.start_ns
        others = np.argsort(-length, kind="stable").tolist()
        exchanges = _first(
            itertools.chain(named, packet_rows.interesting(analysis), others), MAX_EXCHANGES
        )
    if len(tables.connections) > MAX_CONNECTIONS:
        used = tables.exchanges.columns.connection_no
        needed = set((used if exchanges is None else used[exchanges]).tolist())
        needed.update(traces.chosen(analysis))
        needed.update(
            finding.connection_no
            for finding in analysis.findings
            if finding.connection_no is not None
        )
        named = [no for finding in analysis.findings for no in finding.connection_nos[:MAX_NAMED]]
        connections = _first(
            itertools.chain(sorted(needed), named, range(len(tables.connections))),
            max(MAX_CONNECTIONS, len(needed)),
        )
    return Choice(exchanges, connections)


def _first(numbers: Iterable[int], most: int) -> NDArray[np.int64]:
    """The first distinct ones, ascending."""
    found: dict[int, None] = {}
    for number in numbers:
        found[number] = None
        if len(found) == most:
            break
    return np.sort(np.fromiter(found, np.int64, len(found)))
