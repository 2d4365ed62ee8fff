"""The scripts of the first minute: what they do on machines that lack something."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASH = shutil.which("bash") or "/bin/bash"
NEEDED = ["bash", "dirname", "id", "cat", "sha256sum", "flock", "mkdir", "rm", "tail"]

FAKE = """#!{bash}
case "$*" in
*import\\ pip*) exit 0 ;;
*version_info*) echo {version} ;;
*ensurepip*) exit {ensurepip} ;;
-m\\ venv*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; echo made >&2 ;;
-m\\ pip*)
    echo "$*" >>"$FAKE_LOG"
    if [ "$FAKE_FAIL" ]; then echo "no route to the index"; exit 1; fi
    if [ -e "$FAKE_HANG" ]; then rm "$FAKE_HANG"; kill -9 $PPID; fi
    printf '#!{bash}\\nprintf "ran"; printf " [%%s]" "$@"\\n' >"${{0%/*}}/capture-analyzer"
    chmod +x "${{0%/*}}/capture-analyzer" ;;
esac
"""


class Machine:
    """A copy of the scripts, and a PATH with nothing but what is put there."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "a project"
        self.bin = folder / "bin"
        (self.project / "scripts").mkdir(parents=True)
        self.bin.mkdir()
        for name in ("analyze", "setup-common"):
            shutil.copy(ROOT / "scripts" / name, self.project / "scripts" / name)
        for name in ("pyproject.toml", "requirements.lock", "requirements-build.lock"):
            shutil.copy(ROOT / name, self.project / name)
        for name in [*NEEDED, "cp", "chmod"]:
            (self.bin / name).symlink_to(shutil.which(name) or name)
        self.hang = folder / "hang"
        self.log = folder / "pip"
        self.offline = False

    def add_python(self, name: str, version: str, *, ensurepip: bool = True) -> None:
        path = self.bin / name
        path.write_text(FAKE.format(bash=BASH, version=version, ensurepip=0 if ensurepip else 1))
        path.chmod(0o755)

    def add_apt(self) -> None:
        (self.bin / "apt-get").write_text(f"#!{BASH}\nexit 1\n")
        (self.bin / "apt-get").chmod(0o755)

    def run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        environment = {
            "PATH": str(self.bin),
            "FAKE_HANG": str(self.hang),
            "FAKE_LOG": str(self.log),
            "FAKE_FAIL": "yes" if self.offline else "",
        }
        return subprocess.run(
            [BASH, self.project / "scripts" / "analyze", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd or self.project,
            env=environment,
            stdin=subprocess.DEVNULL,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_no_python(machine: Machine) -> None:
    machine.add_apt()
    done = machine.run("x.pcap")
    assert done.returncode != 0
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "apt-get install python3 python3-venv" in done.stderr
    assert not (machine.project / ".venv").exists()


def test_python_too_old(machine: Machine) -> None:
    machine.add_python("python3", "3.9")
    done = machine.run("x.pcap")
    assert done.returncode != 0
    assert "Python 3.11 or newer is needed" in done.stderr


def test_venv_package_missing(machine: Machine) -> None:
    machine.add_python("python3", "3.12", ensurepip=False)
    done = machine.run("x.pcap")
    assert done.returncode != 0
    sudo = "" if os.getuid() == 0 else "sudo "
    assert f"\n    {sudo}apt-get install python3.12-venv\n" in done.stderr
    assert not (machine.project / ".venv").exists()


def test_old_python3_beside_a_newer_one(machine: Machine) -> None:
    machine.add_python("python3", "3.10")
    machine.add_python("python3.13", "3.13")
    done = machine.run("x.pcap")
    assert done.returncode == 0, done.stderr


def test_second_run_sets_nothing_up(machine: Machine) -> None:
    machine.add_python("python3", "3.11")
    first = machine.run("x.pcap", "-o", "o ut.html")
    assert first.returncode == 0, first.stderr
    assert first.stdout == "ran [analyze] [x.pcap] [-o] [o ut.html]"
    assert "--require-hashes" in machine.log.read_text()
    second = machine.run("explain", "tcp/syn-retransmission", cwd=machine.bin)
    assert second.stdout == "ran [explain] [tcp/syn-retransmission]"
    assert second.stderr == ""
    assert machine.log.read_text() == ""


def test_changed_lock_is_installed(machine: Machine) -> None:
    machine.add_python("python3", "3.11")
    machine.run("--version")
    with (machine.project / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    again = machine.run("--version")
    assert again.stdout == "ran [--version]"
    assert "requirements.lock" in machine.log.read_text()


def test_interrupted_set_up_starts_again(machine: Machine) -> None:
    machine.add_python("python3", "3.11")
    machine.hang.touch()
    interrupted = machine.run("--version")
    assert interrupted.returncode != 0
    assert (machine.project / ".venv").exists()
    done = machine.run("--version")
    assert done.returncode == 0, done.stderr
    assert "interrupted" in done.stderr
    assert done.stdout == "ran [--version]"


def test_failure_of_pip_is_shown_and_the_next_run_goes_on(machine: Machine) -> None:
    machine.add_python("python3", "3.11")
    machine.offline = True
    failed = machine.run("--version")
    assert failed.returncode != 0
    assert "no route to the index" in failed.stderr
    assert "Run this again" in failed.stderr
    assert failed.stdout == ""
    machine.offline = False
    assert machine.run("--version").stdout == "ran [--version]"


def test_moved_project_is_set_up_again(machine: Machine) -> None:
    machine.add_python("python3", "3.11")
    machine.run("--version")
    machine.project = machine.project.rename(machine.project.with_name("moved"))
    assert machine.run("--version").stdout == "ran [--version]"
    assert "requirements.lock" in machine.log.read_text()


def test_without_arguments_the_bundled_capture(machine: Machine) -> None:
    machine.add_python("python3", "3.11")
    done = machine.run()
    assert done.stdout == (
        "ran [analyze] [captures/llm-incident.pcap] [-o] [out/llm-incident.html]"
    )
    done = machine.run(cwd=machine.bin)
    assert f"[{machine.project}/captures/llm-incident.pcap]" in done.stdout


def test_script_knows_every_command() -> None:
    from capture_analyzer.cli.main import main

    text = (ROOT / "scripts" / "analyze").read_text("utf-8")
    pattern = re.search(r"^(analyze \|.*?)\)", text, re.M)
    assert pattern
    words = {word.strip() for word in pattern[1].split("|")}
    assert {word for word in words if not word.startswith("-")} == set(main.commands)


SHELL_SCRIPTS = [
    path
    for path in (ROOT / ".ci" / "run", *sorted((ROOT / "scripts").glob("*")))
    if path.is_file() and path.read_text("utf-8").startswith(("#!/usr/bin/env bash", "# Shared"))
]


@pytest.mark.parametrize("path", SHELL_SCRIPTS, ids=lambda path: path.name)
def test_shell_script_parses(path: Path) -> None:
    subprocess.run([BASH, "-n", path], check=True)


def test_shell_scripts_are_found() -> None:
    names = {path.name for path in SHELL_SCRIPTS}
    assert {"run", "analyze", "test", "lock", "setup-common"} <= names
