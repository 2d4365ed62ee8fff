"""The summary: never too long or too wide, and nothing a capture holds acts on a terminal."""

from __future__ import annotations

import itertools
import re
from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.cli import terminal
from capture_analyzer.cli.safe_text import width
from capture_analyzer.model.analysis import Analysis
from capture_analyzer.model.findings import Finding

MS = 1_000_000
WIDTHS = (30, 40, 59, 60, 72, 80, 99, 100, 120, 300)


def incident(
    made: ModuleType, count: int = 9, name: str = "api.example", **values: Any
) -> Analysis:
    """Exchanges of growing length, a finding of 100 ms on each."""
    findings = [
        Finding(
            "http/slow-server",
            ("critical", "warning", "info")[min(number // 2, 2)],
            1.0,
            f"Request {number} to {name} waited 0.10 s for the server, most of its time.",
            action=f"Ask the owner of {name} why answer {number} took 0.10 s",
            finding_no=number,
            exchange_nos=[number],
            cost_ns=100 * MS,
            ledger_rows=[2 * number + 1],
        )
        for number in range(count)
    ]
    entries = [
        entry
        for number in range(count)
        for entry in (
            (number, 0, 50 * (number + 1), "network_rtt"),
            (number, 50 * (number + 1), 50 * (number + 1) + 100, "server_think"),
        )
    ]
    defaults: dict[str, Any] = {
        "connections": [made.connection(server_name=name, vantage_side="client")],
        "exchanges": [
            made.exchange(number, 0, 50 * (number + 1) + 100, authority=name, path=f"/{number}")
            for number in range(count)
        ],
        "ledger": made.ledger(*entries),
        "findings": findings,
    }
    return made.analysis(**{**defaults, **values})


def lines_of(analysis: Analysis, columns: int = 120, report: str | None = None) -> list[str]:
    made = terminal.summary(analysis, columns=columns, report=report)
    return [terminal.plain(line).replace("\u00a0", " ") for line in made]


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("count", [0, 1, 4, 40])
def test_never_too_long_or_too_wide(columns: int, count: int, hand_made: ModuleType) -> None:
    lines = lines_of(incident(hand_made, count), columns, "incident.html")
    assert len(lines) <= terminal.MAX_LINES
    assert max(map(width, lines)) <= min(max(columns, 40), 120)
    assert lines[-1] == "Report: incident.html"


def test_what_it_shows(hand_made: ModuleType) -> None:
    lines = lines_of(incident(hand_made))
    text = "\n".join(lines)
    assert lines[0].startswith("trouble.pcap   5.00 s from 1 Dec 2026 02:55:52 UTC   100 packets")
    assert "avoidable" in lines[3]
    first = next(line for line in lines if "CRITICAL" in line)
    assert re.fullmatch(r" CRITICAL  Request 0 to api\.example .* +100 ms  0", first)
    assert " warning   Request 2" in text
    assert text.index("What to do") < text.index("Findings") < text.index("Slowest exchanges")
    slowest = lines[lines.index(next(line for line in lines if line.startswith("Slowest"))) + 1]
    assert re.fullmatch(r"   8  GET  api\.example/8 +200 +550 ms  \.+=+", slowest)


def test_bars_show_lost_time_of_serious_findings_only(hand_made: ModuleType) -> None:
    bars = {
        line.split()[0]: line.split()[-1]
        for line in lines_of(incident(hand_made, 5))
        if re.match(r"   \d  GET", line)
    }
    assert "#" in bars["3"]  # a warning
    assert "#" not in bars["4"]  # info


def test_findings_that_are_left_out_are_counted(hand_made: ModuleType) -> None:
    lines = lines_of(incident(hand_made, 40), report="r.html")
    shown = sum(re.match(r" (CRITICAL|warning|info) ", line) is not None for line in lines)
    assert f" … and {40 - shown} more in the report" in lines
    lines = lines_of(incident(hand_made, 40))
    assert any("more; -o FILE.html shows all" in line for line in lines)


def test_time_counted_elsewhere_is_not_given_as_cost(hand_made: ModuleType) -> None:
    analysis = incident(hand_made, 2)
    analysis.findings[1].counted_in = 0
    assert any(re.search(r"Request 1 .* in 1  1$", line) for line in lines_of(analysis))


def test_clean_capture_says_so_and_where_else_to_look(hand_made: ModuleType) -> None:
    lines = lines_of(incident(hand_made, 3, findings=[]))
    text = " ".join(lines)
    assert "Nothing in this capture explains a slow request." in text
    assert "If users saw slowness then" in text
    assert "Findings" not in text


def test_empty_capture(hand_made: ModuleType) -> None:
    text = " ".join(lines_of(hand_made.analysis()))
    assert "holds no request" in text
    assert "tcpdump" in text


EVIL = "\x1b]0;title\x07\x1b[2Jevil\u202e.example\r\n\x9b31m\u2066"


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_captured_text_cannot_act_on_the_terminal(columns: int, hand_made: ModuleType) -> None:
    analysis = incident(hand_made, 4, name=EVIL)
    for row in analysis.tables.exchanges:
        row.method, row.path = EVIL, EVIL
    analysis.tables.files[0].name = EVIL
    made = terminal.summary(analysis, columns=columns, report=EVIL)
    for text, _ in itertools.chain(*made):
        assert all(character.isprintable() or character == "\u00a0" for character in text)
    lines = [terminal.plain(line) for line in made]
    report = [line for line in lines if line.startswith("Report: ")]  # is not broken
    assert len(report) == 1
    assert max(width(line) for line in lines if line not in report) <= columns


def test_colours(hand_made: ModuleType) -> None:
    made = terminal.summary(incident(hand_made, 4), columns=120, report=None)
    painted = "\n".join(map(terminal.painted, made))
    assert "\x1b[31m\x1b[1mCRITICAL\x1b[0m" in painted
    assert "\x1b[33mwarning\x1b[0m" in painted
    assert re.search(r"\x1b\[33m#+\x1b\[0m", painted)
    assert "\x1b" not in "\n".join(map(terminal.plain, made))
