"""An analysis as the data of a report: plain lists and numbers, small and in a stated order.

Some 300 bytes an exchange: columns instead of objects, differences instead of instants, each
string once. `assets/store.js` reads it back; the two must change together.

Times are counted in units of `unit` nanoseconds: 1000 where nothing in the capture is finer
than a microsecond, else 1. So every duration stays exact.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.analysis import Analysis, Tables
from capture_analyzer.model.causes import CAUSE_NAMES, CAUSES
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.model.exchanges import Exchange, Phases
from capture_analyzer.model.findings import Finding
from capture_analyzer.model.messages import Field
from capture_analyzer.report import (
    about,
    causes,
    certificate_rows,
    claims,
    connection_rows,
    handshake_rows,
    labels,
    packet_rows,
    record_rows,
    streams,
    traces,
)
from capture_analyzer.report.choice import Choice, choose
from capture_analyzer.report.strings import StringTable, visible
from capture_analyzer.report.verdict import Verdict, exchanges_of, verdict

LOST: Final = 32  # added to the cause of a ledger entry that a finding claims
INFERRED: Final = 64  # added to it where the cause is not certain
CERTAIN: Final = 0.9  # a ledger entry of less confidence is shown as inferred

PHASES: Final = tuple(field.name for field in dataclasses.fields(Phases))

MAX_ANOMALIES: Final = 200  # kinds; a hostile capture can make as many as it likes

FLAGS: Final = ("inferred", "reset", "complete", "shared_connection", "carries_setup")
"""Facts about an exchange, as bits from the lowest; the next bit says that it was cut."""


def payload(analysis: Analysis, *, charts: bool = True) -> dict[str, Any]:
    """Everything a report shows, as JSON types; `charts`: whether it may hold what is drawn."""
    tables = analysis.tables
    claimed = claims.claimed_by(analysis)
    strings = StringTable()
    unit = _unit(tables)
    told = verdict(analysis, claimed)
    choice = choose(analysis)
    data = {
        "version": visible(analysis.version),
        "unit": unit,
        "epoch": labels.date(tables.epoch_ns) if len(tables.packets) else None,
        "causes": [
            [
                name,
                causes.TITLES[name],
                causes.title(name, lost=True),
                causes.GROUPS[name],
                meaning,
                causes.SPENT[name],
                causes.PAUSES[name],
            ]
            for name, meaning in CAUSES.items()
        ],
        "verdict": _verdict(told),
        "findings": [_finding(finding, strings) for finding in analysis.findings],
        "docs": {
            outcome.id: {key: _paragraphs(text) for key, text in outcome.doc.items()}
            for outcome in analysis.detectors
            if any(finding.detector == outcome.id for finding in analysis.findings)
        },
        "exchanges": _exchanges(tables, choice, unit, strings),
        "ledger": _ledger(tables, choice, claimed, unit),
        "events": streams.columns(analysis, _codes(tables, claimed), unit, strings),
        "connections": connection_rows.rows(tables, choice, strings),
        "chains": certificate_rows.rows(tables, strings, choice),
        "records": record_rows.rows(tables, choice, unit),
        "handshakes": handshake_rows.rows(tables, unit, strings),
        "lookups": connection_rows.lookups(tables, choice, unit, strings),
        "packets": packet_rows.columns(analysis, unit, strings),
        "traces": traces.columns(analysis, unit, strings, charts=charts),
        "files": len(tables.files),
        "about": {
            "cannot": about.cannot_show(tables),
            "obtained": about.obtained(analysis),
            "removed": about.removed(tables),
            "anomalies": _anomalies(tables, strings),
            "detectors": [
                [row.id, row.outcome, strings.number(row.reason)] for row in analysis.detectors
            ],
        },
    }
    data["strings"] = strings.strings
    return data


def _unit(tables: Tables) -> int:
    """1000 if every instant that a report could show is a whole number of microseconds."""
    times = [tables.packets.time_ns, tables.ledger.from_ns, tables.ledger.to_ns]
    times += [tables.events.seen_ns, tables.events.in_order_ns, tables.events.time_ns]
    columns = tables.exchanges.columns
    times += [columns.start_ns, columns.request_start_ns, columns.response_start_ns]
    fine = any(np.any((part % 1000 != 0) & (part != NO_TIME)) for part in times)
    return 1 if fine else 1000


def _paragraphs(text: str) -> list[str]:
    """Paragraphs of a text that an empty line divides, each on one line."""
    return [
        " ".join(visible(line) for line in paragraph.split())
        for paragraph in text.split("\n\n")
        if paragraph.strip()
    ]


def _verdict(told: Verdict) -> dict[str, Any]:
    codes = {name: code for code, name in enumerate(CAUSE_NAMES)}
    return {
        "state": told.state,
        "noKeys": told.no_keys,
        "name": visible(told.capture_name),
        "facts": [visible(text) for text in told.facts],
        "headline": visible(told.headline),
        "sentences": [visible(text) for text in told.sentences],
        "actions": [
            [
                visible(action.text),
                visible(action.note),
                action.saving_ns,
                action.finding_no,
                None if action.cause is None else codes[action.cause],
            ]
            for action in told.actions
        ],
        "time": told.time_ns,
        "avoidable": told.avoidable_ns,
        "spent": [
            [codes[share.cause], int(share.avoidable), share.ns] for share in told.time_spent
        ],
        "notes": [visible(text) for text in told.notes],
        "command": told.command,
    }


def _finding(finding: Finding, strings: StringTable) -> dict[str, Any]:
    return {
        "detector": finding.detector,
        "severity": finding.severity,
        "confidence": round(finding.confidence, 2),
        "summary": strings.number(finding.summary),
        "advice": strings.number(finding.advice),
        "where": exchanges_of(finding),
        "connection": finding.connection_no,
        "exchanges": _ranges(finding.exchange_nos),
        "count": finding.count,
        "cost": finding.cost_ns,
        "countedIn": finding.counted_in,
        "saving": finding.estimated_saving_ns,
        "measures": [
            [strings.number(name), _measure(value, strings)]
            for name, value in finding.measures.items()
        ],
        "examples": [[row.packet_nos, row.cost_ns, row.exchange_no] for row in finding.examples],
        "packets": finding.packet_nos,
        "packetTotal": finding.packet_total,
        "filter": strings.number(finding.display_filter),
    }


def _measure(value: float | str | bool | None, strings: StringTable) -> Any:
    """Text as [string number], so that it can be told from a number."""
    return [strings.number(value)] if isinstance(value, str) else value


def listed(numbers: NDArray[np.int64] | None) -> list[int] | None:
    """Ascending numbers as in `_ranges`; None for all."""
    return None if numbers is None else _ranges(numbers.tolist())


def _ranges(numbers: Iterable[int]) -> list[int]:
    """Ascending numbers as [gap, run, gap, run ...]: skip so many, take so many."""
    result: list[int] = []
    behind = 0  # the number behind the last one taken
    for number in sorted(numbers):
        if number == behind and result:
            result[-1] += 1
        else:
            result += (number - behind, 1)
        behind = number + 1
    return result


def _exchanges(tables: Tables, choice: Choice, unit: int, strings: StringTable) -> dict[str, Any]:
    """Columns of the listed exchanges; instants are offsets from their start, -1 = none."""
    rows: Sequence[Exchange] = tables.exchanges
    if choice.exchanges is not None:
        rows = [rows[number] for number in choice.exchanges.tolist()]
    shapes: dict[tuple[Any, ...], int] = {}
    fields = _FieldSets(strings)
    result: dict[str, list[Any]] = {
        name: []
        for name in (
            "shape", "host", "path", "request", "answer", "sent", "received",
            "phases", "packets", "requestFields", "answerFields",
        )
    }  # fmt: skip
    add = {name: column.append for name, column in result.items()}
    masks: dict[int, int] = {}
    phase_columns = result["phases"]
    packet_columns = result["packets"]
    last_packet = 0
    for row in rows:
        add["shape"](shapes.setdefault(_shape(row), len(shapes)))
        connection = tables.connections[row.connection_no]
        add["host"](strings.number(labels.host(row, connection)))
        add["path"](strings.number(labels.target(row) if row.path else None))
        add["request"]((row.request_start_ns - row.start_ns) // unit)
        answer = row.response_start_ns
        add["answer"](-1 if answer is None else (answer - row.start_ns) // unit)
        add["sent"](row.request_bytes)
        add["received"](row.response_bytes)
        parts = [getattr(row.phases, name) for name in PHASES]
        mask = sum(1 << bit for bit, ns in enumerate(parts) if ns is not None)
        phase_columns.append(masks.setdefault(mask, len(masks)))
        phase_columns.extend(ns // unit for ns in parts if ns is not None)
        for number in (
            row.request_first_packet_no, row.request_last_packet_no,
            row.response_first_packet_no, row.response_last_packet_no,
        ):  # fmt: skip
            if number is None:
                packet_columns.append(None)
            else:
                packet_columns.append(number - last_packet)
                last_packet = number
        add["requestFields"](fields.number(row.request_fields))
        add["answerFields"](fields.number(row.response_fields))
    return {
        "count": len(tables.exchanges),
        "listed": listed(choice.exchanges),
        "start": _differences([row.start_ns // unit for row in rows]),
        "connection": [row.connection_no for row in rows],
        **result,
        "shapes": [
            [strings.number(method), strings.number(protocol), strings.number(kind), *rest]
            for method, protocol, kind, *rest in shapes
        ],
        "masks": list(masks),
        "pairs": fields.pairs,
        "fieldSets": fields.sets,
        "streams": _sparse((row.exchange_no, row.stream_id) for row in rows),
        "firstContent": _sparse(
            (row.exchange_no, None if row.ttft_ns is None else row.ttft_ns // unit) for row in rows
        ),
        "missing": _sparse((row.exchange_no, row.missing_bytes or None) for row in rows),
        "interim": _sparse((row.exchange_no, row.interim_statuses or None) for row in rows),
        "records": _sparse(
            (row.exchange_no, [row.request_records, row.response_records])
            for row in rows
            if row.request_records is not None
        ),
        "lookups": _sparse((row.exchange_no, row.lookup_no) for row in rows),
        "attempts": _sparse((row.exchange_no, row.setup_connection_nos or None) for row in rows),
    }


def _shape(row: Exchange) -> tuple[Any, ...]:
    flags = sum(1 << bit for bit, name in enumerate(FLAGS) if getattr(row, name))
    cut = (row.end_ns is None) << len(FLAGS)
    return row.method, row.protocol, row.kind, row.status, row.grpc_status, flags | cut


class _FieldSets:
    """Header sections, each distinct one once: most requests of a client are alike."""

    def __init__(self, strings: StringTable) -> None:
        self._strings = strings
        self._pair_numbers: dict[tuple[str, str, bool, str], int] = {}
        self._set_numbers: dict[tuple[int, ...], int] = {}
        self.pairs: list[list[int]] = []  # [name, value, 1 if trailer, 1 if not certain]
        self.sets: list[tuple[int, ...]] = []

    def number(self, fields: list[Field]) -> int:
        key = tuple(self._pair(field) for field in fields)
        number = self._set_numbers.setdefault(key, len(self.sets))
        if number == len(self.sets):
            self.sets.append(key)
        return number

    def _pair(self, field: Field) -> int:
        key = (field.name, field.value, field.trailer, field.certainty)
        number = self._pair_numbers.setdefault(key, len(self.pairs))
        if number == len(self.pairs):
            self.pairs.append(
                [
                    self._strings.number(field.name),
                    self._strings.number(field.value),
                    int(field.trailer),
                    int(field.certainty != "certain"),
                ]
            )
        return number


def _sparse(values: Iterable[tuple[int, Any]]) -> list[list[Any]]:
    """[exchange number, value] of the exchanges that have one."""
    return [[number, value] for number, value in values if value is not None]


def _differences(values: list[int]) -> list[int]:
    differences: list[int] = np.diff(np.array(values, np.int64), prepend=0).tolist()
    return differences


def _ledger(
    tables: Tables, choice: Choice, claimed: NDArray[np.int32], unit: int
) -> dict[str, Any]:
    """Entries of the listed exchanges, one behind the other from each exchange's start.

    Packet numbers are differences: the first one of an entry to the second one of the entry
    before, the second to the first. `third` is sparse.
    """
    ledger = tables.ledger
    bounds = np.searchsorted(ledger.exchange_no, np.arange(len(tables.exchanges) + 1), "left")
    counts = np.diff(bounds)
    rows = np.arange(len(ledger))
    if choice.exchanges is not None:
        counts = counts[choice.exchanges]
        shift = bounds[choice.exchanges] - np.cumsum(counts) + counts
        rows = np.repeat(shift, counts) + np.arange(counts.sum())
    first = ledger.packet_a[rows].astype(np.int64)
    second = np.where(ledger.packet_b[rows] > 0, ledger.packet_b[rows], first).astype(np.int64)
    before = np.concatenate(([0], second[:-1])) if len(second) else second
    inferred = np.where(ledger.confidence[rows] < CERTAIN, INFERRED, 0)
    code = _codes(tables, claimed)[rows] + inferred
    third = np.flatnonzero(ledger.packet_c[rows])
    return {
        "count": counts.tolist(),
        "time": ((ledger.to_ns - ledger.from_ns)[rows] // unit).tolist(),
        "cause": code.tolist(),
        "first": (first - before).tolist(),
        "second": (second - first).tolist(),
        "third": list(zip(third.tolist(), ledger.packet_c[rows[third]].tolist(), strict=True)),
    }


def _codes(tables: Tables, claimed: NDArray[np.int32]) -> NDArray[np.int64]:
    """For each ledger entry its cause, and LOST where a finding claims it."""
    lost = np.where(claimed != claims.NOBODY, LOST, 0)
    return tables.ledger.cause.astype(np.int64) + lost


def _anomalies(tables: Tables, strings: StringTable) -> list[list[Any]]:
    """Equal ones as one row: [code, origin, detail, count, first packet, first connection]."""
    merged: dict[tuple[str, str, str], list[Any]] = {}
    for row in tables.anomalies:
        key = (row.code, row.origin, row.detail)
        if key in merged:
            merged[key][3] += row.count
        else:
            merged[key] = [
                strings.number(row.code),
                strings.number(row.origin),
                strings.number(row.detail),
                row.count,
                row.packet_no,
                row.connection_no,
            ]
    return list(merged.values())[:MAX_ANOMALIES]
