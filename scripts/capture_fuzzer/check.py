"""One analysis with all its outputs, and what must hold of it whatever the input is."""

from __future__ import annotations

import dataclasses
import json
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import capture_analyzer
from capture_analyzer.errors import CaptureAnalyzerError
from capture_analyzer.exporters import json as json_exporter
from capture_analyzer.exporters import packets_csv
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.column import NO_TIME
from capture_analyzer.pipeline.dissect.guard import Guard

PACKAGE = Path(capture_analyzer.__file__).parent


class TooSlowError(Exception):
    """A case took longer than it may."""


class BrokenRuleError(Exception):
    """The result contradicts itself."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TooSlowError inside when so much processor time is used up."""

    def over(number: int, frame: object) -> None:
        raise TooSlowError(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run(
    capture: Path | Sequence[Path],
    keys: Path | None,
    output: Path,
    *,
    report: bool,
    redact: str,
    **options: Any,
) -> str:
    """Analyse a capture and write everything.

    Args:
        capture: a file, or several that belong together.
        keys: a key log.
        output: where to write.
        report: also make the report, the packets' table and the summary, and all once more:
            the same input must give the same bytes.
        redact: the level.
        options: more of analyze().

    Returns:
        "refused" or "analysed".

    Raises:
        Exception: whatever goes wrong.
    """
    Guard.raises = True
    options |= {"keylogs": [keys] if keys else [], "redact": redact}
    try:
        analysis = capture_analyzer.analyze(capture, **options)
    except CaptureAnalyzerError as error:
        if "\n" in str(error):
            raise BrokenRuleError("a refusal of more than one line") from error
        return "refused"
    rules(analysis)
    json_exporter.export(analysis, str(output))
    made = output.read_bytes()
    document(made)
    if report:
        shown = _shown(analysis, output)
        again = capture_analyzer.analyze(capture, **options)
        json_exporter.export(again, str(output))
        if output.read_bytes() != made:
            raise BrokenRuleError("other bytes of JSON the second time")
        if _shown(again, output) != shown:
            raise BrokenRuleError("another report, table or summary the second time")
    return "analysed"


def _shown(analysis: Analysis, output: Path) -> tuple[bytes, bytes, list[str]]:
    """(the packets' table, the report, the summary), after a look at them."""
    from capture_analyzer.cli import terminal
    from capture_analyzer.report import html

    packets_csv.export(analysis, str(output))
    table = output.read_bytes()
    if table.count(b"\n") != 1 + np.count_nonzero(~analysis.tables.packets.left_out):
        raise BrokenRuleError("rows of the packets' table")
    page = html.render(analysis, charts=False)
    data = page.partition(b'id="data">')[2].partition(b"</script>")[0]
    told = json.loads(data)
    if sum(told["exchanges"]["start"]) > 2**63 or page.count(b"<script") != 2:
        raise BrokenRuleError("the report is not what it should be")
    return (
        table,
        page,
        [terminal.plain(line) for line in terminal.summary(analysis, columns=80, report=None)],
    )


def document(made: bytes) -> None:
    """What must hold of the JSON."""

    def refuse(name: str) -> None:
        raise BrokenRuleError(f"{name} in the JSON")

    told = json.loads(made, parse_constant=refuse)
    for exchange in told["exchanges"]:
        begin, end = exchange["start_ns"], exchange["end_ns"]
        spans = [(row["from_ns"], row["to_ns"]) for row in exchange["ledger"]]
        if end is not None and sum(b - a for a, b in spans) != end - begin:
            raise BrokenRuleError("the ledger in the JSON does not add up")
        phases = [ns for ns in exchange["phases"].values() if ns is not None]
        if end is not None and sum(phases) != end - begin:
            raise BrokenRuleError("the phases in the JSON do not add up")


def grows_evenly(small: Path, large: Path, times: int) -> None:
    """See that a capture `times` as long as another takes no more than about so much longer.

    Raises:
        BrokenRuleError: it takes more than three times as much as that.
    """
    for _ in range(3):  # once is enough: another process may have slowed the rest
        took = []
        for path in (small, large):
            begin = time.process_time()
            capture_analyzer.analyze(path)
            took.append(time.process_time() - begin)
        if took[1] <= 3 * times * took[0] + 0.1:
            return
    raise BrokenRuleError(f"{times} times the packets took {took[1] / took[0]:.0f} times as long")


def rules(analysis: Analysis) -> None:
    """What must hold: sums, orders, references."""

    def rule(holds: object, text: str) -> None:
        if not holds:
            raise BrokenRuleError(text)

    tables = analysis.tables
    failed = [row for row in analysis.detectors if row.outcome == "failed"]
    rule(not failed, f"a detector failed: {[(row.id, row.reason) for row in failed]}")
    packets = tables.packets
    count = len(packets)
    rule(sum(file.packet_count for file in tables.files) == count, "packets of files")
    rule((packets.payload_captured <= packets.payload_bytes).all(), "payload")
    rule((packets.connection_no < len(tables.connections)).all(), "connections of packets")
    for number, exchange in enumerate(tables.exchanges):
        rule(exchange.exchange_no == number, "numbers of exchanges")
        rule(exchange.start_ns <= exchange.request_start_ns, "a start behind the request")
        end = exchange.end_ns
        rule(end is None or end >= exchange.request_start_ns, "an end before the request")
        rule((exchange.ttfb_ns or 0) >= 0, "a negative ttfb")
        rule((exchange.ttft_ns or 0) >= 0, "a negative ttft")
        phases = exchange.phases
        for field in dataclasses.fields(phases):
            rule((getattr(phases, field.name) or 0) >= 0, f"a negative {field.name}")
    ledger = tables.ledger
    lengths = ledger.to_ns - ledger.from_ns
    rule((lengths >= 0).all(), "the ledger goes back")
    same = ledger.exchange_no[1:] == ledger.exchange_no[:-1]
    rule((ledger.from_ns[1:][same] == ledger.to_ns[:-1][same]).all(), "the ledger has gaps")
    first = np.flatnonzero(np.concatenate(([True], ~same)))[: len(ledger)]
    for row in first.tolist():
        exchange = tables.exchanges[int(ledger.exchange_no[row])]
        rule(ledger.from_ns[row] == exchange.start_ns, "the ledger begins elsewhere")
    last = np.flatnonzero(np.concatenate((~same, [True])))[: len(ledger)]
    for row in last.tolist():
        exchange = tables.exchanges[int(ledger.exchange_no[row])]
        rule(
            exchange.end_ns is None or ledger.to_ns[row] == exchange.end_ns,
            "the ledger ends elsewhere",
        )
    events = tables.events
    known = events.time_ns != NO_TIME
    rule((events.seen_ns <= events.time_ns)[known].all(), "an event before it was seen")
    for finding in analysis.findings:
        rule(0 <= finding.confidence <= 1, "confidence")
        rule(all(0 < number <= count for number in finding.packet_nos), "packets of a finding")
        rule(finding.cost_ns is None or finding.cost_ns >= 0, "a negative cost")


def place(error: BaseException) -> str:
    """Where an exception came from: its type and the innermost lines of the package."""
    lines = [
        f"{Path(frame.filename).relative_to(PACKAGE)}:{frame.name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(PACKAGE)
    ]
    if isinstance(error, TooSlowError):
        lines = [line.rsplit(":", 1)[0] for line in lines[:4]]  # where it was caught varies
    what = str(error) if isinstance(error, BrokenRuleError) else ""
    return f"{type(error).__name__} {what} {' < '.join(reversed(lines[-2:]))}".replace("  ", " ")
