"""The catalogue of detectors: ids, documentation, and a capture and a near miss for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from capture_analyzer.detectors.catalogue import builtin

ROOT = Path(__file__).resolve().parents[2]
DETECTORS = ROOT / "capture_analyzer" / "detectors"


def detector_files() -> list[Path]:
    """Modules two levels down: detectors/<protocol>/<judgement>.py."""
    return [path for path in sorted(DETECTORS.glob("*/*.py")) if path.stem != "__init__"]


def test_catalogue_finds_every_module_once() -> None:
    expected = [f"{path.parent.name}/{path.stem}".replace("_", "-") for path in detector_files()]
    assert sorted(builtin()) == sorted(expected)
    assert len(set(expected)) == len(expected), "two modules with one id"


@pytest.mark.parametrize(
    "path", detector_files(), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_detector_is_tested_in_a_file_of_its_own(path: Path) -> None:
    assert (ROOT / "tests" / "detectors" / path.parent.name / f"test_{path.stem}.py").exists()
