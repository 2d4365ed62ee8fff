"""What the documents say is there is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    ROOT / name
    for name in ("README.md", "CONTRIBUTING.md", "captures/README.md", "reports/README.md")
]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commands(path: Path) -> list[list[str]]:
    """Commands of ours in a document's code blocks, as words."""
    found = []
    for block in re.findall(r"^```\w*\n(.*?)^```", path.read_text("utf-8"), re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            words = line.partition("#")[0].removeprefix("$ ").split()
            if words and (re.match(r"scripts/\w", words[0]) or words[0] == "capture-analyzer"):
                found.append(words)
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_scripts_in_documents_exist(path: Path) -> None:
    for words in commands(path):
        if words[0].startswith("scripts/"):
            script = ROOT / words[0]
            assert script.is_file(), words[0]
            assert os.access(script, os.X_OK), f"{words[0]} can't be run"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text("utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_options_in_documents_exist(path: Path) -> None:
    from capture_analyzer.cli.main import main

    known: dict[str, set[str]] = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in main.commands.items()
    }
    for words in commands(path):
        arguments = words[1:]
        if words[0] == "scripts/analyze" and arguments and arguments[0] not in known:
            arguments = ["analyze", *arguments]
        elif words[0] != "capture-analyzer" and words[0] != "scripts/analyze":
            continue
        if not arguments or arguments[0].startswith("-"):
            continue
        assert arguments[0] in known, words
        used = {word.partition("=")[0] for word in arguments[1:] if re.match(r"--?[a-z]", word)}
        assert used <= known[arguments[0]], words


def test_readme_lists_every_option() -> None:
    from capture_analyzer.cli.main import main

    parameters = main.commands["analyze"].params
    names = {option for p in parameters for option in p.opts if option.startswith("-")}
    rows = re.findall(r"^\| (`-.*?) \| ", (ROOT / "README.md").read_text("utf-8"), re.M)
    table = [row for row in rows if not row.startswith(("`-i", "`-n`", "`-s ", "`-C", "`-Z"))]
    assert set(re.findall(r"`(--?[a-z-]+)", " ".join(table))) == names - {"--help", "-h"}


def test_every_capture_is_explained() -> None:
    text = (ROOT / "captures" / "README.md").read_text("utf-8")
    missing = [
        name
        for path in sorted((ROOT / "captures").rglob("*"))
        if path.suffix in {".pcap", ".pcapng", ".gz"}
        and (name := path.name) not in text
        and path.stem not in text
    ]
    assert not missing


def test_generated_documents_are_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_docs", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_changelog_has_the_version() -> None:
    from capture_analyzer.version import __version__

    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
