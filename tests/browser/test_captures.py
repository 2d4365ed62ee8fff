"""Reports made from the project's own captures, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capture_analyzer.api import analyze
from capture_analyzer.report.choice import choose
from capture_analyzer.report.verdict import verdict

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("with_keys", [True, False])
def test_slow_incident(open_report: Callable[..., Any], captures: Path, *, with_keys: bool) -> None:
    keys = [captures / "llm-incident.keys"] if with_keys else []
    analysis = analyze(captures / "llm-incident.pcap", keylogs=keys)
    page = open_report(analysis)
    assert page.locator("h1").inner_text() == verdict(analysis).headline
    assert page.locator(".finding").count() == len(analysis.findings)
    for number in range(len(analysis.tables.exchanges)):
        page.locator(f"#row-{number}").click()
        summed = page.locator(".detail > .sum").inner_text().rpartition(" = ")[2]
        ledger = page.locator(".parts table").first.locator("tfoot td").nth(1).inner_text()
        assert summed == f"{ledger} ms"


def test_hostile_capture_executes_nothing(open_report: Callable[..., Any], captures: Path) -> None:
    analysis = analyze(captures / "hostile-strings.pcap", redact="none")
    page = open_report(analysis)
    for summary in page.locator("details > summary").all():
        summary.click()
    for number in range(len(analysis.tables.exchanges)):
        page.evaluate(f"location.hash = '#exchange-{number}'")
        page.wait_for_selector(f"#row-{number}.chosen")
        for summary in page.locator(".parts details > summary").all():
            summary.click()
    assert page.evaluate("window.hostile") is None
    assert page.evaluate("document.scripts.length") == 3  # one is the data, one draws charts
    assert "<script>" in page.locator("#waterfall").inner_text()


@pytest.mark.parametrize("name", ["cut-file", "tls-alert", "tls13-no-keys", "nanosecond"])
def test_other_states(open_report: Callable[..., Any], captures: Path, name: str) -> None:
    analysis = analyze(captures / f"{name}.pcap")
    page = open_report(analysis, "#exchange-0", width=360)
    assert page.locator("h1").inner_text() == verdict(analysis).headline
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_part_of_many_exchanges(
    open_report: Callable[..., Any], captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is listed keeps its number and its figures; the rest is counted."""
    analysis = analyze(captures / "llm-incident.pcap")
    monkeypatch.setattr("capture_analyzer.report.choice.MAX_EXCHANGES", 4)
    monkeypatch.setattr("capture_analyzer.report.choice.MAX_CONNECTIONS", 1)
    choice = choose(analysis)
    assert choice.exchanges is not None
    assert choice.connections is not None
    listed = choice.exchanges.tolist()
    assert len(listed) == 4
    assert listed != [0, 1, 2, 3]
    page = open_report(analysis)
    text = page.locator("#waterfall").inner_text()
    assert f"4 of {len(analysis.tables.exchanges)} exchanges" in text
    assert "Listed are 4" in text
    assert page.locator(".row[id^=row-]").count() == 4
    for number in listed:
        exchange = analysis.tables.exchanges[number]
        page.locator(f"#row-{number}").click()
        assert (exchange.path or "") in page.locator("#exchange").inner_text()
        summed = page.locator(".detail > .sum").inner_text().rpartition(" = ")[2]
        ledger = page.locator(".parts table").first.locator("tfoot td").nth(1).inner_text()
        assert summed == f"{ledger} ms"
    missing = next(n for n in range(len(analysis.tables.exchanges)) if n not in listed)
    page.evaluate(f"location.hash = '#exchange-{missing}'")
    for summary in page.locator("details > summary").all():
        summary.click()
