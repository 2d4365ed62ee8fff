"""Fixtures that every suite can use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
