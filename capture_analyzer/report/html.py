"""An analysis as one self-contained HTML file.

The file holds the page's own style and script (`assets/`, put together here), the data
(`payload`) and, where there is something to chart, Plotly's script (`chart_script`). Nothing is
loaded, nothing captured is ever markup:

* the Content-Security-Policy allows these scripts and this one style sheet, by their hashes,
  and nothing else: no network, no inline handlers, no style attributes;
* the data stands in a script element of a type that no browser runs, in ASCII and without "<",
  so that nothing in it can end the element (HTML, "Restrictions for contents of script elements");
* the script makes text nodes of it.

The same analysis gives the same bytes: there is no clock, no host name, no random number.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from functools import cache
from importlib import resources
from typing import Any, Final

from capture_analyzer.model.analysis import Analysis
from capture_analyzer.report.chart_script import chart_script
from capture_analyzer.report.payload import payload

SCRIPTS: Final = (
    "dom.js",
    "numbers.js",
    "events.js",
    "traces.js",
    "store.js",
    "theme.js",
    "bars.js",
    "verdict.js",
    "findings.js",
    "filters.js",
    "timescale.js",
    "lanes.js",
    "rows.js",
    "pointer.js",
    "waterfall.js",
    "handshake.js",
    "records.js",
    "connections.js",
    "spans.js",
    "charts.js",
    "timeline.js",
    "histogram.js",
    "direction.js",
    "sequence.js",
    "stream.js",
    "detail.js",
    "trace.js",
    "about.js",
    "main.js",
)
"""Modules of the page, each behind those that it imports."""

STYLES: Final = (
    "colours.css",
    "page.css",
    "waterfall.css",
    "charts.css",
    "handshake.css",
    "print.css",
)

_IMPORT: Final = re.compile(r'^import (\{[^}]*\}) from "\./([a-z]+)\.js";$', re.MULTILINE)
_EXPORT: Final = re.compile(
    r"^export (?:async )?(?:const|let|class|function\*?) (\w+)", re.MULTILINE
)

_COMMENT: Final = re.compile(
    r"^[ \t]*(?:/\*(?:(?!\*/).)*\*/[ \t]*\n|//[^\n]*\n)", re.MULTILINE | re.DOTALL
)
_SPACE: Final = re.compile(r"^[ \t]+|^\n+", re.MULTILINE)

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This report draws itself with a script that is part of the file; nothing is loaded.
Please allow scripts for it.</noscript>
<script type="application/json" id="data">{data}</script>
{charts}<script>{script}</script>
</body>
</html>
"""


def render(analysis: Analysis, *, charts: bool = True) -> bytes:
    """The report of an analysis, as the bytes of an HTML file in UTF-8.

    Args:
        analysis: what to show.
        charts: whether the file may carry Plotly's script (some 2 MB) to draw charts. It does
            only if there is something to chart. Without it the figures are still there.
    """
    data = payload(analysis, charts=charts)
    packed, digests = "", [_digest(_script())]
    if charts and (data["events"]["drawn"] or data["traces"]["list"]):
        script = chart_script()
        packed = f'<script type="text/plain" id="chart-script">{script.packed}</script>\n'
        digests.append(script.digest)
    return _PAGE.format(
        policy=_policy(digests),
        title=html.escape(f"{data['verdict']['name']}: capture-analyzer report"),
        style=_style(),
        data=_embedded(data),
        charts=packed,
        script=_script(),
    ).encode("utf-8")


def _embedded(data: dict[str, Any]) -> str:
    """JSON that can stand inside a script element: ASCII, without a "<"."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _asset(name: str) -> str:
    """A file of the page without comments and indentation: an eighth of what it would take.

    Comments stand on lines of their own there, and no text goes over several lines.
    """
    text = (resources.files(__package__) / "assets" / name).read_text("utf-8")
    return _SPACE.sub("", _COMMENT.sub("", text))


@cache
def _style() -> str:
    return "\n".join(_asset(name) for name in STYLES)


@cache
def _script() -> str:
    """The modules as one script, in order, each in a scope of its own.

    Inline modules can't import each other, so `import {a} from "./b.js"` becomes a
    destructuring of what module b gave back, and exported names are given back.
    """
    return '"use strict";\n(() => {\n' + "".join(_module(name) for name in SCRIPTS) + "})();\n"


def _module(name: str) -> str:
    source = _asset(name)
    exported = ", ".join(_EXPORT.findall(source))
    body = _IMPORT.sub(r"const \1 = module_\2;", source)
    body = re.sub(r"^export ", "", body, flags=re.MULTILINE)
    scope = f"module_{name.removesuffix('.js')}"
    return f"const {scope} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"


def _policy(scripts: list[str]) -> str:
    """The Content-Security-Policy; `scripts` are the hashes of those that may run."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src " + " ".join(f"'sha256-{digest}'" for digest in scripts),
            f"style-src 'sha256-{_digest(_style())}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
