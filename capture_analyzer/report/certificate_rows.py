"""Certificate chains as rows of a report's data."""

from __future__ import annotations

import datetime
from typing import Any, Final

from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.certificates import Certificate
from capture_analyzer.report.choice import ALL, Choice
from capture_analyzer.report.strings import StringTable

DAY_NS: Final = 86_400 * 1_000_000_000
_SECOND: Final = 1_000_000_000


def rows(tables: Tables, strings: StringTable, choice: Choice = ALL) -> list[list[Any]]:
    """Chains in order: [connections, [certificates]], as `handshake.js` reads them."""
    chains: dict[int, list[Certificate]] = {}
    for certificate in tables.certificates:
        chains.setdefault(certificate.chain_no, []).append(certificate)
    return [
        [
            [number for number in chain[0].connection_nos if choice.has_connection(number)],
            [_certificate(one, tables, strings) for one in chain],
        ]
        for chain in chains.values()
    ]


def _certificate(row: Certificate, tables: Tables, strings: StringTable) -> list[Any]:
    at = _first_use(row, tables)
    return [
        strings.number(row.name),
        len(row.dns_names),
        row.length,
        strings.number(row.key_type),
        strings.number(_date(row.not_before_ns, tables.epoch_ns)),
        strings.number(_date(row.not_after_ns, tables.epoch_ns)),
        None if row.not_after_ns is None else (row.not_after_ns - at) // DAY_NS,
        row.not_before_ns is None or row.not_before_ns <= at,
        row.self_signed,
        row.must_staple,
        strings.number(row.ocsp_responder),
        row.staple_bytes,
        strings.number(row.staple_status or row.staple_response),
        strings.number(_date(row.staple_next_update_ns, tables.epoch_ns)),
        row.staple_next_update_ns is None or row.staple_next_update_ns > at,
        row.staple_for_this,
    ]


def _first_use(row: Certificate, tables: Tables) -> int:
    """When it was shown first, in ns of the capture."""
    return tables.connections[row.connection_nos[0]].start_ns if row.connection_nos else 0


def _date(at_ns: int | None, epoch_ns: int) -> str | None:
    """The day, in UTC; None where there is none, or it is beyond what dates can say."""
    if at_ns is None:
        return None
    try:
        moment = datetime.datetime.fromtimestamp((at_ns + epoch_ns) // _SECOND, datetime.UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return moment.strftime("%Y-%m-%d")
