"""What the program writes depends on the capture alone, and gives no secret away."""

from __future__ import annotations

import base64
import getpass
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "captures"
INCIDENT = CAPTURES / "llm-incident.pcap"

ALL_CAPTURES = sorted(
    path for path in CAPTURES.glob("**/*") if path.suffix in {".pcap", ".pcapng", ".gz"}
)
OUTPUTS = ("out.html", "out.json", "out.csv")
OPTIONS = ("-o", "out.html", "--json", "out.json", "--packets", "out.csv")


def analyse(capture: str | Path, folder: Path, **environment: str) -> dict[str, bytes]:
    """Every output of one run in a folder, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "capture_analyzer", "analyze", capture, *OPTIONS],
        capture_output=True,
        check=False,
        cwd=folder,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    outputs = {name: (folder / name).read_bytes() for name in OUTPUTS}
    return {**outputs, "stdout": done.stdout, "stderr": done.stderr}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return analyse(INCIDENT, tmp_path_factory.mktemp("reference") / "a", PYTHONHASHSEED="0")


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("hash seed", {"PYTHONHASHSEED": "4242"}),
        ("time zone", {"PYTHONHASHSEED": "1", "TZ": "Pacific/Auckland"}),
        ("locale", {"PYTHONHASHSEED": "2", "LANG": "de_DE.UTF-8", "LC_ALL": "C.UTF-8"}),
        ("plain locale", {"PYTHONHASHSEED": "3", "LC_ALL": "C", "TZ": "America/St_Johns"}),
        ("optimised", {"PYTHONHASHSEED": "4", "PYTHONOPTIMIZE": "1"}),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_bytes_do_not_depend_on_the_machine(
    name: str, environment: dict[str, str], reference: dict[str, bytes], tmp_path: Path
) -> None:
    outputs = analyse(INCIDENT, tmp_path / "a", **environment)
    assert {key for key in outputs if outputs[key] != reference[key]} == set(), name


def test_bytes_do_not_depend_on_the_folder(reference: dict[str, bytes], tmp_path: Path) -> None:
    elsewhere = tmp_path / "a folder with spaces"
    elsewhere.mkdir()
    (elsewhere / INCIDENT.name).write_bytes(INCIDENT.read_bytes())
    outputs = analyse(INCIDENT.name, elsewhere)
    assert {name for name in outputs if outputs[name] != reference[name]} == set()


@pytest.mark.parametrize("capture", ALL_CAPTURES, ids=lambda path: str(path.relative_to(CAPTURES)))
def test_outputs_hold_no_secret_and_no_path(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from capture_analyzer.cli.main import main

    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["analyze", str(capture), *OPTIONS], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    outputs = {name: (tmp_path / name).read_bytes() for name in OUTPUTS}
    outputs["terminal"] = done.output_bytes
    secrets = [
        line.split()[2]
        for keys in CAPTURES.glob("**/*.keys")
        for line in keys.read_text(encoding="ascii").splitlines()
        if len(line.split()) == 3 and not line.startswith("#")
    ]
    assert secrets, "nothing would be looked for"
    forbidden = [
        spelling
        for secret in secrets
        for spelling in (
            secret.lower().encode(),
            secret.upper().encode(),
            base64.b64encode(bytes.fromhex(secret)),
            bytes.fromhex(secret),
        )
    ]
    forbidden += [str(ROOT).encode(), str(tmp_path).encode(), str(Path.home()).encode() + b"/"]
    if len(socket.gethostname()) > 5:
        forbidden.append(socket.gethostname().encode())
    if len(getpass.getuser()) > 5:
        forbidden.append(getpass.getuser().encode())
    for name, content in outputs.items():
        leaked = [text for text in forbidden if text in content]
        assert not leaked, f"{name} gives away {leaked[:3]}"
