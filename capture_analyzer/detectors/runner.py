"""Runs detectors over the tables and puts their findings in order.

A detector that throws becomes a failed outcome, never a lost result. Time is counted once:
where two findings claim the same entries of the ledger, the second says in which finding
its time is counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.detectors.catalogue import Catalogue, catalogue
from capture_analyzer.detectors.contract import Detector
from capture_analyzer.detectors.display_filter import frames
from capture_analyzer.detectors.options import matching, options_of, unknown
from capture_analyzer.errors import OptionError
from capture_analyzer.model.analysis import Tables
from capture_analyzer.model.causes import CAUSE_CODE
from capture_analyzer.model.findings import (
    MAX_EXAMPLES,
    MAX_FINDINGS,
    MAX_PACKET_NOS,
    SEVERITIES,
    DetectorOutcome,
    Finding,
)
from capture_analyzer.model.scheduler import InProcess, Scheduler

_NOBODY: Final = -1


def run(
    tables: Tables,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, object]] | None = None,
    detectors: Catalogue | None = None,
    scheduler: Scheduler | None = None,
) -> tuple[list[Finding], list[DetectorOutcome]]:
    """Judge the tables.

    Args:
        tables: the facts.
        select: ids (or patterns such as ``tcp/*``) of detectors to run; empty = all.
        ignore: ids or patterns of detectors not to run.
        settings: options by detector id and name, over the defaults; text is converted.
        detectors: the catalogue; None = the built-in one with that of entry points.
        scheduler: who runs them; None = this process.

    Returns:
        Findings in order, numbered; the outcome of every detector, by id.

    Raises:
        OptionError: an unknown detector or option, or a value of the wrong type.
    """
    known = detectors or catalogue()
    settings = settings or {}
    chosen = matching(select, known.ids()) if select else set(known.ids())
    left_out = matching(ignore, known.ids())
    for detector_id in settings:
        if detector_id not in known:
            raise OptionError(unknown(detector_id, known.ids()))
    options = {
        detector_id: options_of(detector, settings.get(detector_id, {}))
        for detector_id, detector in known.detectors.items()
    }
    running: list[tuple[Detector, Any, DetectorOutcome]] = []
    outcomes: list[DetectorOutcome] = []
    for detector_id in known.ids():
        if detector_id in known.broken:
            outcomes.append(DetectorOutcome(detector_id, "failed", known.broken[detector_id]))
            continue
        detector = known.detectors[detector_id]
        outcome = DetectorOutcome(
            detector_id,
            "not_applicable",
            causes=list(detector.meta.causes),
            doc=dataclasses.asdict(detector.documentation),
        )
        outcomes.append(outcome)
        empty = _first_empty(tables, detector.meta.tables)
        if detector_id not in chosen:
            outcome.reason = "not selected"
        elif detector_id in left_out:
            outcome.reason = "ignored"
        elif empty is not None:
            outcome.reason = f"the capture has no {empty.replace('_', ' ')}"
        else:
            running.append((detector, options[detector_id], outcome))
    findings: list[Finding] = []
    results = (scheduler or InProcess()).map(lambda one: _run_one(*one[:2], tables), running)
    for (_, _, outcome), (result, reason, found) in zip(running, results, strict=True):
        outcome.outcome, outcome.reason = result, reason
        findings += found
    findings.sort(key=_order)
    for number, finding in enumerate(findings):
        finding.finding_no = number
    owned = {detector_id: entry.meta.causes for detector_id, entry in known.detectors.items()}
    _count_once(findings, tables, owned)
    return findings, outcomes


def _first_empty(tables: Tables, names: Iterable[str]) -> str | None:
    """The first of these tables that has no rows."""
    for name in names:
        rows = getattr(tables, name)
        if dataclasses.is_dataclass(rows):
            rows = getattr(rows, dataclasses.fields(rows)[0].name)
        if not len(rows):
            return name
    return None


def _run_one(
    detector: Detector, options: Any, tables: Tables
) -> tuple[Literal["ran", "failed"], str | None, list[Finding]]:
    """Outcome, reason, findings."""
    try:
        findings = list(detector.detect(tables, options))
        for finding in findings:
            _complete(finding, detector, tables)
    except Exception as error:  # a detector's mistake costs its own findings only
        return "failed", _where(error), []
    if len(findings) <= MAX_FINDINGS:
        return "ran", None, findings
    kept = f"the gravest {MAX_FINDINGS:,} of {len(findings):,} findings are kept"
    return "ran", kept, sorted(findings, key=_order)[:MAX_FINDINGS]


def _where(error: Exception) -> str:
    """Class and place of an exception; its message could hold captured text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__
    place = PurePath(trace.tb_frame.f_code.co_filename).name
    return f"{type(error).__name__} in {place}, line {trace.tb_lineno}"


def _complete(finding: Finding, detector: Detector, tables: Tables) -> None:
    """Fill what the mechanism fills, and bring lists into their order and under their caps."""
    assert finding.severity in SEVERITIES
    assert 0 <= finding.confidence <= 1
    finding.detector = detector.id
    finding.exchange_nos = sorted(set(finding.exchange_nos))
    if finding.connection_no is not None and not finding.connection_nos:
        finding.connection_nos = [finding.connection_no]
    finding.connection_nos = sorted(set(finding.connection_nos))
    if detector.meta.causes:
        # A detector that estimates, or says that it cost nothing, claims no entries.
        claims = finding.estimated_saving_ns is None and finding.cost_ns != 0
        if claims and not finding.ledger_rows:
            finding.ledger_rows = _rows_of(finding, detector.meta.causes, tables).tolist()
        if finding.cost_ns is None and finding.ledger_rows:
            rows = np.array(finding.ledger_rows)
            finding.cost_ns = int((tables.ledger.to_ns[rows] - tables.ledger.from_ns[rows]).sum())
    # A detector gives its evidence by importance; people read it by number.
    evidence = _packets(finding.packet_nos, tables)
    finding.packet_total = max(finding.packet_total, len(evidence))
    finding.packet_nos = sorted(evidence[:MAX_PACKET_NOS])
    finding.examples = finding.examples[:MAX_EXAMPLES]
    for example in finding.examples:
        example.packet_nos = sorted(_packets(example.packet_nos, tables)[:MAX_PACKET_NOS])
    if not finding.display_filter:
        finding.display_filter = frames(finding.packet_nos)


def _packets(numbers: Iterable[int | None], tables: Tables) -> list[int]:
    """Distinct numbers of packets that exist, in their order."""
    last = len(tables.packets)
    return list(dict.fromkeys(no for no in numbers if no is not None and 1 <= no <= last))


def _among(causes: Iterable[str]) -> NDArray[np.bool_]:
    """For each code of a cause whether it is one of these."""
    wanted = np.zeros(len(CAUSE_CODE), np.bool_)
    wanted[[CAUSE_CODE[cause] for cause in causes]] = True
    return wanted


def _rows_of(finding: Finding, causes: Iterable[str], tables: Tables) -> NDArray[np.int64]:
    """Ledger entries with these causes in the exchanges and the time of a finding."""
    ledger = tables.ledger
    exchanges = np.array(finding.exchange_nos, np.int32)
    # The ledger is ordered by exchange: a scan of all of it for each finding costs too much.
    first = np.searchsorted(ledger.exchange_no, exchanges, "left")
    counts = np.searchsorted(ledger.exchange_no, exchanges, "right") - first
    rows = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    mine = _among(causes)[ledger.cause[rows]]
    if finding.from_ns is not None:
        mine &= ledger.to_ns[rows] > finding.from_ns
    if finding.to_ns is not None:
        mine &= ledger.from_ns[rows] < finding.to_ns
    chosen: NDArray[np.int64] = rows[mine]
    return chosen


def _order(finding: Finding) -> tuple[int, int, int, str, int]:
    """Most severe first, then by cost, then by time; then by detector and connection."""
    cost = finding.cost_ns if finding.cost_ns is not None else finding.estimated_saving_ns
    return (
        SEVERITIES.index(finding.severity),
        -(cost or 0),
        finding.from_ns if finding.from_ns is not None else 0,
        finding.detector,
        finding.connection_no if finding.connection_no is not None else -1,
    )


def _count_once(
    findings: list[Finding], tables: Tables, owned: Mapping[str, tuple[str, ...]]
) -> None:
    """Let each ledger entry count in one finding.

    Findings whose detector owns the entries' cause take them first, then the others, each
    in the order of their numbers. A finding that comes second for at least half of its time
    is counted in the one that holds most of it; one that comes second for less gives that
    part up (`counted_elsewhere_ns` among its measures).
    """
    ledger = tables.ledger
    durations = ledger.to_ns - ledger.from_ns
    holder = np.full(len(ledger), _NOBODY, np.int32)
    claims = [finding for finding in findings if finding.ledger_rows and finding.cost_ns]

    def is_guest(finding: Finding) -> bool:
        own = _among(owned.get(finding.detector, ()))
        return not bool(own[ledger.cause[finding.ledger_rows]].all())

    for finding in sorted(claims, key=lambda finding: (is_guest(finding), finding.finding_no)):
        rows = np.array(finding.ledger_rows)
        taken = rows[holder[rows] != _NOBODY]
        held_ns = int(durations[taken].sum())
        cost_ns = finding.cost_ns or 0
        if held_ns and 2 * held_ns >= int(durations[rows].sum()):
            by_holder = np.zeros(len(findings), np.int64)
            np.add.at(by_holder, holder[taken], durations[taken])
            finding.counted_in = int(by_holder.argmax())
            continue
        if held_ns:
            finding.measures["counted_elsewhere_ns"] = held_ns
            finding.cost_ns = max(cost_ns - held_ns, 0)
            finding.ledger_rows = rows[holder[rows] == _NOBODY].tolist()
        holder[finding.ledger_rows] = finding.finding_no
