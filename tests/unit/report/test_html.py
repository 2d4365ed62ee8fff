from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from capture_analyzer.report import html

SAMPLE = Path(__file__).parents[2] / "browser" / "sample.py"


def test_one_file_that_allows_nothing_but_itself(sample: ModuleType) -> None:
    page = html.render(sample.incident()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    style = page.partition("<style>")[2].partition("</style>")[0]

    def allowed(text: str) -> str:
        digest = hashlib.sha256(text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    assert rules == {
        "default-src": "'none'",
        "script-src": allowed(script),
        "style-src": allowed(style),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    markup = page.replace(script, "").replace(style, "")
    assert not re.search(r"\s(style|on\w+|src|href)=", markup)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", script + style)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", script)


def test_nothing_captured_can_leave_its_element(sample: ModuleType) -> None:
    page = html.render(sample.hostile()).decode()
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert "<img" not in page
    data = page.partition('id="data">')[2].partition("</script>")[0]
    assert data.isascii()
    assert "<" not in data
    assert json.loads(data)["version"].startswith("</script><img")
    assert "\u202e" not in page


def test_small_when_empty(sample: ModuleType) -> None:
    assert len(html.render(sample.empty(packets=0))) < 300_000


@pytest.mark.parametrize(
    ("seed", "zone"), [("0", "UTC"), ("1", "Asia/Kathmandu"), ("77", "America/St_Johns")]
)
def test_same_bytes_on_any_machine(seed: str, zone: str, sample: ModuleType) -> None:
    code = (
        "import hashlib, runpy, sys\n"
        "from capture_analyzer.report import html\n"
        "sample = runpy.run_path(sys.argv[1], run_name='sample')\n"
        "print(hashlib.sha256(html.render(sample['incident'](keys=False))).hexdigest())\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(SAMPLE)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (
        done.stdout.strip() == hashlib.sha256(html.render(sample.incident(keys=False))).hexdigest()
    )


def test_modules_come_behind_what_they_import() -> None:
    seen: set[str] = set()
    for name in html.SCRIPTS:
        source = html._asset(name)
        imported = re.findall(r"^import .*$", source, re.MULTILINE)
        for line in imported:
            match = html._IMPORT.fullmatch(line)
            assert match is not None, f"{name}: {line}"
            assert f"{match[2]}.js" in seen, f"{name} imports {match[2]}.js before it is there"
            exported = html._EXPORT.findall(html._asset(f"{match[2]}.js"))
            assert set(re.findall(r"\w+", match[1])) <= set(exported), f"{name}: {line}"
        seen.add(name)


def test_every_asset_is_used() -> None:
    folder = Path(html.__file__).parent / "assets"
    assert {path.name for path in folder.iterdir()} == {*html.SCRIPTS, *html.STYLES}


def test_assets_cannot_end_their_element() -> None:
    for name in (*html.SCRIPTS, *html.STYLES):
        assert not re.search(r"</(script|style)|<!--", html._asset(name), re.IGNORECASE), name
        assert "\r" not in html._asset(name)


def test_every_cause_has_its_words_and_colours() -> None:
    from capture_analyzer.model.causes import CAUSE_NAMES
    from capture_analyzer.report import causes

    colours = html._asset("colours.css")
    for name in CAUSE_NAMES:
        assert causes.TITLES[name]
        assert causes.SPENT[name]
        assert causes.GROUPS[name]
        key = name.replace("_", "-")
        assert colours.count(f"--{key}: #") == 2, name  # light and dark
        assert f".cause-{key} " in colours
    assert len(CAUSE_NAMES) <= 32  # five bits in the payload
