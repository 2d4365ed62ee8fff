"""Other packages are asked for what they add, where there may be any."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from capture_analyzer.entry_points import entry_points, may_exist

GROUP = "capture_analyzer.detectors"


def install(folder: Path, points: str) -> None:
    package = folder / "acme-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(points)


def test_installed_ones_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, f"[{GROUP}]\nacme/slow = acme.slow\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [(point.name, point.value) for point in entry_points(GROUP)] == [
        ("acme/slow", "acme.slow")
    ]


def test_nobody_is_asked_where_nobody_has_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "[console_scripts]\nacme = acme:main\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "absent")])
    monkeypatch.setattr("importlib.metadata.entry_points", None)
    assert not list(entry_points(GROUP))


@pytest.mark.parametrize("name", ["acme.zip", "site/acme-1.0.egg"])
def test_what_cannot_be_looked_into_may_have_some(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    monkeypatch.setattr(sys, "path", [str(path if path.suffix == ".zip" else path.parent)])
    assert may_exist(GROUP)


def test_a_finder_of_its_own_may_have_some(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        def find_distributions(self) -> None:
            pass

    monkeypatch.setattr(sys, "path", [])
    assert not may_exist(GROUP)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert may_exist(GROUP)
