"""A connection over time: its graph, the packets in it, and the ways there and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capture_analyzer import wording
from capture_analyzer.api import analyze
from capture_analyzer.model.analysis import Analysis

pytestmark = pytest.mark.browser

Open = Callable[..., Any]
NBSP = wording.NBSP
LOSSY = "loss-fast-server"


@pytest.fixture
def analysed(captures: Path) -> Callable[..., Analysis]:
    def analysed_(name: str, **options: Any) -> Analysis:
        keys = (captures / name).with_suffix(".keys")
        keylogs = [keys] if keys.exists() else []
        return analyze(captures / f"{name}.pcap", keylogs=keylogs, **options)

    return analysed_


def drawn(page: Any) -> None:
    """Wait for the graph."""
    page.wait_for_selector(".chart.graph .main-svg", state="attached")
    until(page, "document.querySelectorAll('.chart.graph .scatterlayer .trace').length > 3")


def until(page: Any, condition: str) -> None:
    """Wait for it. (Playwright's own wait evaluates text in the page, which the policy forbids.)"""
    for _ in range(400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"not so after 20 s: {condition}")


def texts(page: Any) -> list[str]:
    """What stands in the graph."""
    return page.evaluate(
        "[...document.querySelectorAll('.chart.graph svg text')].map((e) => e.textContent)"
    )


def traces(page: Any) -> list[dict[str, Any]]:
    """What Plotly was given: kinds, symbols and numbers of points of the traces."""
    return page.evaluate(
        """document.querySelector('.chart.graph .plot').data.map((trace) => ({
          mode: trace.mode ?? trace.type, symbol: trace.marker?.symbol, count: trace.x.length,
          color: trace.marker?.color, packets: trace.customdata ?? [] }))"""
    )


def shown_range(page: Any) -> list[float]:
    return page.evaluate("document.querySelector('.chart.graph .plot').layout.xaxis.range")


def point(page: Any, packet: int) -> tuple[float, float]:
    """Where a packet's mark is in the window."""
    page.locator(".chart.graph").scroll_into_view_if_needed()
    return tuple(
        page.evaluate(
            """(packet) => {
              const plot = document.querySelector('.chart.graph .plot');
              const trace = plot.data.find((row) => row.mode === 'markers' && !row.yaxis
                && row.customdata?.includes(packet));
              const at = trace.customdata.indexOf(packet);
              const { xaxis, yaxis } = plot._fullLayout;
              const box = plot.getBoundingClientRect();
              return [box.x + xaxis._offset + xaxis.l2p(trace.x[at]),
                      box.y + yaxis._offset + yaxis.l2p(trace.y[at])];
            }""",
            packet,
        )
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_graph_of_a_lossy_connection(
    open_report: Open, analysed: Callable[..., Analysis], theme: str
) -> None:
    analysis = analysed(LOSSY)
    page = open_report(analysis, "#connection-0", theme=theme)
    drawn(page)
    lead = page.locator("#connection .lead").inner_text()
    assert f"The server sent 60{NBSP}KB in 44 segments" in lead
    assert "1 segment was sent again fast, on the receiver’s reports." in lead
    again = [trace for trace in traces(page) if trace["symbol"] == "triangle-up"]
    labels = analysis.tables.packets.mechanism
    assert [trace["packets"] for trace in again] == [(labels.nonzero()[0] + 1).tolist()]
    assert any("until a loss was repaired" in text for text in texts(page))
    for words in ("Bytes sent and acknowledged", "limit", "exchange", "Round trips"):
        assert words in texts(page)
    legend = page.locator("#connection .legend").inner_text()
    for words in ("acknowledged", "edge of the window", "SACK", "▲", "sent again, fast"):
        assert words in legend
    assert "needless" not in legend


def test_needless_ones_are_hollow(open_report: Open, analysed: Callable[..., Analysis]) -> None:
    page = open_report(analysed("spurious-server"), "#connection-0")
    drawn(page)
    (again,) = [trace for trace in traces(page) if trace["symbol"] == "triangle-up"]
    assert again["color"] == "#ffffff"
    assert "△" in page.locator("#connection .legend").inner_text()
    assert "needless" in page.locator("#connection .lead").inner_text()


def test_a_healthy_connection_has_no_marks(
    open_report: Open, analysed: Callable[..., Analysis]
) -> None:
    page = open_report(analysed("loss-none-client"), "#connection-0")
    drawn(page)
    assert "Nothing was sent again." in page.locator("#connection .lead").inner_text()
    assert not [trace for trace in traces(page) if trace["symbol"] == "triangle-up"]
    assert not any("loss" in text for text in texts(page))


def test_hovering_names_the_packet_and_what_it_is(
    open_report: Open, analysed: Callable[..., Analysis]
) -> None:
    analysis = analysed(LOSSY)
    (packet,) = (analysis.tables.packets.mechanism.nonzero()[0] + 1).tolist()
    page = open_report(analysis, "#connection-0")
    drawn(page)
    page.mouse.move(*point(page, packet))
    page.wait_for_selector(".chart.graph .hovertext", state="attached")
    said = page.locator(".chart.graph .hovertext").first.text_content()
    assert f"packet {packet}: retransmission, fast, 1.4{NBSP}KB" in said
    assert "in flight behind it" in said


def test_clicking_a_packet_finds_its_exchange_and_back(
    open_report: Open, analysed: Callable[..., Analysis]
) -> None:
    analysis = analysed(LOSSY)
    (packet,) = (analysis.tables.packets.mechanism.nonzero()[0] + 1).tolist()
    page = open_report(analysis, "#connection-0")
    drawn(page)
    page.mouse.click(*point(page, packet))
    page.locator(".packet-info").get_by_text(f"Packet {packet}: retransmission, fast").wait_for()
    assert f"frame.number == {packet}" in page.locator(".packet-info").inner_text()
    page.locator(".packet-info a").click()
    page.wait_for_selector("#row-0.chosen")
    assert page.evaluate("location.hash") == "#exchange-0"
    # And back: to its connection, at its time.
    page.locator("#exchange").get_by_role("button", name="Show its packets over time").click()
    drawn(page)
    begin, end = shown_range(page)
    row = analysis.tables.exchanges[0]
    assert row.end_ns is not None
    assert end == pytest.approx(row.end_ns / 1e6, rel=0.1)
    assert begin <= row.start_ns / 1e6
    assert end < analysis.tables.connections[0].end_ns / 1e6 * 0.7
    assert page.locator("#connection-title").evaluate("(e) => e === document.activeElement")


def test_packets_of_a_finding_lead_there(
    open_report: Open, analysed: Callable[..., Analysis]
) -> None:
    analysis = analysed("loss-rto-server")
    place = next(row.finding_no for row in analysis.findings if row.detector.startswith("tcp/"))
    page = open_report(analysis, f"#finding-{place + 1}")
    number = analysis.findings[place].packet_nos[0]
    page.locator(f"#finding-{place + 1} .numbers a").first.click()
    drawn(page)
    assert page.evaluate("location.hash") == f"#packet-{number}"
    assert f"Packet {number}:" in page.locator(".packet-info").inner_text()


def test_a_packet_has_a_link_of_its_own(
    open_report: Open, analysed: Callable[..., Analysis]
) -> None:
    page = open_report(analysed("llm-incident"), "#packet-50")
    drawn(page)
    assert "Packet 50:" in page.locator(".packet-info").inner_text()
    begin, end = shown_range(page)
    assert end - begin < 8  # s: not the whole


def test_a_packet_that_is_not_drawn_is_named_all_the_same(
    open_report: Open, analysed: Callable[..., Analysis]
) -> None:
    page = open_report(analysed("llm-incident"), "#packet-60", charts=False)
    info = page.locator(".packet-info")
    info.get_by_text("Packet 60:").wait_for()
    assert "is not among those listed here" in info.inner_text()
    assert "frame.number == 60" in info.inner_text()


def test_by_keyboard_alone(open_report: Open, analysed: Callable[..., Analysis]) -> None:
    analysis = analysed(LOSSY)
    (packet,) = (analysis.tables.packets.mechanism.nonzero()[0] + 1).tolist()
    page = open_report(analysis, "#connection-0")
    drawn(page)
    page.locator(".graph-frame").focus()
    info = page.locator(".packet-info")
    for _ in range(3):  # SYN, SYN with ACK, the one sent again
        page.keyboard.press("Shift+ArrowRight")
    assert f"Packet {packet}:" in info.inner_text()
    page.keyboard.press("ArrowLeft")
    assert f"Packet {packet - 1}:" in info.inner_text()
    assert f"Packet {packet - 1}:" in page.locator("[aria-live][role=status]").inner_text()
    before = shown_range(page)
    page.keyboard.press("+")
    until(page, f"document.querySelector('.chart.graph .plot').layout.xaxis.range[1] < {before[1]}")
    page.keyboard.press("0")
    page.keyboard.press("Enter")
    page.wait_for_selector("#row-0.chosen")
    page.locator(".graph-frame").focus()
    page.keyboard.press("Escape")
    assert page.locator("#connection").is_hidden()
    assert page.locator("#exchange").is_visible()


def test_zoom_by_dragging_and_by_button(
    open_report: Open, analysed: Callable[..., Analysis]
) -> None:
    page = open_report(analysed(LOSSY), "#connection-0")
    drawn(page)
    page.locator(".chart.graph").scroll_into_view_if_needed()
    whole = shown_range(page)
    box = page.locator(".chart.graph").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 120)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 130, steps=4)
    page.mouse.up()
    until(
        page,
        f"(([from, to]) => to - from < {(whole[1] - whole[0]) / 2})"
        "(document.querySelector('.chart.graph .plot').layout.xaxis.range)",
    )
    page.get_by_role("button", name="Whole connection").click()
    until(page, f"document.querySelector('.chart.graph .plot').layout.xaxis.range[1] >= {whole[1]}")


def test_the_other_direction(open_report: Open, analysed: Callable[..., Analysis]) -> None:
    page = open_report(analysed("nagle-client"), "#connection-0")
    drawn(page)
    assert "The client sent" in page.locator("#connection .lead").inner_text()
    assert "Nagle" in page.locator("#connection .lead").inner_text()
    page.get_by_role("button", name="From the server").click()
    drawn(page)
    assert "The server sent" in page.locator("#connection .lead").inner_text()
    pressed = page.locator(".ways button[aria-pressed=true]")
    assert pressed.inner_text().startswith("From the server")
    assert pressed.evaluate("(e) => e === document.activeElement")


@pytest.mark.parametrize(
    ("name", "words"),
    [("zero-window", "window of 0"), ("window-limited", "Receiver’s window, used up")],
)
def test_what_held_the_sender(
    open_report: Open, analysed: Callable[..., Analysis], name: str, words: str
) -> None:
    page = open_report(analysed(name), "#connection-0")
    drawn(page)
    lead = page.locator("#connection .lead").inner_text()
    assert "held it back" in lead
    assert "The receiver’s window limited it for" in lead
    assert words.lower() in page.locator(".trace-parts").inner_text().lower()
    bars = [trace for trace in traces(page) if trace["mode"] == "bar"]
    assert len(bars) >= 2


def test_limits_silences_and_whom_a_loss_delayed(
    open_report: Open, analysed: Callable[..., Analysis]
) -> None:
    analysis = analysed("sse-h2-loss")
    (packet,) = (analysis.tables.packets.mechanism.nonzero()[0] + 1).tolist()
    page = open_report(analysis, f"#packet-{packet}")
    drawn(page)
    said = page.locator(".trace-parts").inner_text()
    for words in ("What limited the sender", "Repair of losses", "Silences"):
        assert words in said
    assert f"held up exchange 1 by 226{NBSP}ms" in page.locator(".packet-info").inner_text()
    assert "It had nothing to send for" in page.locator("#connection .lead").inner_text()
    assert "Repair of losses" in page.locator("#connection .legend").inner_text()


def test_a_queue_is_told(open_report: Open, analysed: Callable[..., Analysis]) -> None:
    page = open_report(analysed("bufferbloat"), "#connection-0")
    drawn(page)
    assert "a queue on the way" in page.locator("#connection .lead").inner_text()


def test_without_a_handshake_no_window(
    open_report: Open, analysed: Callable[..., Analysis]
) -> None:
    page = open_report(analysed("mid-connection"), "#connection-0")
    drawn(page)
    assert "handshake, which is not in the capture" in page.locator("#connection").inner_text()


def test_a_syn_sent_again_is_told(open_report: Open, analysed: Callable[..., Analysis]) -> None:
    page = open_report(analysed("syn-lost"), "#connection-0")
    drawn(page)
    lead = page.locator("#connection .lead").inner_text()
    assert f"A SYN had to be sent again: the connection was answered after 1.03{NBSP}s." in lead
    page.get_by_role("button", name="From the client").click()
    drawn(page)
    assert [trace["packets"] for trace in traces(page) if trace["symbol"] == "triangle-right"] == [
        [2]
    ]


def test_a_direction_without_data(open_report: Open, analysed: Callable[..., Analysis]) -> None:
    page = open_report(analysed("sse-closed"), "#connection-0")
    drawn(page)
    for words in ("limit", "exchange", "Round trips"):
        assert words in texts(page)


def test_a_refused_connection_has_packets_and_no_graph(
    open_report: Open, analysed: Callable[..., Analysis]
) -> None:
    page = open_report(analysed("refused"), "#connection-0")
    page.wait_for_selector("#connection .lead")
    assert "the connection was refused" in page.locator("#connection .lead").inner_text()
    assert page.locator(".chart.graph").count() == 0
    said = page.locator("#connection").inner_text()
    assert "RST, ACK" in said
    assert "none was offered" in said


@pytest.mark.parametrize("width", [360, 720, 1000, 2600])
def test_fits_the_window(open_report: Open, analysed: Callable[..., Analysis], width: int) -> None:
    page = open_report(analysed(LOSSY), "#connection-0", width=width)
    drawn(page)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    room = page.locator(".chart.graph").bounding_box()
    svg = page.locator(".chart.graph .main-svg").first.bounding_box()
    assert svg["x"] + svg["width"] <= room["x"] + room["width"] + 1


def test_without_charts_the_tables_stand_in(
    open_report: Open, analysed: Callable[..., Analysis]
) -> None:
    analysis = analysed("loss-rto-server")
    page = open_report(analysis, "#connection-0", charts=False)
    said = page.locator("#connection").inner_text()
    assert "written without charts" in said
    assert "retransmission, after a timeout" in said
    assert "Round trips" in said
    assert page.locator(".plot").count() == 0
    page.locator(".trace-parts tbody a").first.click()
    page.wait_for_selector("#row-0.chosen")


def test_the_graph_follows_the_connection_chosen(
    open_report: Open, analysed: Callable[..., Analysis]
) -> None:
    page = open_report(analysed("llm-incident"), "#connection-0")
    drawn(page)
    page.locator('#connections button[aria-label="Connection 2"]').click()
    page.locator("#connection-title").get_by_text("Connection 2").wait_for()
    drawn(page)
    page.locator("#connection").get_by_role("button", name="Close").click()
    page.locator('#connections button[aria-label="Connection 1"]').click()
    assert page.locator("#connection").is_hidden()


def test_plotly_waits_until_a_graph_is_opened(
    open_report: Open, analysed: Callable[..., Analysis]
) -> None:
    page = open_report(analysed(LOSSY))
    assert page.locator("#connection").is_hidden()
    assert page.evaluate("typeof Plotly") == "undefined"
    page.locator("#connections").get_by_role("button", name="Show its packets over time").click()
    drawn(page)
    assert page.evaluate("location.hash") == "#connection-0"


def test_paper(open_report: Open, analysed: Callable[..., Analysis]) -> None:
    page = open_report(analysed(LOSSY), "?theme=dark#connection-0")
    drawn(page)
    page.set_viewport_size({"width": 690, "height": 980})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    ink = "getComputedStyle(document.querySelector('.chart.graph .annotation-text')).fill"
    until(page, f"{ink} === 'rgb(80, 88, 98)' || {ink} === 'rgb(21, 24, 28)'")
    assert page.locator(".chart.graph .main-svg").first.bounding_box()["width"] <= 690
    assert page.locator(".trace-tools").is_hidden()


def test_hostile_text_reaches_no_graph(open_report: Open, captures: Path, sample: Any) -> None:
    analysis = sample.hostile(analyze(captures / "hostile-strings.pcap", redact="none"))
    page = open_report(analysis)
    for number in range(len(analysis.tables.connections)):
        page.evaluate(f"location.hash = '#connection-{number}'")
        drawn(page)
        page.locator(".graph-frame").focus()
        page.keyboard.press("End")
        page.wait_for_selector(".packet-words")
        assert page.locator(".plot a, .plot image, .plot foreignObject").count() == 0
        assert "onerror" not in "".join(texts(page))
    assert page.evaluate("window.__owned") is None
    assert page.evaluate("window.hostile") is None
