"""Plotly's own script, as a report carries it: compressed, and allowed to run by its hash.

The script (plotly.js, some 4.8 MB) comes with the Python package plotly. A report holds it as
gzip in base64, in an element that no browser runs; `assets/charts.js` unpacks it when a chart is
first opened. The same plotly and zlib give the same bytes: the header of the
gzip names neither time nor system.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from functools import cache
from importlib import resources
from typing import NamedTuple


class ChartScript(NamedTuple):
    """The script for the page.

    Attributes:
        packed: gzip in base64.
        digest: SHA-256 of the script, in base64 as a Content-Security-Policy has it.
    """

    packed: str
    digest: str


@cache
def chart_script() -> ChartScript:
    """Read and pack it; a fifth of a second of work, so only a report with charts asks."""
    source = (resources.files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    packed = bytearray(gzip.compress(source, compresslevel=9, mtime=0))
    packed[9] = 255  # the operating system it was made on (RFC 1952, section 2.3): unknown
    return ChartScript(
        packed=base64.b64encode(packed).decode("ascii"),
        digest=base64.b64encode(hashlib.sha256(source).digest()).decode("ascii"),
    )
