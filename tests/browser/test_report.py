"""The report in a browser: what it shows, what it does, and what it never does."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from capture_analyzer import wording
from capture_analyzer.model.findings import DetectorOutcome
from capture_analyzer.report import html
from capture_analyzer.report.verdict import verdict

pytestmark = pytest.mark.browser

Open = Callable[..., Any]


def settle(page: Any) -> None:
    """Wait until what was asked for is drawn."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def rows(page: Any) -> list[int]:
    """Numbers of the exchanges in the rows, from the top."""
    settle(page)
    return page.evaluate(
        """[...document.querySelectorAll('.row:not(.group)')]
           .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)
           .map((row) => Number(row.id.slice(4)))"""
    )


def overflow(page: Any) -> int:
    """By how much the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)
    settle(page)


def choose(page: Any, label: str, option: str) -> None:
    page.locator("label.select", has_text=label).locator("select").select_option(option)


def lane(page: Any, number: int) -> dict[str, float]:
    """Where the lane of an exchange lies, in view."""
    page.locator("#waterfall").evaluate("(section) => section.scrollIntoView()")
    settle(page)
    box: dict[str, float] = page.locator(f"#row-{number} .lane").bounding_box()
    return box


# What it says


def test_the_answer_comes_first_and_adds_up(open_report: Open, sample: ModuleType) -> None:
    analysis = sample.incident()
    told = verdict(analysis)
    page = open_report(analysis)
    assert page.title() == "checkout-agent-0255.pcap: capture-analyzer report"
    assert page.locator("h1").inner_text() == told.headline
    facts = page.locator(".facts").inner_text()
    for fact in (told.capture_name, *told.facts):
        assert fact in facts
    assert page.locator(".sentences li").all_inner_texts() == told.sentences
    lost = wording.duration(told.avoidable_ns)
    assert (
        page.locator(".spent tr", has=page.locator("th", has_text="Lost"))
        .inner_text()
        .split("\t")[1]
        == lost
    )
    costs = [finding.cost_ns for finding in analysis.findings]
    assert page.locator(".finding .cost").all_inner_texts() == [wording.duration(c) for c in costs]
    assert sum(costs) == told.avoidable_ns
    assert "Unexplained" in page.locator(".spent").inner_text()
    assert page.locator(".actions li a").count() == 2


def test_a_finding_shows_its_proof(open_report: Open, sample: ModuleType) -> None:
    analysis = sample.incident()
    page = open_report(analysis)
    page.locator("#finding-1 summary").click()
    body = page.locator("#finding-1 .body")
    text = body.inner_text()
    for part in ("What happened", "Why it matters", "What to do", "When this is wrong"):
        assert part in text
    finding = analysis.findings[0]
    assert body.locator(".numbers span").all_inner_texts() == [str(n) for n in finding.packet_nos]
    assert body.locator(".filter code").inner_text() == finding.display_filter
    assert "tcp/syn-retransmission · confidence 1" in text
    body.locator(".filter button").click()
    body.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == finding.display_filter


def test_a_finding_leads_to_its_exchanges(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.incident())
    page.locator("#finding-2 summary").click()
    page.get_by_role("button", name="Show the 2 exchanges").click()
    assert rows(page) == [10, 11]
    assert page.locator(".chip").inner_text().startswith("Finding 2")
    page.locator(".chip").click()
    assert len(rows(page)) == 18
    page.get_by_role("button", name="Open exchange 10").click()
    assert page.locator("#exchange-title").inner_text().startswith("Exchange 10")


def test_an_exchange_adds_up_in_sight(open_report: Open, sample: ModuleType) -> None:
    analysis = sample.incident()
    page = open_report(analysis, "#exchange-9")
    exchange = analysis.tables.exchanges[9]
    total = wording.exact_ms(exchange.end_ns - exchange.start_ns)
    number = total.removesuffix(f"{wording.NBSP}ms")
    summed = page.locator(".sum").inner_text()
    terms, _, result = summed.rpartition(" = ")
    assert result == f"{number} ms"
    values = [float(text.replace(",", "")) for text in re.findall(r"[\d,]+\.\d+", terms)]
    assert round(sum(values), 3) == float(number.replace(",", ""))
    ledger = page.locator(".parts table").first
    assert ledger.locator("tfoot td").nth(1).inner_text() == number
    parts = ledger.locator("tbody td.mono").all_inner_texts()
    assert round(sum(float(part.replace(",", "")) for part in parts), 3) == float(
        number.replace(",", "")
    )
    page.get_by_text("6 entries in order of time").click()
    page.locator(".parts details td").get_by_text("SYN sent again").wait_for()
    assert page.locator(".parts").get_by_text("tcp.stream == 1").count() == 1


def test_packets_of_an_exchange_are_complete(open_report: Open, sample: ModuleType) -> None:
    analysis = sample.incident()
    page = open_report(analysis, "#exchange-9")
    exchange = analysis.tables.exchanges[9]
    packets = analysis.tables.packets
    mine = [
        index + 1
        for index in range(len(packets))
        if packets.connection_no[index] == exchange.connection_no
        and exchange.start_ns <= packets.time_ns[index] <= exchange.end_ns
    ]
    table = page.locator(".parts table").nth(1)
    assert table.locator("tbody tr td:first-child").all_inner_texts() == [str(n) for n in mine]


def test_redacted_fields_are_shown_as_they_are(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.incident(), "#exchange-1")
    page.get_by_text("Request fields, 3").click()
    assert "authorization: …51" in page.locator(".fields").first.inner_text()


# States


def test_without_keys_the_known_leads(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.incident(keys=False))
    assert page.locator(".sentences li").last.inner_text().startswith("Keys would add methods")
    assert "not decrypted: 6 of 6 TLS connections" in page.locator(".facts").inner_text()
    row = page.locator("#row-12")
    assert row.locator(".place").inner_text() == "api.llm.example encrypted"
    assert row.locator(".method").inner_text() == "–"
    assert row.locator(".status").inner_text() == "–"
    assert row.locator(".protocol").inner_text() == "TLS"
    row.click()
    assert "Inferred from packets" in page.locator(".detail .lead").inner_text()


def test_nothing_wrong(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.clean())
    assert page.locator("h1").inner_text() == "Nothing in this capture explains a slow request."
    assert "The network was sound" in page.locator(".sentences").inner_text()
    assert page.locator(".actions").count() == 0
    assert page.locator(".fill.lost").count() == 0


@pytest.mark.parametrize("packets", [0, 7])
def test_empty(open_report: Open, sample: ModuleType, packets: int) -> None:
    page = open_report(sample.empty(packets=packets))
    headline = "The capture holds no packets." if not packets else "The capture holds no request."
    assert page.locator("h1").inner_text() == headline
    assert page.locator(".command code").inner_text().startswith("tcpdump -i any")
    assert page.locator("#waterfall").count() == 0
    press(page, "j", "Enter", "Escape", "g", "?")  # nothing to move in, nothing fails


def test_a_cut_file_is_noted_and_its_exchange_kept(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.incident(cut=True))
    assert "ends in the middle of a packet" in page.locator(".notes").inner_text()
    page.keyboard.press("j")
    page.locator(".grid").focus()
    press(page, "End", "Enter")
    assert page.locator("#row-17 .status").inner_text() == "200 cut"
    assert page.locator(".detail .lead").inner_text().startswith("The capture ends after")


def test_a_failed_detector_is_named(open_report: Open, sample: ModuleType) -> None:
    analysis = sample.incident()
    analysis.detectors.append(DetectorOutcome("x/broken", "failed", "KeyError in x.py, line 3"))
    page = open_report(analysis)
    text = page.locator("#about").inner_text()
    assert "Failed, so what they look for is not known" in text
    assert "x/broken: KeyError in x.py, line 3" in text


# Waterfall


def test_click_opens_and_escape_closes(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.incident())
    before = page.locator(".rows").bounding_box()["height"]
    page.locator("#row-3").click()
    assert "GET config.svc.example/prompts/2" in page.locator("#exchange-title").inner_text()
    assert page.locator("#row-3").get_attribute("aria-selected") == "true"
    assert page.url.endswith("#exchange-3")
    assert page.locator(".rows").bounding_box()["height"] < before
    page.keyboard.press("Escape")
    assert page.locator("#exchange").is_hidden()
    assert "#" not in page.url


def test_keys(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.incident())
    grid = page.locator(".grid")
    grid.focus()
    chosen = "document.querySelector('.row.chosen')?.id"
    press(page, "ArrowDown")
    assert page.evaluate(chosen) == "row-0"
    assert grid.get_attribute("aria-activedescendant") == "row-0"
    press(page, "ArrowDown", "j", "j", "k", "ArrowUp")
    assert page.evaluate(chosen) == "row-1"
    press(page, "End")
    assert page.evaluate(chosen) == "row-17"
    assert page.locator("[role=status]").inner_text().startswith("Exchange 17, POST")
    press(page, "PageUp")
    assert page.evaluate(chosen) != "row-17"
    press(page, "Home", "Enter")
    assert page.locator("#exchange-title").inner_text().startswith("Exchange 0")
    press(page, "j")
    assert page.locator("#exchange-title").inner_text().startswith("Exchange 1")
    press(page, "Escape")
    assert page.locator("#exchange").is_hidden()
    whole = page.get_by_role("button", name="Whole capture")
    assert whole.is_disabled()
    press(page, "f")
    assert whole.is_enabled()
    press(page, "0", "+", "ArrowRight", "-", "-")
    assert whole.is_disabled()
    press(page, "g")
    assert page.locator(".row.group").count() == 9
    press(page, "g", "a")
    assert page.get_by_role("button", name="Align starts").get_attribute("aria-pressed") == "true"
    press(page, "/")
    page.keyboard.type("gja")  # typed, not obeyed
    assert page.locator(".search").input_value() == "gja"
    press(page, "Escape", "?")
    assert page.locator("dialog").is_visible()


def test_deep_links(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.incident(), "#exchange-16")
    assert page.locator("#exchange-title").inner_text().startswith("Exchange 16")
    row = page.locator("#row-16").bounding_box()
    view = page.locator(".rows").bounding_box()
    assert view["y"] <= row["y"] <= view["y"] + view["height"] - row["height"] + 1
    page.evaluate("location.hash = '#finding-1'")
    page.wait_for_selector("#finding-1[open]")
    page.evaluate("location.hash = '#exchange-2'")
    page.wait_for_function("document.querySelector('#exchange-title').textContent.includes('2')")
    for wrong in ("#exchange-99999", "#finding-77", "#exchange-x"):
        page.evaluate(f"location.hash = '{wrong}'")
    settle(page)


@pytest.mark.parametrize(
    ("act", "left"),
    [
        (lambda page: page.locator(".search").fill("prompts 429"), [5]),
        (lambda page: page.locator(".search").fill("POST tools"), [10, 11]),
        (lambda page: page.get_by_role("button", name="Critical 1").click(), [9]),
        (lambda page: choose(page, "Status", "4"), [5]),
        (lambda page: choose(page, "Protocol", "sse"), [12, 14, 16]),
        (lambda page: choose(page, "Slower than", "2 s"), [12, 14, 16]),
        (lambda page: page.locator(".spent button", has_text="SYN sent again").click(), [9]),
    ],
)
def test_filters(open_report: Open, sample: ModuleType, act: Any, left: list[int]) -> None:
    page = open_report(sample.incident())
    act(page)
    assert rows(page) == left
    assert page.locator("#waterfall-title").inner_text().endswith(f"{len(left)} of 18 exchanges")
    page.get_by_role("button", name="Clear filters").first.click()
    assert len(rows(page)) == 18


def test_a_filter_that_finds_nothing_says_so(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.incident())
    page.locator(".search").fill("no such host")
    assert "No exchange passes these filters." in page.locator(".nothing").inner_text()
    page.locator(".nothing button").click()
    assert len(rows(page)) == 18
    page.locator(".search").fill("tools")
    page.evaluate("location.hash = '#exchange-3'")  # hidden by the filter: the link wins
    page.wait_for_selector("#row-3.chosen")


def test_sorting(open_report: Open, sample: ModuleType) -> None:
    analysis = sample.incident()
    page = open_report(analysis)
    longest_first = sorted(
        analysis.tables.exchanges, key=lambda row: (row.start_ns - row.end_ns, row.exchange_no)
    )
    heading = page.get_by_role("columnheader", name="Total")
    heading.locator("button").click()
    assert rows(page) == [row.exchange_no for row in longest_first]
    assert heading.get_attribute("aria-sort") == "descending"
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert rows(page)[-1] == longest_first[0].exchange_no
    for name in ("Severity", "Method", "Host and path", "Status", "Protocol", "Size", "Number"):
        page.get_by_role("columnheader", name=name).locator("button").click()
        assert sorted(rows(page)) == list(range(18))


def test_zoom_by_pointer(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.incident())
    whole = page.get_by_role("button", name="Whole capture")
    box = lane(page, 4)
    left, y = box["x"], box["y"] + 13
    page.mouse.move(left + 100, y)
    page.mouse.down()
    page.mouse.move(left + 240, y, steps=4)
    page.mouse.up()
    settle(page)
    assert whole.is_enabled()
    assert page.locator("#exchange").is_hidden()  # a drag is no click
    page.mouse.dblclick(left + 300, y)
    settle(page)
    assert whole.is_disabled()
    assert page.locator("#exchange").is_hidden()  # nor is a double-click
    page.mouse.move(left + 200, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    settle(page)
    assert whole.is_enabled()
    overview = page.locator(".overview").bounding_box()
    whole.click()
    page.mouse.move(overview["x"] + 50, overview["y"] + 10)
    page.mouse.down()
    page.mouse.move(overview["x"] + 150, overview["y"] + 10, steps=4)
    page.mouse.up()
    assert whole.is_enabled()


def test_a_double_click_zooms_out_though_its_first_click_moved_the_page(
    open_report: Open, sample: ModuleType
) -> None:
    """Chromium counts clicks by itself; a slow machine must not take them apart."""
    page = open_report(sample.incident(), height=520)
    whole = page.get_by_role("button", name="Whole capture")
    page.locator("#waterfall").scroll_into_view_if_needed()
    page.locator(".grid").focus()
    page.keyboard.press("+")
    settle(page)
    assert whole.is_enabled()
    box = lane(page, 2)
    x, y = box["x"] + 200, box["y"] + 13
    page.mouse.move(x, y)
    page.mouse.down(click_count=1)
    page.mouse.up(click_count=1)
    page.locator("#exchange").wait_for()  # the page is another one now
    page.wait_for_timeout(700)
    page.mouse.down(click_count=2)
    page.mouse.up(click_count=2)
    settle(page)
    assert whole.is_disabled()
    assert page.locator("#exchange").is_hidden()


def test_two_clicks_on_different_rows_open_the_second(
    open_report: Open, sample: ModuleType
) -> None:
    page = open_report(sample.incident())
    first, second = lane(page, 2), lane(page, 4)
    page.mouse.click(first["x"] + 100, first["y"] + 13)
    page.mouse.click(second["x"] + 100, second["y"] + 13)
    page.wait_for_selector("#row-4.chosen")
    assert page.locator("#exchange").is_visible()


def test_hovering_names_the_cause(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.incident())
    box = lane(page, 9)
    page.mouse.move(box["x"] + box["width"] * 0.18, box["y"] + 13)
    tip = page.locator(".tip")
    tip.wait_for(state="visible")
    assert "GET flags.svc.example/evaluate" in tip.inner_text()
    assert "SYN sent again: 1.03\u00a0s, 91\u00a0%" in tip.inner_text()


def test_bars_are_drawn_and_lost_time_is_hatched(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.incident())
    lines = page.evaluate(
        """() => {
          const canvas = document.querySelector('canvas.lanes');
          const pen = canvas.getContext('2d');
          const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
          return [9, 12].map((row) => {
            const line = [];
            for (let x = 0; x < canvas.width; x += 1) {
              const at = ((row * 26 + 13) * canvas.width + x) * 4;
              line.push(pixels[at + 3] ? [...pixels.slice(at, at + 3)].join() : '');
            }
            return line;
          });
        }"""
    )

    def stripes(line: list[str], fill: str) -> int:
        """How often a colour begins along a line."""
        return sum(now == fill != before for before, now in itertools.pairwise(line))

    lost, plain = lines
    assert stripes(lost, "173,47,8") > 10  # #ad2f08: SYN sent again, one segment
    assert stripes(plain, "53,150,106") == 2  # #35966a: generation, before and after a loss
    assert plain.count("53,150,106") > 100


# Looks


def test_themes(open_report: Open, sample: ModuleType) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    page = open_report(sample.incident(), theme="dark")
    assert page.evaluate(background) == "rgb(16, 19, 23)"
    press(page, "t")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert page.get_by_role("button", name="Theme: light").is_visible()
    press(page, "t")
    assert page.evaluate(background) == "rgb(16, 19, 23)"
    page = open_report(sample.incident(), "?theme=dark")
    assert page.evaluate(background) == "rgb(16, 19, 23)"


@pytest.mark.parametrize("width", [360, 719, 720, 999, 1180, 1600, 2600])
def test_nothing_is_wider_than_the_window(
    open_report: Open, sample: ModuleType, width: int
) -> None:
    page = open_report(sample.incident(keys=False, cut=True), "#exchange-12", width=width)
    for summary in page.locator(".finding summary").all():
        summary.click()
    settle(page)
    assert overflow(page) <= 0
    assert page.locator("#row-12").is_visible()


def test_narrow_rows_say_path_status_and_total(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.incident(), width=360, height=780)
    row = page.locator("#row-1")
    assert row.bounding_box()["height"] == 48
    for name in ("path", "status", "total"):
        assert row.locator(f".{name}").is_visible()
    assert row.locator(".method").is_hidden()
    row.click()
    assert page.locator("#exchange-title").is_visible()


def test_paper(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.many(200), "?theme=dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    settle(page)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 690, "height": 980})
    settle(page)
    assert page.locator(".row").count() == 60
    assert page.locator("#row-0").bounding_box()["height"] == 18
    assert page.locator("#row-0 .method").is_visible()
    assert page.locator(".bar .tools").is_hidden()
    assert page.get_by_text("60 of 200 exchanges are printed.").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert overflow(page) <= 0
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    settle(page)
    assert page.locator(".bar .tools").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 19, 23)"
    assert page.pdf(format="A4", print_background=True).startswith(b"%PDF")


def test_reading_without_a_mouse_or_eyes(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.incident())
    grid = page.locator("[role=grid]")
    assert grid.get_attribute("aria-rowcount") == "19"
    spoken = page.locator("#row-9").text_content()
    assert "critical" in spoken
    assert "mostly SYN sent again, lost 1.03\u00a0s" in spoken
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    unnamed = page.evaluate(
        """[...document.querySelectorAll('button, a, input, select, summary')]
           .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length))
           .map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.className || document.activeElement.tagName")
        )
    assert {"grid", "search"} <= reached


# What it must never do


def test_hostile_text_stays_text(open_report: Open, sample: ModuleType) -> None:
    analysis = sample.hostile()
    page = open_report(analysis)
    for summary in page.locator("details > summary").all():
        summary.click()
    for number in (0, 9, 12, 17):
        page.evaluate(f"location.hash = '#exchange-{number}'")
        page.wait_for_selector(f"#row-{number}.chosen")
        for summary in page.locator(".parts details > summary").all():
            summary.click()
    page.locator(".search").fill("<script>")
    page.locator("#row-0 .place").hover()
    settle(page)
    assert page.evaluate("window.__owned") is None
    assert (
        page.evaluate("document.querySelectorAll('img, iframe, object, embed, link').length") == 0
    )
    assert page.evaluate("document.scripts.length") == 2
    assert (
        page.evaluate("document.querySelectorAll('[onload], [onerror], [style*=url]').length") == 0
    )
    assert "</script><img src=x onerror=window.__owned=1>" in page.locator("#row-0").inner_text()
    text = page.evaluate("document.body.innerText")
    for hidden in ("\u202e", "\u2028", "\x00", "\x1b"):
        assert hidden not in text
    assert "⟨U+202E⟩" in text
    assert overflow(page) <= 0


def test_ten_thousand_exchanges(open_report: Open, sample: ModuleType) -> None:
    page = open_report(sample.many(10_000))
    assert page.locator("#waterfall-title").inner_text().endswith("10,000 exchanges")
    assert page.locator(".row").count() < 100
    page.evaluate("document.querySelector('.rows').scrollTop = 26 * 5000")
    page.wait_for_selector("#row-5005")
    assert page.locator(".row").count() < 100
    page.locator("#row-5005").click()
    assert page.locator("#exchange-title").inner_text().startswith("Exchange 5005")
    page.get_by_role("columnheader", name="Total").locator("button").click()
    page.locator(".search").fill("items/9999")
    assert rows(page) == [9999]
    page.get_by_role("button", name="Clear filters").first.click()
    page.get_by_role("button", name="Group by connection").click()
    page.evaluate("document.querySelector('.rows').scrollTop = 1e9")
    settle(page)
    page.wait_for_function("document.querySelectorAll('.row').length > 10")


def test_numbers_are_written_as_python_writes_them(chromium: Any) -> None:
    durations = sorted(
        {
            value
            for power in range(12)
            for digit in (1, 12, 99, 123, 949, 994, 995, 996, 999, 2505)
            for value in (digit * 10**power, digit * 10**power + 1, digit * 10**power - 1)
            if value < 10**14
        }
    )
    page = chromium.new_page()
    written = page.evaluate(
        f"(values) => {{ {html._module('numbers.js')}"
        " const m = module_numbers; return values.map((n) =>"
        " [m.duration(n), m.size(n), m.share(n, 250505), m.exactMs(n, 1000)]); }",
        durations,
    )
    page.close()
    for number, (duration, size, share, exact) in zip(durations, written, strict=True):
        assert duration == wording.duration(number)
        assert size == wording.size(number)
        assert share == wording.share(number, 250505)
        assert f"{exact}{wording.NBSP}ms" == wording.exact_ms(number)
