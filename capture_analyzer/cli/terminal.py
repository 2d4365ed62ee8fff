"""The verdict in a terminal: at most `MAX_LINES` lines that a tired person can act on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import click
import numpy as np
from numpy.typing import NDArray

from capture_analyzer import wording
from capture_analyzer.cli import phase_bar
from capture_analyzer.cli.safe_text import fit, printable, right, width, wrap
from capture_analyzer.model.analysis import Analysis, Tables
from capture_analyzer.model.exchanges import Exchange
from capture_analyzer.model.findings import Finding, Severity
from capture_analyzer.model.quick_dataclass import quick_dataclass
from capture_analyzer.report import claims, labels
from capture_analyzer.report.verdict import Verdict, verdict

MAX_LINES: Final = 30
MAX_COLUMNS: Final = 120  # wider lines are hard to follow
MIN_COLUMNS: Final = 40
WIDE: Final = 100  # from here the wide layout
_AMOUNT: Final = 10  # columns of a duration at the right edge

Line: TypeAlias = list[tuple[str, str]]
"""Pieces of a line: text, and "" or a style of `_STYLES`."""

_STYLES: Final[dict[str, dict[str, object]]] = {
    "strong": {"bold": True},
    "critical": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow"},
}
_NAMES: Final[dict[Severity, str]] = {
    "critical": "CRITICAL",
    "warning": "warning",
    "info": "info",
}


@quick_dataclass
class _List:
    """A list with a heading, of which as many rows are shown as there is room for."""

    heading: Line
    rows: list[list[Line]]  # lines of each row
    least: int  # rows that are shown even if room is short
    most: int
    more: str = ""  # with {} for the number of rows that are not shown
    shown: int = 0

    def lines(self) -> list[Line]:
        """Heading, shown rows, and how many more there are; nothing for an empty list."""
        if not self.rows or not self.shown:
            return []
        lines = [self.heading, *itertools.chain(*self.rows[: self.shown])]
        left = len(self.rows) - self.shown
        if left and self.more:
            lines.append(_line(self.more.format(left)))
        return lines


def plain(line: Line) -> str:
    """A line without styles."""
    return "".join(text for text, _ in line).rstrip()


def painted(line: Line) -> str:
    """A line with its styles as terminal escapes."""
    return "".join(
        click.style(text, **_STYLES[style]) if style else text  # type: ignore[arg-type]
        for text, style in line
    )


def summary(analysis: Analysis, *, columns: int, report: str | None) -> list[Line]:
    """The lines of the summary.

    Args:
        analysis: what to tell.
        columns: width of the terminal.
        report: where the report was written; None = nowhere.
    """
    columns = min(max(columns, MIN_COLUMNS), MAX_COLUMNS)
    claimed = claims.claimed_by(analysis)
    told = verdict(analysis, claimed)
    top = [
        *_facts(told, columns),
        *itertools.chain(*(_text(note, columns, 2) for note in told.notes)),
        _line(""),
        *_headline(told, columns),
    ]
    bottom = _closing(told, columns, report)
    lists = [
        _actions(told, columns),
        _findings(analysis, columns, report),
        _slowest(analysis, claimed, columns),
    ]
    _share_room(lists, MAX_LINES - len(top) - len(bottom))
    lines = top
    for entry in lists:
        if entry.lines():
            lines += [_line(""), *entry.lines()]
    return [*lines, *bottom][:MAX_LINES]


def _share_room(lists: list[_List], room: int) -> None:
    """Give each list its least rows, then one row more in turn while lines are left."""

    def used() -> int:
        return sum(len(lines) + 1 for entry in lists if (lines := entry.lines()))

    for entry in lists:
        entry.shown = min(entry.least, len(entry.rows))
    for entry in reversed(lists):
        while used() > room and entry.shown > 1:
            entry.shown -= 1
    for _ in range(MAX_LINES):
        for entry in lists:
            if entry.shown < min(entry.most, len(entry.rows)):
                entry.shown += 1
                if used() > room:
                    entry.shown -= 1


def _line(text: str, style: str = "") -> Line:
    return [(printable(text), style)]


def _text(text: str, columns: int, most: int, style: str = "") -> list[Line]:
    return [[(line, style)] for line in wrap(printable(text), columns, most)]


def _facts(told: Verdict, columns: int) -> list[Line]:
    facts = [printable(fact) for fact in told.facts]
    name = printable(told.capture_name)
    if columns >= WIDE:
        rows = [*_packed([name, *facts[:2]], "   ", columns), *_packed(facts[2:], "   ", columns)]
    else:
        rows = [*_packed([name, *facts[:1]], "   ", columns), *_packed(facts[1:3], ", ", columns)]
        rows += _packed(facts[3:], ", ", columns)
    lines = [_line(row) for row in rows]
    if rows and rows[0].startswith(name):
        lines[0] = [(name, "strong"), (rows[0][len(name) :], "")]
    return lines


def _packed(parts: Sequence[str], between: str, columns: int) -> list[str]:
    """Parts on as few lines as hold them."""
    rows: list[str] = []
    for part in parts:
        if rows and width(rows[-1]) + len(between) + width(part) <= columns:
            rows[-1] += between + part
        else:
            rows.append(fit(part, columns).rstrip() if width(part) > columns else part)
    return rows


def _headline(told: Verdict, columns: int) -> list[Line]:
    if told.state == "incident":
        return _text(told.headline, columns, 3, "strong")
    # Without findings the proof is the answer; its last sentence is said at the end.
    sentences = told.sentences if told.state == "empty" else told.sentences[:-1]
    lines = _text(told.headline, columns, 2, "strong")
    if sentences:
        lines += _text(" ".join(sentences), columns, 5)
    if told.command:
        # Not cut, since it is there to be copied.
        lines += [
            _line(""),
            *([("  " + piece, "")] for piece in wrap(told.command, columns - 2, 9)),
        ]
    return lines


def _actions(told: Verdict, columns: int) -> _List:
    rows = []
    for number, action in enumerate(told.actions, 1):
        amount = "" if action.saving_ns is None else wording.duration(action.saving_ns)
        rows.append(_row([(f"{number:2d}  ", "")], action.text, amount, columns))
    title = "What to do"
    heading: Line = [(title, "strong"), (right("can save", columns - len(title)), "")]
    return _List(heading, rows, least=3, most=5)


def _row(before: Line, text: str, amount: str, columns: int, after: str = "") -> list[Line]:
    """A row of a list: text in at most two lines, an amount in its column, what comes after."""
    indent = sum(width(piece) for piece, _ in before)
    room = columns - indent - _AMOUNT - len(after)
    first, *rest = wrap(printable(text), room, 2)
    lines: list[Line] = [[*before, (fit(first, room), ""), (right(amount, _AMOUNT) + after, "")]]
    return [*lines, *([(" " * indent + line, "")] for line in rest)]


def _findings(analysis: Analysis, columns: int, report: str | None) -> _List:
    wide = columns >= WIDE
    column = 18 if wide else 0  # of the exchanges' numbers
    rows = []
    for finding in analysis.findings:
        name = _NAMES[finding.severity]
        before: Line = [(" ", ""), (name, finding.severity if name != "info" else "")]
        before.append((" " * (10 - len(name)), ""))
        after = fit(f"  {labels.numbers(finding.exchange_nos)}", column) if wide else ""
        text = finding.summary.rstrip().removesuffix(".")
        rows.append(_row(before, text, _cost(finding), columns, after))
    heading: Line = [("Findings", "strong")]
    cost = right("cost", columns - len("Findings") - column)
    heading.append((cost + (fit("  exchanges", column) if wide else ""), ""))
    more = " … and {} more in the report" if report else " … and {} more; -o FILE.html shows all"
    return _List(heading, rows, least=3, most=7, more=more)


def _cost(finding: Finding) -> str:
    if finding.counted_in is not None:
        return f"in {finding.counted_in + 1}"  # people count findings from 1
    if finding.cost_ns:
        return wording.duration(finding.cost_ns)
    if finding.estimated_saving_ns:
        return wording.duration(finding.estimated_saving_ns)
    return "–"


def _slowest(analysis: Analysis, claimed: NDArray[np.int32], columns: int) -> _List:
    tables = analysis.tables
    lengths = tables.exchanges.columns.until_ns - tables.exchanges.columns.start_ns
    exchanges = tables.exchanges.rows(np.argsort(-lengths, kind="stable")[:5])
    bar_columns = 44 if columns >= WIDE else 17 if columns >= 70 else 10 if columns >= 60 else 0
    room = columns - 26 - (bar_columns + 2 if bar_columns else 0)
    severities: dict[int, Severity] = {
        finding.finding_no: finding.severity for finding in analysis.findings
    }
    bars = [
        phase_bar.bar(tables, claimed, row.exchange_no, bar_columns, _length(exchanges[0]))
        for row in exchanges
    ]
    methods = [_method(row, tables) for row in exchanges]
    method_columns = max(4, *map(len, methods)) if methods else 4
    room += 4 - method_columns
    rows: list[list[Line]] = []
    for row, method, drawn in zip(exchanges, methods, bars, strict=True):
        status = "-" if row.status is None else str(row.status)
        line: Line = [
            (f"{row.exchange_no:4d}  {fit(method, method_columns)} ", ""),
            (fit(printable(labels.place(row, tables.connections[row.connection_no])), room), ""),
            (f" {status:>4}", ""),
            (right(wording.duration(_length(row)), _AMOUNT), ""),
        ]
        if bar_columns:
            line += [("  ", ""), *_coloured(*drawn, severities)]
        rows.append([line])
    title = "Slowest exchanges"
    legend = phase_bar.LEGEND
    if any(phase_bar.UNKNOWN in characters for characters, _ in bars):
        legend += f"  {phase_bar.UNKNOWN} not known"
    heading: Line = [(title, "strong")]
    if bar_columns and len(title) + len(legend) + 2 <= columns:
        begin = columns - bar_columns if columns >= WIDE else columns - len(legend)
        begin = min(begin, columns - len(legend))
        heading.append((" " * (begin - len(title)) + legend, ""))
    return _List(heading, rows, least=3, most=5)


def _coloured(
    characters: str, finding_nos: Sequence[int], severities: dict[int, Severity]
) -> Iterable[tuple[str, str]]:
    """The bar's characters in runs, the lost ones in the colour of their finding."""
    styled = [
        severities.get(number, "info") if character == phase_bar.LOST else "info"
        for character, number in zip(characters, finding_nos, strict=True)
    ]
    for style, run in itertools.groupby(zip(characters, styled, strict=True), key=lambda p: p[1]):
        yield "".join(character for character, _ in run), style if style in _STYLES else ""


def _length(row: Exchange) -> int:
    return (row.last_ns if row.end_ns is None else row.end_ns) - row.start_ns


def _method(row: Exchange, tables: Tables) -> str:
    if row.method:
        return printable(row.method)[:7]
    return "TLS" if tables.connections[row.connection_no].tls is not None else "TCP"


def _closing(told: Verdict, columns: int, report: str | None) -> list[Line]:
    lines: list[Line] = []
    if told.state == "clean" and told.sentences:
        lines += _text(told.sentences[-1], columns, 3)
    if told.no_keys:
        lines += _text("Not readable without keys: methods, paths, status codes.", columns, 2)
    if report is not None:
        lines.append(_line(f"Report: {report}"))  # whole, to be copied
    elif told.state == "incident":
        lines += _text(
            "Waterfall, packets and proof of each finding: add -o report.html", columns, 2
        )
    return [_line(""), *lines] if lines else []
