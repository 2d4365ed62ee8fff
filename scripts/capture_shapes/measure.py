"""What the analysis of each shape costs, at several sizes."""

from __future__ import annotations

import dataclasses
import itertools
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

_LAUNCHER = """
import os, sys, time
null = os.open(os.devnull, os.O_WRONLY)
process = os.posix_spawnp(
    sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)]
)
most = 0
while True:
    ended, status, usage = os.wait4(process, os.WNOHANG)
    if ended:
        break
    try:
        with open(f"/proc/{process}/status") as file:
            for line in file:
                if line.startswith("RssAnon"):
                    most = max(most, 1024 * int(line.split()[1]))
    except OSError:
        pass
    time.sleep(0.02)
print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, most)
"""
"""Runs a program; its own memory is what isn't of a mapped file (Linux only)."""


class Made(Protocol):
    """A shape: its usual size, a sentence about it, and a way to write one of any size."""

    @property
    def size(self) -> int:
        """The usual size."""
        ...

    @property
    def what(self) -> str:
        """What is in it."""
        ...

    def write(self, target: Path, size: int) -> int:
        """Write one; returns the number of packets."""
        ...


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one analysis took.

    Attributes:
        size: of the shape.
        packets: in the capture.
        cpu_s: user and system time.
        memory_bytes: the most that was in memory beside the mapped file.
        report_bytes: length of the report; 0 if none was made.
    """

    size: int
    packets: int
    cpu_s: float
    memory_bytes: int
    report_bytes: int


def measure(
    root: Path, folder: Path, shape: Made, times: Sequence[float], *, report: bool, repeat: int
) -> list[Cost] | str:
    """Make a shape at several multiples of its usual size, and analyse each; why it failed."""
    costs = []
    for factor in times:
        size = round(shape.size * factor)
        capture, page = folder / "shape.pcap", folder / "shape.html"
        packets = shape.write(capture, size)
        command = [sys.executable, "-m", "capture_analyzer", "analyze", str(capture), "--quiet"]
        command += ["--json", str(folder / "shape.json")]
        command += ["-o", str(page)] if report else []
        runs = []
        for _ in range(repeat):
            result = subprocess.run(
                [sys.executable, "-S", "-c", _LAUNCHER, *command],
                check=False,
                cwd=root,
                capture_output=True,
            )
            code, cpu, memory = result.stdout.split()
            if int(code):
                lines = result.stderr.decode(errors="replace").strip().splitlines()
                return f"failed ({int(code)}): {lines[-1] if lines else 'no message'}"
            runs.append((float(cpu), int(memory)))
        length = page.stat().st_size if report else 0
        costs.append(Cost(size, packets, min(runs)[0], min(run[1] for run in runs), length))
        capture.unlink()
    return costs


def show(name: str, shape: Made, costs: Sequence[Cost]) -> None:
    """Print the costs of a shape; each row's growth is from the row before.

    Growth is the exponent of the packets that both would follow: 1 is linear, less means that
    much is constant.
    """
    print(f"\n{name} ({shape.what})")
    print(
        f"{'size':>10} {'packets':>11} {'CPU s':>8} {'µs/packet':>10} {'MB':>7} "
        f"{'bytes/packet':>13} {'growth of CPU':>14} {'of memory':>10} {'report MB':>10}"
    )
    for before, cost in itertools.pairwise([None, *costs]):
        assert cost is not None
        grown = ["", ""]
        if before is not None:
            more = math.log(cost.packets / before.packets)
            grown = [
                f"{math.log(now / then) / more:.2f}"
                for now, then in (
                    (cost.cpu_s, before.cpu_s),
                    (cost.memory_bytes, before.memory_bytes),
                )
            ]
        print(
            f"{cost.size:10,} {cost.packets:11,} {cost.cpu_s:8.2f} "
            f"{cost.cpu_s / cost.packets * 1e6:10.2f} {cost.memory_bytes / 1e6:7.0f} "
            f"{cost.memory_bytes / cost.packets:13.0f} {grown[0]:>14} {grown[1]:>10} "
            f"{cost.report_bytes / 1e6 if cost.report_bytes else 0:10.1f}"
        )
