"""Results appear whole or not at all, and special files are written through."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from capture_analyzer.errors import OutputError
from capture_analyzer.exporters.catalogue import exporters
from capture_analyzer.exporters.destination import check, open_text, write_bytes


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    with open_text(path) as file:
        file.write("né")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_bytes() == "né".encode()
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failed_run_leaves_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def fail() -> None:
        with open_text(path) as file:
            file.write("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.json"]


def test_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "new", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    write_bytes(tmp_path / "new", b"y")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_pipe_is_written_through(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    write_bytes(path, b"through")
    reader.join(10)
    assert received == [b"through"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_device_is_written_through() -> None:
    with open_text("/dev/null") as file:
        file.write("nothing")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_standard_output() -> None:
    code = (
        "from capture_analyzer.exporters.destination import open_text, write_bytes\n"
        "with open_text('-') as file: file.write('a')\n"
        "write_bytes('-', b'b')\n"
        "with open_text('/dev/stdout') as file: file.write('c')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"abc"


@pytest.mark.parametrize("target", ["missing/a.json", "."])
def test_what_cannot_be_written(target: str, tmp_path: Path) -> None:
    path = tmp_path / target
    with pytest.raises(OutputError, match="can't write"):
        check(path)
    with pytest.raises(OutputError, match="can't write"):
        write_bytes(path, b"x")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_disk_is_one_sentence() -> None:
    with pytest.raises(OutputError, match="/dev/full: No space left on device"):
        write_bytes("/dev/full", b"x" * 3_000_000)


def test_check_does_not_touch_anything(tmp_path: Path) -> None:
    check(tmp_path / "a.json")
    check("-")
    check("/dev/null")
    assert names(tmp_path) == []


def test_exporters_are_found() -> None:
    found = exporters()
    assert list(found) == ["json", "packets"]
    for exporter in found.values():
        assert exporter.meta.title
        assert exporter.meta.suffix.startswith(".")
