"""Several files against mergecap: the same packets in the same order."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from capture_analyzer.model.capture import Capture
from capture_analyzer.readers import open_capture, open_captures

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(
        shutil.which("mergecap") is None or shutil.which("editcap") is None,
        reason="no mergecap here",
    ),
]


def run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


def rows(capture: Capture) -> np.ndarray:
    """Time and lengths of every packet; those of equal times by their lengths.

    Of packets with equal times mergecap takes that of the last file first, we of the first.
    """
    columns = (
        capture.time_ns + capture.epoch_ns,
        capture.captured_bytes.astype(np.int64),
        capture.original_bytes.astype(np.int64),
    )
    runs = np.concatenate(([0], np.cumsum(np.diff(columns[0]) != 0)))
    return np.column_stack(columns)[np.lexsort((columns[1], runs))]


def test_captures_of_different_hosts(captures: Path, tmp_path: Path) -> None:
    names = ["ipv6.pcap", "loss-rto-client.pcap", "vlan.pcap", "nanosecond.pcap", "sll2.pcap"]
    paths = [captures / name for name in names]
    run("mergecap", "-w", tmp_path / "merged", *paths)
    ours, theirs = open_captures(paths), open_capture(tmp_path / "merged")
    assert len(ours.files) == len(names)
    assert (rows(ours) == rows(theirs)).all()


@pytest.mark.parametrize("count", [7, 100])
def test_a_ring_that_has_wrapped_round(captures: Path, tmp_path: Path, count: int) -> None:
    whole = captures / "llm-incident.pcap"
    run("editcap", "-F", "pcap", "-c", count, whole, tmp_path / "part.pcap")
    parts = sorted(tmp_path.iterdir())
    third = len(parts) // 3
    for number, part in enumerate(parts[third:] + parts[:third]):
        part.rename(tmp_path / f"ring{number:03}")
    expected, got = open_capture(whole), open_captures([tmp_path])
    assert len(got.files) == len(parts)
    assert (rows(got) == rows(expected)).all()
    assert got.anomalies == []


@pytest.mark.shared
def test_runs_of_the_lab(lab: Path, tmp_path: Path) -> None:
    paths = [
        lab / run_ / "client.pcap"
        for run_ in ("loss/random", "http1-plain/ipv6", "sse-llm/h1-healthy", "quic-h3/1rtt")
    ]
    shifted = []
    for number, path in enumerate(paths):  # all from the same instant on
        offset = -(open_capture(path).epoch_ns // 10**9) + 1_700_000_000
        shifted.append(tmp_path / f"{number}.pcap")
        run("editcap", "-t", offset, path, shifted[-1])
    run("mergecap", "-w", tmp_path / "merged", *shifted)
    ours, theirs = open_captures(shifted), open_capture(tmp_path / "merged")
    assert (np.diff(ours.file_no.astype(int)) != 0).sum() > 100  # they do run side by side
    assert (rows(ours) == rows(theirs)).all()
