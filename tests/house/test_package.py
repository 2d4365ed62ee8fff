"""What `pip install .` installs is the whole program."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "capture_analyzer"
CAPTURE = ROOT / "captures" / "llm-incident.pcap"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (path,) = folder.glob("*.whl")
    return path


def test_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    expected = {
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert "capture_analyzer/py.typed" in expected
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_wheel_runs_away_from_the_repository(wheel: Path, tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    zipfile.ZipFile(wheel).extractall(site)
    report = elsewhere / "report.html"
    done = subprocess.run(
        [sys.executable, "-m", "capture_analyzer", "analyze", CAPTURE, "-o", report],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert report.stat().st_size > 10_000
    where = subprocess.run(
        [sys.executable, "-c", "import capture_analyzer; print(capture_analyzer.__file__)"],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(site)), "the test did not test the wheel"
