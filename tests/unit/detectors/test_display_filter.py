"""Display filters as Wireshark reads them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from capture_analyzer.detectors.display_filter import frames, tcp_streams


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([7], "frame.number == 7"),
        ([7, 3], "frame.number in {3, 7}"),
        ([1, 2, 5, 6, 7, 9], "frame.number in {1, 2, 5..7, 9}"),
        ([4, 4, 5, 6], "frame.number in {4..6}"),
    ],
)
def test_frames(numbers: list[int], text: str) -> None:
    assert frames(numbers) == text


def test_streams() -> None:
    assert tcp_streams([3, None, 3]) == "tcp.stream == 3"
    assert tcp_streams([None]) == ""
    assert tcp_streams(range(0, 400, 2)).count(",") == 99


@pytest.mark.oracle
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_shows_these_frames(captures: Path) -> None:
    expression = frames([1, 2, 4, 5, 6, 9])
    fields = ["-T", "fields", "-e", "frame.number"]
    shown = subprocess.run(
        ["tshark", "-r", captures / "syn-lost.pcap", "-Y", expression, *fields],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == ["1", "2", "4", "5", "6", "9"]
