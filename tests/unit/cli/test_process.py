"""What the program settles for its own process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from capture_analyzer.cli import process


def test_number_of_threads_that_somebody_chose_stays(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    process.one_thread()
    assert process.os.environ["OPENBLAS_NUM_THREADS"] == "3"


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_numpy_starts_no_threads():
    program = (
        "from capture_analyzer.cli import process\n"
        "process.one_thread()\n"
        "process.keep_freed_memory()\n"
        "import os\n"
        "print(len(os.listdir('/proc/self/task')))\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert result.stdout.split() == [b"1"]
