from __future__ import annotations

import base64
import gzip
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
from capture_analyzer.report.chart_script import chart_script

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


def policy(page: str) -> dict[str, list[str]]:
    rules = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert rules is not None
    return {name: words for name, *words in (rule.split() for rule in rules[1].split("; "))}


def test_charts_bring_one_script_and_nothing_looser(sample: ModuleType) -> None:
    page = html.render(sample.streams()).decode()
    plain = html.render(sample.streams(), charts=False).decode()
    packed = re.search(
        r'<script type="text/plain" id="chart-script">([A-Za-z0-9+/=]+)</script>\n', page
    )
    assert packed is not None
    script = gzip.decompress(base64.b64decode(packed[1]))
    assert script.startswith(b"/**\n* plotly.js v")
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    with_charts, without = policy(page), policy(plain)
    assert with_charts.pop("script-src") == [*without.pop("script-src"), f"'sha256-{digest}'"]
    assert with_charts == without
    assert "unsafe" not in str(policy(page))
    assert page.replace(packed[0], "").replace(f" 'sha256-{digest}'", "") == plain


def test_charts_only_where_there_is_something_to_chart(sample: ModuleType) -> None:
    for analysis in (sample.incident(), sample.clean(), sample.empty()):
        page = html.render(analysis)
        assert b'chart-script">' not in page
        assert len(page) < 300_000
    assert 1_900_000 < len(html.render(sample.streams())) < 2_300_000


def test_the_packed_script_names_no_time_and_no_system() -> None:
    header = base64.b64decode(chart_script().packed[:16])
    assert header[:10] == b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"


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


@pytest.mark.parametrize("state", ["incident", "streams"])
@pytest.mark.parametrize(
    ("seed", "zone"), [("0", "UTC"), ("1", "Asia/Kathmandu"), ("77", "America/St_Johns")]
)
def test_same_bytes_on_any_machine(seed: str, zone: str, state: str, sample: ModuleType) -> None:
    code = (
        "import hashlib, runpy, sys\n"
        "from capture_analyzer.report import html\n"
        "sample = runpy.run_path(sys.argv[1], run_name='sample')\n"
        "print(hashlib.sha256(html.render(sample[sys.argv[2]]())).hexdigest())\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(SAMPLE), state],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    here = html.render(getattr(sample, state)())
    assert done.stdout.strip() == hashlib.sha256(here).hexdigest()


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


def test_nothing_but_comments_and_indentation_is_left_out() -> None:
    folder = Path(html.__file__).parent / "assets"
    for name in (*html.SCRIPTS, *html.STYLES):
        left = iter([*html._asset(name).splitlines(), None])
        comment = False
        for number, line in enumerate((folder / name).read_text("utf-8").splitlines(), 1):
            text = line.lstrip(" ")
            assert text.count("`") % 2 == 0, f"{name}:{number}: a text over several lines"
            comment = comment or text.startswith("/*")
            if not comment and text and not text.startswith("//"):
                assert text == next(left), f"{name}:{number}"
            comment = comment and not text.endswith("*/")
        assert next(left) is None, name


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
        assert causes.PAUSES[name]
        assert causes.GROUPS[name]
        key = name.replace("_", "-")
        assert colours.count(f"--{key}: #") == 2, name  # light and dark
        assert f".cause-{key} " in colours
    assert len(CAUSE_NAMES) <= 32  # five bits in the payload
