"""Streamed answers in the report: their charts, and that these stay within the page's policy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from capture_analyzer import wording

pytestmark = pytest.mark.browser

Open = Callable[..., Any]
NBSP = wording.NBSP


def shown(page: Any, number: int) -> None:
    """Open an exchange that streams and wait for its charts."""
    page.evaluate(f"location.hash = '#exchange-{number}'")
    page.wait_for_selector(f"#row-{number}.chosen")
    page.wait_for_selector(".chart.tall .main-svg", state="attached")
    page.wait_for_selector(".chart.low .main-svg", state="attached")


def until(page: Any, condition: str) -> None:
    """Wait for it. (Playwright's own wait evaluates text in the page, which the policy forbids.)"""
    for _ in range(400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"not so after 20 s: {condition}")


def texts(page: Any, chart: str) -> list[str]:
    """What stands in a chart."""
    return page.evaluate(
        f"[...document.querySelectorAll('.chart.{chart} svg text')].map((e) => e.textContent)"
    )


def figures(page: Any) -> dict[str, str]:
    box = page.locator(".figures")
    return dict(
        zip(box.locator("dt").all_inner_texts(), box.locator("dd").all_inner_texts(), strict=True)
    )


def exact_sum(page: Any) -> tuple[float, float]:
    """The terms of the split of the time to the first content, added, and their stated sum."""
    terms, _, total = page.locator(".split .sum").inner_text().rpartition(" = ")
    values = [float(text.replace(",", "")) for text in re.findall(r"[\d,]+\.\d+", terms)]
    return round(sum(values), 3), float(total.removesuffix(" ms").replace(",", ""))


def test_a_stalled_stream(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.streams(), "#exchange-1")
    shown(page, 1)
    assert "first content after 380\u00a0ms" in page.locator(".detail .lead").inner_text()
    said = texts(page, "tall")
    assert f"675{NBSP}ms server paused" in said
    for word in ("seen", "in order", "usable", "cause"):
        assert word in said
    assert any("first content 380" in text for text in said)
    assert "shaded: server paused" in page.locator(".events .legend").inner_text()
    assert "Short marks: role, usage, end." in page.locator(".events .legend").inner_text()
    assert {"29", "1", f"25{NBSP}ms"} <= set(texts(page, "low"))
    assert figures(page) == {
        "Events": "34",
        "Content events": "31",
        "Median gap": f"25{NBSP}ms",
        "95th percentile": f"25{NBSP}ms",
        "Longest gap": f"695{NBSP}ms",
    }
    assert exact_sum(page) == (380.0, 380.0)
    facts = page.locator(".parts").inner_text()
    for fact in ("chat-large", "at most 256 tokens", "34 events, 31 with content", "12 in, 31 out"):
        assert fact in facts
    assert "HTTP/1.1, event stream" in facts


def test_a_healthy_stream_has_no_shade(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.streams(), "#exchange-0")
    shown(page, 0)
    assert not any("paused" in text for text in texts(page, "tall"))
    assert page.locator(".chart.tall .shapelayer path").count() == 0
    assert "shaded" not in page.locator(".events").inner_text()
    assert exact_sum(page) == (380.71, 380.71)


def test_a_loss_is_blamed_and_slanted(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.streams(), "#exchange-2")
    shown(page, 2)
    assert f"337{NBSP}ms loss repaired" in texts(page, "tall")
    strokes = page.evaluate(
        """[...document.querySelectorAll('.chart.tall .scatterlayer .lines path')]
           .map((e) => [getComputedStyle(e).stroke, e.getAttribute('d')])"""
    )
    slanted = [path for colour, path in strokes if colour == "rgb(191, 58, 8)"]  # loss recovery
    assert len(slanted) == 6
    assert "without its end marker" in page.locator(".parts").inner_text()


def test_hovering_an_event_gives_its_figures(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.streams(), "#exchange-2")
    shown(page, 2)
    page.locator(".chart.tall").scroll_into_view_if_needed()
    points = page.locator(".chart.tall .scatterlayer .trace:nth-last-child(2) .point")
    page.wait_for_timeout(100)
    box = points.nth(33).bounding_box()  # three marks an event: the first that waited
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector(".chart.tall .hovertext", state="attached")
    said = page.locator(".chart.tall .hovertext").first.text_content()
    assert f"content, 180{NBSP}B, packet 1" in said
    assert f"usable 986.607{NBSP}ms after the request" in said
    assert f"waited 337{NBSP}ms for what came before it" in said


def test_the_events_are_listed_too(open_report: Open, sample: ModuleType) -> None:
    analysis = sample.streams()
    page = open_report(analysis, "#exchange-2")
    page.get_by_text("30 events in order of time").click()
    page.wait_for_selector(".event-list tbody tr")
    rows = page.locator(".event-list tbody tr")
    assert rows.count() == 30
    assert rows.nth(12).locator("td").all_inner_texts() == [
        "content", "650.000", "986.607", "986.607", "356.607", f"180{NBSP}B", "1",
    ]  # fmt: skip
    assert rows.nth(0).locator("td").all_inner_texts()[4] == "–"


def test_moving_on_leaves_nothing_behind(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.streams(), "#exchange-0")
    shown(page, 0)
    for number in (1, 2):
        page.keyboard.press("j")
        shown(page, number)
        assert page.locator(".js-plotly-plot").count() == 2
    page.keyboard.press("j")
    page.wait_for_selector("#row-3.chosen")
    assert page.locator(".stream-view, .js-plotly-plot").count() == 0
    page.keyboard.press("k")
    shown(page, 2)
    page.keyboard.press("Escape")
    assert page.locator(".js-plotly-plot").count() == 0


def test_opening_and_leaving_at_once(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.streams())
    page.locator("#row-0").click()
    page.keyboard.press("j")
    page.keyboard.press("Escape")
    page.locator("#row-2").click()
    shown(page, 2)
    assert f"337{NBSP}ms loss repaired" in texts(page, "tall")


def test_theme_and_width_are_followed(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.streams(), "#exchange-1", width=1440)
    shown(page, 1)
    label = "getComputedStyle(document.querySelector('.annotation-text')).fill"
    width = "document.querySelector('.chart.tall .main-svg').getBoundingClientRect().width"
    assert page.evaluate(label) == "rgb(21, 24, 28)"
    before = page.evaluate(width)
    page.keyboard.press("t")
    page.keyboard.press("t")
    until(page, f"{label} === 'rgb(232, 235, 239)'")
    page.set_viewport_size({"width": 800, "height": 900})
    until(page, f"{width} < {before - 100}")
    until(page, "document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [360, 720, 1000, 2600])
def test_charts_fit_the_window(open_report: Open, sample: ModuleType, width: int) -> None:
    page = open_report(sample.streams(), "#exchange-1", width=width)
    shown(page, 1)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    room = page.locator(".chart.tall").bounding_box()
    drawn = page.locator(".chart.tall .main-svg").first.bounding_box()
    assert drawn["x"] >= room["x"]
    assert drawn["x"] + drawn["width"] <= room["x"] + room["width"] + 1


def test_paper(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.streams(), "?theme=dark#exchange-1")
    shown(page, 1)
    page.set_viewport_size({"width": 690, "height": 980})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    label = "getComputedStyle(document.querySelector('.annotation-text')).fill"
    until(page, f"{label} === 'rgb(21, 24, 28)'")
    assert page.locator(".chart.tall .main-svg").first.bounding_box()["width"] <= 690
    assert page.get_by_text("Drag to zoom").is_hidden()


def test_events_inferred_from_records_are_called_so(open_report: Open, sample: ModuleType) -> None:
    analysis = sample.streams()
    row = analysis.tables.exchanges[1]
    row.protocol = row.kind = "opaque"
    row.inferred = True
    row.method = row.path = row.status = row.model = row.max_tokens = None
    row.stream = sample.StreamFacts(inferred=True, confidence=0.7)
    page = open_report(analysis, "#exchange-1")
    shown(page, 1)
    assert page.locator("#row-1 .protocol").inner_text() == "TLS, stream"
    assert "encrypted record, which looks like an event" in page.locator(".events").inner_text()
    facts = page.locator(".parts").inner_text()
    assert "34 records that look like events of a stream, confidence 0.7" in facts


# The script of the charts


def test_the_script_runs_when_a_chart_is_opened(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.streams())
    assert page.evaluate("typeof Plotly") == "undefined"
    assert page.evaluate("document.scripts.length") == 3
    page.locator("#row-3").click()  # does not stream
    page.wait_for_timeout(200)
    assert page.evaluate("typeof Plotly") == "undefined"
    shown(page, 1)
    assert page.evaluate("typeof Plotly") == "object"
    assert page.evaluate("document.scripts.length") == 3
    assert page.evaluate("document.querySelectorAll('style, link').length") == 1
    assert page.evaluate("Object.hasOwn(document, 'createElement')") is False
    # Everything that Plotly styled came through: no attribute was refused.
    refused = page.evaluate(
        """[...document.querySelectorAll('.plot *')]
           .filter((e) => e.getAttribute('style') && !e.style.length).map((e) => e.outerHTML)"""
    )
    assert refused == []


def test_without_charts_the_figures_are_there(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.streams(), "#exchange-1", charts=False)
    assert page.evaluate("document.scripts.length") == 2
    assert "written without charts" in page.locator(".events").inner_text()
    assert figures(page)["Longest gap"] == f"695{NBSP}ms"
    assert exact_sum(page) == (380.0, 380.0)
    page.get_by_text("34 events in order of time").click()
    page.wait_for_selector(".event-list tbody tr")
    assert page.locator(".event-list tbody tr").count() == 34
    assert page.locator(".plot").count() == 0


def test_a_browser_that_cannot_unpack_it_says_so(open_report: Open, sample: ModuleType) -> None:
    page = open_report(
        sample.streams(), "#exchange-1", before="delete globalThis.DecompressionStream;"
    )
    page.get_by_text("This browser cannot draw the charts").first.wait_for()
    assert figures(page)["Events"] == "34"


def test_hostile_text_reaches_no_chart(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.hostile(sample.streams()))
    for number in range(3):
        shown(page, number)
        page.locator(".event-list summary").click()
        assert page.locator(".plot a, .plot image, .plot foreignObject").count() == 0
        assert "onerror" not in "".join(texts(page, "tall") + texts(page, "low"))
    assert page.evaluate("window.__owned") is None
    assert "</script><img src=x" in page.locator(".parts").inner_text()  # the model's name


# Bounded


def test_of_a_very_long_stream_a_choice_is_drawn(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.streams(long=20_000), "#exchange-4")
    shown(page, 4)
    assert f"420{NBSP}ms server paused" in texts(page, "tall")
    remark = page.locator(".events .hint").inner_text()
    assert re.match(r"1,\d\d\d of 20,001 events are drawn", remark)
    assert figures(page)["Events"] == "20,001"
    assert page.locator(".chart.tall .point").count() < 2_500


def test_events_are_light_ticks_in_the_lanes(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.streams())
    page.locator(".grid").focus()
    page.keyboard.press("Home")
    page.keyboard.press("f")
    page.wait_for_timeout(200)
    line = page.evaluate(
        """() => {
          const canvas = document.querySelector('canvas.lanes');
          const { data } = canvas.getContext('2d').getImageData(0, 13, canvas.width, 1);
          return Array.from({ length: canvas.width }, (_, x) => data[4 * x + 3]
            ? [...data.slice(4 * x, 4 * x + 3)].join() : '');
        }"""
    )
    fill = "53,150,106"  # #35966a: generation
    runs = [len(list(run)) for colour, run in itertools.groupby(line) if colour == fill]
    assert 31 <= len(runs) <= 34  # between the ticks of 33 events
    assert max(runs) > 5 * sorted(runs)[len(runs) // 2]  # before the first content
