"""Dependencies: what is locked fits what is declared, and every licence allows the use."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GROUPS = PROJECT["dependency-groups"]

COMPATIBLE = re.compile(
    r"\b(MIT|BSD|Apache|PSF|Python Software Foundation|0BSD|ISC|Zlib|Unlicense)", re.I
)
"""Licences under which a run-time dependency may be used with an Apache-2.0 program."""

COPYLEFT = re.compile(r"\b(A?GPL|GNU (Affero )?General Public|LGPL)", re.I)


def locked(name: str) -> dict[str, Version]:
    """The packages of a lock file with their versions."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return {
        canonicalize_name(match[1]): Version(match[2])
        for match in re.finditer(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, re.M)
    }


@pytest.mark.parametrize(
    ("lock", "declared"),
    [
        ("requirements.lock", PROJECT["project"]["dependencies"]),
        ("requirements-dev.lock", PROJECT["project"]["dependencies"]),
        ("requirements-dev.lock", [r for r in GROUPS["dev"] if isinstance(r, str)]),
        ("requirements-dev.lock", GROUPS["build"]),
        ("requirements-build.lock", GROUPS["build"]),
        ("requirements-build.lock", PROJECT["build-system"]["requires"]),
    ],
)
def test_lock_satisfies_what_is_declared(lock: str, declared: list[str]) -> None:
    versions = locked(lock)
    for text in declared:
        requirement = Requirement(text)
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in {lock}: run scripts/lock"
        assert version in requirement.specifier, f"{lock} has {version}: run scripts/lock"


def test_locks_agree() -> None:
    runtime, development = locked("requirements.lock"), locked("requirements-dev.lock")
    assert {name: development.get(name) for name in runtime} == runtime


@pytest.mark.parametrize(
    "lock", ["requirements.lock", "requirements-build.lock", "requirements-dev.lock"]
)
def test_lock_has_hashes_and_names_no_index(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.M)[1:]
    assert blocks
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


def licence_of(name: str) -> str:
    """What a package says of its licence: the expression, the field, the classifiers."""
    data = metadata.metadata(name)
    said = [
        text.split("\n")[0]
        for field in ("License-Expression", "License")
        for text in data.get_all(field) or []
    ]
    said += [line for line in data.get_all("Classifier") or [] if line.startswith("License")]
    return " ".join(said)


@pytest.mark.parametrize("name", sorted(locked("requirements.lock")))
def test_licence_of_run_time_dependency_is_compatible(name: str) -> None:
    try:
        licence = licence_of(name)
    except metadata.PackageNotFoundError:
        pytest.skip("not installed on this platform")
    assert COMPATIBLE.search(licence), f"licence of {name}: {licence!r}"
    assert not COPYLEFT.search(licence), f"licence of {name}: {licence!r}"


def test_copyleft_would_be_noticed() -> None:
    # scapy, a development dependency, is under the GPL: that is why it is one.
    try:
        assert COPYLEFT.search(licence_of("scapy"))
    except metadata.PackageNotFoundError:
        pytest.skip("scapy is not installed")


def test_package_imports_only_what_is_declared() -> None:
    """Everything imported is the standard library, the project, or a declared dependency."""
    import ast
    import sys

    declared = {
        canonicalize_name(Requirement(text).name) for text in PROJECT["project"]["dependencies"]
    }
    undeclared = set()
    for path in sorted((ROOT / "capture_analyzer").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                top = name.partition(".")[0]
                if top in sys.stdlib_module_names or top == "capture_analyzer":
                    continue
                if canonicalize_name(top) not in declared:
                    undeclared.add(f"{path.relative_to(ROOT)}: {top}")
    assert not undeclared
