"""Fixtures that every suite can use."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest

# How long an example takes says something about the machine, not about the code; and a run in
# continuous integration gives the same result twice.
hypothesis.settings.register_profile(
    "project", deadline=None, derandomize=os.environ.get("CI") == "true"
)
hypothesis.settings.load_profile("project")

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("CAPTURE_ANALYZER_SHARED", REPOSITORY.parent / "shared"))
"""Folder with the lab captures and the corpus, which are not part of the project."""


def _shared(name: str) -> Path:
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"no {name} captures here: {folder} (set CAPTURE_ANALYZER_SHARED)")
    return folder


@pytest.fixture(scope="session")
def lab() -> Path:
    """Captures made on an instrumented link, with their truth; skips where absent."""
    return _shared("lab")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Public captures; skips where absent."""
    return _shared("corpus")


@pytest.fixture(scope="session")
def captures() -> Path:
    """The project's own captures."""
    return REPOSITORY / "captures"


@pytest.fixture(scope="session")
def hand_made() -> ModuleType:
    """`hand_made.py`, which makes tables by hand; test folders are no packages."""
    spec = importlib.util.spec_from_file_location(
        "hand_made", Path(__file__).parent / "hand_made.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
