"""Packets and captures made by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """`frames.py` beside this file, which makes packets; test folders are no packages."""
    path = Path(__file__).parent / "frames.py"
    spec = importlib.util.spec_from_file_location("scan_frames", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
