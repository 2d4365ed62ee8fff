"""What the program settles for its own process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from capture_analyzer.cli import process


def test_what_somebody_chose_stays(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    monkeypatch.setenv("NUMPY_MADVISE_HUGEPAGE", "1")
    process.settle_numpy()
    assert process.os.environ["OPENBLAS_NUM_THREADS"] == "3"
    assert process.os.environ["NUMPY_MADVISE_HUGEPAGE"] == "1"


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_numpy_starts_no_threads():
    program = (
        "from capture_analyzer.cli import process\n"
        "process.settle_numpy()\n"
        "process.keep_freed_memory()\n"
        "import os\n"
        "print(len(os.listdir('/proc/self/task')))\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert result.stdout.split() == [b"1"]
