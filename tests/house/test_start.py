"""The program starts quickly because it loads only what a run uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("numpy", "pandas", "plotly", "cryptography", "rich", "dpkt", "brotli", "zstandard")

UNUSED_WITHOUT_KEYS = (
    *("pandas", "plotly", "cryptography", "rich", "dpkt", "brotli", "zstandard", "numpy.ma"),
    "capture_analyzer.pipeline.dissect.decrypt",
    "capture_analyzer.pipeline.dissect.http2",
    "capture_analyzer.pipeline.tcp.wireshark.labelling",
    "capture_analyzer.protocols.http1.connection",
    "capture_analyzer.protocols.tls.certificates",
    "capture_analyzer.readers.pcapng",
    "capture_analyzer.report.html",
)
CAPTURES = Path(__file__).parents[2] / "captures"

PROBE = """
import sys
sys.argv = ["capture-analyzer", *sys.argv[1:]]
from capture_analyzer.cli.main import run
try:
    run()
except SystemExit as stop:
    code = stop.code
else:
    code = 0
print("LOADED", *sorted(name for name in sys.modules if "." not in name))
sys.exit(code)
"""


def loaded_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_loads_no_heavy_library(option: str) -> None:
    assert not loaded_by(option).intersection(HEAVY)


def test_importing_the_package_loads_no_heavy_library() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import capture_analyzer, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not set(done.stdout.split()).intersection(HEAVY)


def test_without_keys_no_parser_of_contents_is_loaded(tmp_path: Path) -> None:
    arguments = ["analyze", str(CAPTURES / "six-connections-tls.pcap")]
    arguments += ["--json", str(tmp_path / "made.json")]
    probe = (
        "import sys; from capture_analyzer.cli.main import main; "
        "main.main(sys.argv[1:], standalone_mode=False); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe, *arguments], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "capture_analyzer.pipeline.dissect.tls" in loaded
    assert not loaded.intersection(UNUSED_WITHOUT_KEYS)
