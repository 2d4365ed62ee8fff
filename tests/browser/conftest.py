"""A browser, reports opened in it, and the hand-made analyses as a module."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from capture_analyzer.model.analysis import Analysis
from capture_analyzer.report import html

CHROMIUM = Path("/usr/bin/chromium")
WATCH = """
addEventListener('securitypolicyviolation', (event) => {
  (window.__violations ??= []).push(event.violatedDirective + ' ' + event.blockedURI);
});
"""


@pytest.fixture(scope="session")
def sample() -> ModuleType:
    """`sample.py` beside this file; test folders are not packages, so it is loaded by path."""
    name = "report_sample"
    if name not in sys.modules:
        path = Path(__file__).with_name("sample.py")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}: apt install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright for Python")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture
def open_report(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open an analysis as a file; at the end nothing may have gone wrong or out."""
    contexts: list[Any] = []
    problems: list[str] = []
    pages: list[Any] = []

    def open_(
        analysis: Analysis, link: str = "", *, width: int = 1440, height: int = 900,
        theme: str = "light", charts: bool = True, before: str = "",
    ) -> Any:  # fmt: skip
        path = tmp_path / f"report-{len(contexts)}.html"
        path.write_bytes(html.render(analysis, charts=charts))
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        page = context.new_page()
        pages.append(page)
        page.set_default_timeout(30_000)  # a busy machine is no failure
        page.add_init_script(WATCH + before)
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (problems.append("a dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                request.url.startswith(path.as_uri()) or problems.append(f"request: {request.url}")
            ),
        )
        page.goto(path.as_uri() + link)
        page.wait_for_selector("html[data-ready]", state="attached")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        return page

    yield open_
    for page in pages:
        problems += page.evaluate("window.__violations ?? []")
    for context in contexts:
        context.close()
    assert problems == []
