"""The handshake of a connection in a browser: its bars, in every width and theme."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capture_analyzer.api import analyze

pytestmark = pytest.mark.browser

Open = Callable[..., Any]


def figure(page: Any, number: int) -> Any:
    page.locator(f'#connections button[aria-label="Connection {number}"]').click()
    found = page.locator("#connections .handshake")
    found.scroll_into_view_if_needed()
    return found


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (360, "dark")])
def test_steps_and_sides(open_report: Open, captures: Path, *, width: int, theme: str) -> None:
    analysis = analyze(captures / "ocsp-staple-slow.pcap")
    page = open_report(analysis, width=width, theme=theme, charts=False)
    shown = figure(page, 0)
    text = shown.inner_text().replace("\xa0", " ")
    assert "2 round trips" in text
    assert "The server was slow: 251 ms beyond the round trip." in text
    assert "Full handshake." in text
    names = shown.locator(".what .captured").all_inner_texts()
    assert names[:3] == ["ClientHello", "ServerHello", "Certificate"]
    assert names[-1] == "application data"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # The server's part of the Certificate's bar is by far the longest of all.
    bars = shown.locator(".shake-steps .fill").evaluate_all(
        "bars => bars.map((bar) => [bar.className, bar.getBoundingClientRect().width])"
    )
    longest = max(bars, key=lambda bar: bar[1])
    assert "cause-server-think" in longest[0]
    track = shown.locator(".shake-steps .track").first.bounding_box()["width"]
    assert 0.7 * track < longest[1] < 0.95 * track
    inside = shown.locator(".shake-steps li").evaluate_all(
        "rows => rows.every((row) => row.scrollWidth <= row.clientWidth)"
    )
    assert inside
    facts = dict(
        zip(
            shown.locator("dt").all_inner_texts(),
            shown.locator("dd").all_inner_texts(),
            strict=True,
        )
    )
    assert facts["Certificate"] == "api.example, Ed25519"
    assert facts["Valid"].endswith("59 days left")
    assert facts["OCSP staple"].startswith("good")


def test_inferred_steps_and_late_data(open_report: Open, captures: Path) -> None:
    page = open_report(analyze(captures / "tls13-no-keys.pcap"), charts=False)
    shown = figure(page, 0)
    assert "Steps marked ≈ are inferred" in shown.inner_text()
    assert shown.locator(".what", has_text="≈").count() == 3


def test_resumed_retried_and_renegotiated(open_report: Open, captures: Path) -> None:
    for name, number, words in (
        ("tls13-resumed-keys", 1, "Resumed: no certificate was sent."),
        ("tls13-hrr-keys", 0, "HelloRetryRequest: the server wanted another key share"),
        ("tls12-renegotiation", 0, "Later in the connection: 2 more handshakes (renegotiation)."),
        ("tls-large-chain", 0, "does not fit: one round trip more"),
    ):
        keys = captures / f"{name}.keys"
        analysis = analyze(captures / f"{name}.pcap", keylogs=[keys] if keys.exists() else [])
        page = open_report(analysis, charts=False)
        assert words in figure(page, number).inner_text().replace("\xa0", " "), name


def test_the_name_behind_a_cover(open_report: Open, captures: Path) -> None:
    analysis = analyze(captures / "tls13-ech.pcap", keylogs=[captures / "tls13-ech.keys"])
    page = open_report(analysis, charts=False)
    figure(page, 0)
    text = page.locator("#connections .connection-facts").inner_text()
    assert "cover.example: the name of the server is encrypted (ECH)" in text
    assert "api.example" in text


def test_no_handshake_no_figure(open_report: Open, captures: Path) -> None:
    page = open_report(analyze(captures / "http-keepalive.pcap"), charts=False)
    page.locator('#connections button[aria-label="Connection 0"]').click()
    assert page.locator("#connections .handshake").count() == 0


@pytest.mark.parametrize(("width", "theme"), [(1440, "dark"), (360, "light")])
def test_records(open_report: Open, captures: Path, *, width: int, theme: str) -> None:
    analysis = analyze(captures / "sse-stall.pcap", keylogs=[captures / "sse-stall.keys"])
    page = open_report(analysis, width=width, theme=theme, charts=False)
    figure(page, 0)
    shown = page.locator("#connections .records")
    text = shown.inner_text().replace("\xa0", " ")
    assert "how long each token is" in text
    assert "35 records" in text
    assert shown.locator("circle").count() == 36
    places = shown.locator("circle").evaluate_all(
        "dots => dots.map((dot) => dot.getBoundingClientRect().x)"
    )
    assert places != sorted(set(places), reverse=True)
    assert max(places) - min(places) > 150
    assert page.evaluate("document.documentElement.scrollWidth") <= width
