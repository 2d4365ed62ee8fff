"""Processes: results as from one process, and nothing left behind when something goes wrong."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from capture_analyzer.errors import OptionError, TwoPointsError, WorkerError
from capture_analyzer.model.room import Room
from capture_analyzer.model.scheduler import InProcess
from capture_analyzer.pipeline import workers
from capture_analyzer.pipeline.workers import Processes, can_fork

pytestmark = pytest.mark.skipif(not can_fork(), reason="workers are forked")


@dataclasses.dataclass
class Row:
    """Something that is no array."""

    number: int
    text: str


def slowly(number: int) -> tuple[int, int]:
    """So slow that nobody does all units; returns who did it."""
    time.sleep(0.01)
    return number, os.getpid()


@pytest.fixture(autouse=True)
def nobody_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No worker is left behind, not even a dead one; children of other tests don't count."""
    forked: list[int] = []
    fork = os.fork

    def noted() -> int:
        number = fork()
        if number:
            forked.append(number)
        return number

    monkeypatch.setattr(os, "fork", noted)
    yield
    for number in forked:
        with pytest.raises(ChildProcessError):
            os.waitpid(number, os.WNOHANG)


def test_results_come_in_the_order_of_the_units() -> None:
    found = list(Processes(3, Room()).map(slowly, range(60)))
    assert [number for number, _ in found] == list(range(60))
    assert len({pid for _, pid in found}) == 3
    assert os.getpid() in {pid for _, pid in found}


def test_rows_and_arrays_come_back_as_they_are() -> None:
    def work(size: int) -> tuple[list[Row], NDArray[np.int64], NDArray[np.bool_], str]:
        numbers = np.arange(size, dtype=np.int64) * size
        return [Row(size, "é")] * 2, numbers, numbers[::2] % 2 == 0, "x" * size

    sizes = [0, 1, 7, 4096, 100_003] * 3
    for one, other in zip(
        Processes(2, Room()).map(work, sizes), InProcess().map(work, sizes), strict=True
    ):
        assert one[0] == other[0]
        assert one[0][0] is one[0][1]
        for mine, expected in zip(one[1:3], other[1:3], strict=True):
            assert mine.dtype == expected.dtype
            assert mine.tolist() == expected.tolist()
            mine[:] = 0  # what follows changes tables in place
        assert one[3] == other[3]


def test_more_units_than_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_TOKENS", 7)
    assert list(Processes(2, Room()).map(abs, range(-100, 1))) == list(range(100, -1, -1))


def test_fewer_units_than_processes() -> None:
    assert list(Processes(8, Room()).map(abs, [-1, -2])) == [1, 2]
    assert list(Processes(8, Room()).map(abs, [])) == []


def test_columns_in_shared_memory_are_written_by_all() -> None:
    column = Room(shared=True).zeros(64, np.int64)

    def work(index: int) -> None:
        time.sleep(0.005)
        column[index] = index + 1

    list(Processes(2, Room()).map(work, range(64)))
    assert column.tolist() == list(range(1, 65))


def test_results_are_given_while_work_goes_on() -> None:
    parent = os.getpid()
    done = Room(shared=True).zeros(20, np.bool_)

    def work(number: int) -> int:
        time.sleep(0.01)
        done[number] = True
        return number

    for number in Processes(2, Room()).map(work, range(20)):
        if number == 5:
            break
    assert not done.all()
    assert os.getpid() == parent


def in_worker(parent: int) -> bool:
    """Whether this is a worker; the parent is kept so long that a worker gets a turn."""
    if os.getpid() != parent:
        return True
    time.sleep(0.05)
    return False


def test_a_killed_worker_is_one_error_and_leaves_nothing() -> None:
    parent = os.getpid()

    def work(number: int) -> int:
        if in_worker(parent):
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with pytest.raises(
        WorkerError, match=r"signal 9 \(SIGKILL\); if memory was short, fewer --jobs"
    ):
        list(Processes(3, Room()).map(work, range(12)))


def test_a_worker_that_exits_is_an_error() -> None:
    parent = os.getpid()

    def work(number: int) -> int:
        if in_worker(parent):
            os._exit(3)
        return number

    with pytest.raises(WorkerError, match="exit code 3"):
        list(Processes(2, Room()).map(work, range(12)))


def test_a_worker_that_raises_says_where_but_not_what() -> None:
    parent = os.getpid()

    def work(number: int) -> int:
        if in_worker(parent):
            raise ValueError("the capture's own words")
        return number

    with pytest.raises(
        WorkerError, match=r"failed: ValueError in test_workers\.py, line \d+"
    ) as got:
        list(Processes(2, Room()).map(work, range(12)))
    assert "own words" not in str(got.value)
    assert "own words" in got.value.trace


@pytest.mark.parametrize("error", [OptionError("no such option"), TwoPointsError("a", "b")])
def test_what_is_raised_on_purpose_is_an_error_of_ours(error: Exception) -> None:
    parent = os.getpid()

    def work(number: int) -> int:
        if in_worker(parent):
            raise error
        return number

    with pytest.raises((type(error), WorkerError)):
        list(Processes(2, Room()).map(work, range(12)))


def test_an_error_of_the_parent_ends_the_workers_at_once() -> None:
    parent = os.getpid()

    def work(number: int) -> int:
        if os.getpid() != parent:
            time.sleep(60)
        raise KeyboardInterrupt

    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(Processes(3, Room()).map(work, range(12)))
    assert time.monotonic() - begin < 30


ENDLESS = """
import os, signal, sys, time
from capture_analyzer.model.room import Room
from capture_analyzer.pipeline.workers import Processes

# A shell without a terminal lets what it starts in the background ignore the interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

def work(number):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(0.2 if {short} else 60)

list(Processes(2, Room()).map(work, range({units})))
"""


@contextlib.contextmanager
def started(*, units: int, short: bool) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A process that works with another one, and the numbers of both."""
    program = ENDLESS.format(units=units, short=short)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            pids: set[int] = set()
            while len(pids) < 2:
                pids.add(int(process.stdout.readline()))
            yield process, sorted(pids)
        finally:
            process.kill()


def gone(pid: int) -> bool:
    """Whether a process ends within some time."""
    for _ in range(300):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_an_interrupt_from_the_terminal_ends_all() -> None:
    with started(units=100, short=False) as (process, pids):
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert errors.count("KeyboardInterrupt") == 1  # of the parent alone
    assert all(map(gone, pids))


def test_workers_end_when_their_parent_was_killed() -> None:
    with started(units=100_000, short=True) as (process, pids):
        process.kill()
        process.communicate(timeout=60)
    assert all(map(gone, pids))
