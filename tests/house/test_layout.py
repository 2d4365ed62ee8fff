"""The house rules that neither ruff nor import-linter can see."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "capture_analyzer"
MODULES = sorted(PACKAGE.rglob("*.py"))
PURE = ("wire", "protocols", "detectors")
"""Packages that only compute: they get bytes or tables and return values."""

MAX_LINES = 600  # past about 500 a module wants to be a folder
FORBIDDEN_NAMES = ("util", "utils", "helper", "helpers", "manager", "managers", "misc", "common")
FORBIDDEN_CALLS = {"print", "open", "input", "exec", "eval", "compile", "breakpoint", "__import__"}
FORBIDDEN_ATTRIBUTES = {
    "read_bytes",
    "read_text",
    "write_bytes",
    "write_text",
    "tofile",
    "fromfile",
    "memmap",
}
"""Methods and functions that do I/O, whatever they are called on."""

FORBIDDEN_MODULES = {
    "logging",
    "warnings",
    "socket",
    "subprocess",
    "os",
    "io",
    "pathlib",
    "tempfile",
    "shutil",
    "mmap",
    "urllib",
    "http",
    "asyncio",
    "threading",
    "multiprocessing",
    "time",
    "random",
    "secrets",
    "uuid",
    "locale",
    "rich",
    "click",
}
"""Modules that do I/O, or let the clock, chance or the machine into a result."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_is_documented_and_of_readable_size(path: Path) -> None:
    docstring = ast.get_docstring(tree_of(path))
    assert docstring, "a module says in its docstring what it is for"
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{lines} lines: make it a folder"


def test_names_say_what_is_inside() -> None:
    vague = [
        name_of(path)
        for path in PACKAGE.rglob("*")
        if path.stem in FORBIDDEN_NAMES
        or any(path.stem.endswith(f"_{name}") for name in FORBIDDEN_NAMES)
    ]
    assert not vague


def impurities(tree: ast.Module) -> list[str]:
    """What a module that must only compute calls or imports nevertheless."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name) and function.id in FORBIDDEN_CALLS:
                found.append(f"line {node.lineno}: {function.id}()")
            if isinstance(function, ast.Attribute) and function.attr in FORBIDDEN_ATTRIBUTES:
                found.append(f"line {node.lineno}: .{function.attr}()")
        elif isinstance(node, ast.Import):
            found += [
                f"line {node.lineno}: import {alias.name}"
                for alias in node.names
                if alias.name.partition(".")[0] in FORBIDDEN_MODULES
            ]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            names = {alias.name for alias in node.names}
            if module == "pathlib" and names <= {"PurePath", "PurePosixPath"}:
                continue  # names of files, not files
            if module.partition(".")[0] in FORBIDDEN_MODULES:
                found.append(f"line {node.lineno}: from {module} import")
            if module == "sys" and names & {"stdout", "stderr"}:
                found.append(f"line {node.lineno}: from sys import")
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and (node.value.id, node.attr) in {("sys", "stdout"), ("sys", "stderr")}
        ):
            found.append(f"line {node.lineno}: sys.{node.attr}")
    return found


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if path.relative_to(PACKAGE).parts[0] in PURE],
    ids=name_of,
)
def test_pure_packages_do_no_input_or_output(path: Path) -> None:
    assert impurities(tree_of(path)) == []


@pytest.mark.parametrize(
    "source",
    [
        "print(1)",
        "def f():\n    with open('x') as file: pass",
        "import os.path",
        "from pathlib import Path",
        "import sys\nsys.stderr.write('x')",
        "import numpy as np\nnp.memmap('x')",
        "p.read_bytes()",
    ],
)
def test_impurities_are_recognised(source: str) -> None:
    assert impurities(ast.parse(source))


def test_pure_code_is_not_suspected() -> None:
    source = "import sys\nfrom struct import unpack_from\nsys.byteorder\nclass C:\n    open = 1"
    assert impurities(ast.parse(source)) == []


def test_tests_mirror_the_package() -> None:
    """A folder of unit tests is named after the package it tests."""
    unit = ROOT / "tests" / "unit"
    strays = [
        name_of(folder)
        for folder in sorted(unit.rglob("*"))
        if folder.is_dir()
        and not folder.name.startswith(("__", "."))
        and any(folder.glob("test_*.py"))
        and not (PACKAGE / folder.relative_to(unit)).is_dir()
        and not (PACKAGE / folder.relative_to(unit)).with_suffix(".py").exists()
    ]
    assert not strays
