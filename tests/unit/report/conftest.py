"""The hand-made analyses of the browser tests serve here too."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def sample() -> ModuleType:
    """`tests/browser/sample.py`; test folders are not packages, so it is loaded by path."""
    name = "report_sample"
    if name not in sys.modules:
        path = Path(__file__).parents[2] / "browser" / "sample.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]
