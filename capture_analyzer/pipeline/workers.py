"""Work in several processes.

Workers are forked when there is work and end with it. So they have everything that was known
by then without a copy: the mapped capture, the columns, the units. They take the numbers of
units from a pipe, the caller's process among them, until it is empty. A result comes back
pickled, its arrays beside it, in an unnamed file of the worker's, which is mapped: arrays are
not copied a second time. What workers write into columns is seen if these lie in shared memory
(`Room`).

A worker that finds its parent gone ends. A parent that is interrupted, or fails, ends its
workers first.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import struct
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, Final, NoReturn, TypeVar

from capture_analyzer.errors import CaptureAnalyzerError, WorkerError
from capture_analyzer.model.parcel import put, take
from capture_analyzer.model.room import Room

Unit = TypeVar("Unit")
Result = TypeVar("Result")

MAX_TOKENS: Final = 4096
"""Tokens put into the pipe before the work begins; with four bytes each they fit into any pipe.
If there are more units, a token stands for several."""

FEWEST_PACKETS: Final = 100_000
"""Of a capture from which on it is worth while to start processes: it takes half a second."""

_TOKEN: Final = struct.Struct("=I")
_FRAME: Final = struct.Struct("=cIQQ")  # what, unit, place in the file, bytes
_RESULT: Final = b"R"
_ERROR: Final = b"E"
_DONE: Final = b"D"


def can_fork() -> bool:
    """Whether this system has what workers need (Windows has not)."""
    return hasattr(os, "fork") and sys.platform in ("linux", "darwin")


class Processes:
    """A scheduler with several processes; the caller's is one of them.

    Args:
        jobs: how many processes there may be.
        room: where results lie.
    """

    def __init__(self, jobs: int, room: Room) -> None:
        self._jobs = jobs
        self._room = room

    def map(self, work: Callable[[Unit], Result], units: Sequence[Unit]) -> Iterator[Result]:
        """As in `Scheduler`."""
        return _Run(work, units).results(min(self._jobs, len(units)), self._room)


class _Run:
    """One call of `map`: the tokens, and what came back."""

    def __init__(self, work: Callable[[Any], Any], units: Sequence[Any]) -> None:
        self.work = work
        self.units = units
        self.ready: dict[int, Any] = {}  # results that wait for those before them
        self.given = 0
        self.workers: list[_Worker] = []
        self.tokens = -1
        self.step = max(-(-len(units) // MAX_TOKENS), 1)  # units that a token stands for

    def results(self, processes: int, room: Room) -> Iterator[Any]:
        """Do all units with so many processes."""
        self.tokens, write = os.pipe()
        try:
            with os.fdopen(write, "wb") as pipe:
                for first in range(0, len(self.units), self.step):
                    pipe.write(_TOKEN.pack(first))
            for _ in range(processes - 1):
                self.workers.append(self._start(room))
            for index in self._taken():
                self.ready[index] = self.work(self.units[index])
                self._collect(wait=False)
                yield from self._in_order()
            while self._collect(wait=True):
                yield from self._in_order()
        finally:
            os.close(self.tokens)
            for worker in self.workers:
                worker.end()

    def _taken(self) -> Iterator[int]:
        """Units, as long as there are tokens."""
        while token := os.read(self.tokens, _TOKEN.size):
            (first,) = _TOKEN.unpack(token)
            yield from range(first, min(first + self.step, len(self.units)))

    def _in_order(self) -> Iterator[Any]:
        """Results that wait for no other."""
        while self.given in self.ready:
            yield self.ready.pop(self.given)
            self.given += 1

    def _start(self, room: Room) -> _Worker:
        read, write = os.pipe()
        file = room.file()
        parent = os.getpid()
        with warnings.catch_warnings():
            # From Python 3.12 on there is a warning if any thread runs, such as the one that
            # moves a progress bar. Workers print nothing and take no lock of such a thread.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            self._be_worker(parent, write, file)
        os.close(write)
        return _Worker(pid, read, file)

    def _be_worker(self, parent: int, pipe: int, file: int) -> NoReturn:
        """What a worker does, from its beginning to its end."""
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent has got it, too
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                for index in self._taken():
                    if os.getppid() != parent:
                        os._exit(code)
                    place = put(self.work(self.units[index]), file)
                    os.write(pipe, _FRAME.pack(_RESULT, index, *place))
                os.write(pipe, _FRAME.pack(_DONE, 0, 0, 0))
                code = 0
            except BaseException as error:
                os.write(pipe, _FRAME.pack(_ERROR, 0, *put(_portable(error), file)))
        finally:
            # Nothing of the parent's is to happen twice: no buffer written, no file removed.
            os._exit(code)

    def _collect(self, *, wait: bool) -> bool:
        """Take over what workers have finished, or wait for it; False if all have finished."""
        working = [worker for worker in self.workers if not worker.finished]
        if working:
            ready, _, _ = select.select(working, [], [], None if wait else 0)
            for worker in ready:
                self.ready.update(worker.receive())
        return bool(working)


class _Worker:
    """A worker as its parent sees it.

    Attributes:
        finished: all of its results are here.
    """

    def __init__(self, pid: int, pipe: int, file: int) -> None:
        self._pid = pid
        self._pipe = pipe
        self._file = file
        self._received = b""
        self.finished = False

    def fileno(self) -> int:
        """The pipe, to be waited for."""
        return self._pipe

    def receive(self) -> Iterator[tuple[int, Any]]:
        """Results that have come: (number of the unit, result).

        Raises:
            WorkerError: it failed, or died.
            CaptureAnalyzerError: what it raised on purpose.
        """
        data = os.read(self._pipe, 1 << 16)
        if not data:
            raise WorkerError(self._fate())
        self._received += data
        whole = len(self._received) // _FRAME.size * _FRAME.size
        frames, self._received = self._received[:whole], self._received[whole:]
        for what, index, begin, size in _FRAME.iter_unpack(frames):
            if what == _DONE:
                self.finished = True
            elif what == _ERROR:
                raise take(self._file, begin, size)
            else:
                yield index, take(self._file, begin, size)

    def _fate(self) -> str:
        """How it ended, in words."""
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return f"a worker process ended too early (exit code {code})"
        name = signal.Signals(-code).name
        hint = "; if memory was short, fewer --jobs take less" if -code == signal.SIGKILL else ""
        return f"a worker process was ended by signal {-code} ({name}){hint}"

    def end(self) -> None:
        """End it if it still works, and let nothing of it be left."""
        if self._pid:
            if not self.finished:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
        os.close(self._pipe)
        os.close(self._file)


def _portable(error: BaseException) -> CaptureAnalyzerError:
    """What a worker raised in a form that its parent can raise.

    Only the type and place of what was not raised on purpose: its message could quote the
    capture.
    """
    if isinstance(error, CaptureAnalyzerError):
        with contextlib.suppress(Exception):
            same = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
            assert isinstance(same, CaptureAnalyzerError)
            return same
    import traceback  # seldom needed

    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" in {PurePath(at.filename).name}, line {at.lineno}" for at in last)
    trace = "".join(traceback.format_exception(error))
    return WorkerError(f"a worker process failed: {type(error).__name__}{where}", trace)
