"""Exchanges that waited for a connection's set-up, by connection."""

from __future__ import annotations

import numpy as np

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class Carried:
    """An exchange that carries a set-up, with its ledger entries of one cause."""

    exchange: Exchange
    length_ns: int
    rows: list[int]
    spans: list[tuple[int, int]]

    def within(self, from_ns: int, to_ns: int) -> int:
        """How much of these entries lies in a span."""
        return sum(max(0, min(to_ns, end) - max(from_ns, begin)) for begin, end in self.spans)


def carried(tables: Tables, cause: str, numbers: set[int]) -> dict[int, Carried]:
    """For these connections the exchange that waited for their set-up, if one did.

    Of those of a tunnel, where CONNECT waited for the transport, the one with this cause.
    """
    found: dict[int, Carried] = {}
    ledger = tables.ledger
    columns = tables.exchanges.columns
    wanted = columns.carries_setup & np.isin(columns.connection_no, list(numbers))
    for exchange in tables.exchanges.rows(np.flatnonzero(wanted)):
        number = exchange.connection_no
        if number in found and found[number].rows:
            continue
        part = ledger.rows_of(exchange.exchange_no)
        rows = np.flatnonzero(ledger.cause[part] == CAUSE_CODE[cause]) + part.start
        end = exchange.last_ns if exchange.end_ns is None else exchange.end_ns
        spans = zip(ledger.from_ns[rows].tolist(), ledger.to_ns[rows].tolist(), strict=True)
        found[number] = Carried(exchange, end - exchange.start_ns, rows.tolist(), list(spans))
    return found
