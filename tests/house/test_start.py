"""The program starts quickly because it loads only what a run uses."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "pandas", "plotly", "cryptography", "rich", "dpkt", "brotli", "zstandard")

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
