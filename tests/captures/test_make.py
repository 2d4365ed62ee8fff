"""The captures in the repository are those that scripts/make_captures.py makes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "captures"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("captures")
    script = ROOT / "scripts" / "make_captures.py"
    subprocess.run(
        [sys.executable, script, "--out", out, "--force"], check=True, capture_output=True
    )
    return out


def stable(truth: dict[str, Any]) -> dict[str, Any]:
    """The part of a truth that does not depend on the randoms of TLS."""
    requests = [
        {key: row[key] for key in ("name", "connection", "method", "status", "captured", "interim")}
        for row in truth["requests"]
    ]
    keep = ("describe", "expect", "file", "vantage", "link", "keys", "random")
    return {"requests": requests, **{key: truth[key] for key in keep}}


def test_no_file_is_left_over(made: Path) -> None:
    assert sorted(p.name for p in made.iterdir()) == sorted(p.name for p in FOLDER.iterdir())


def test_plain_captures_are_the_same_bytes(made: Path) -> None:
    different = []
    count = 0
    for file in sorted(FOLDER.glob("*.json")):
        truth = json.loads(file.read_text())
        if not truth["random"]:
            count += 1
            different += [
                name
                for name in (file.name, truth["file"])
                if (made / name).read_bytes() != (FOLDER / name).read_bytes()
            ]
    assert different == []
    assert count > 30


def test_captures_with_tls_tell_the_same(made: Path) -> None:
    for file in sorted(FOLDER.glob("*.json")):
        before, now = json.loads(file.read_text()), json.loads((made / file.name).read_text())
        assert stable(now) == stable(before), file.name


def test_captures_are_small() -> None:
    sizes = {p.name: p.stat().st_size for p in FOLDER.iterdir()}
    assert max(sizes.values()) < 300_000
    assert sum(sizes.values()) < 8_000_000
