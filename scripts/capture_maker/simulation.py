"""The event loop: a clock in nanoseconds, timers, and processes that sleep and wait.

A process is a generator. It yields an int to sleep so many nanoseconds, or a Signal to wait
until that fires. `yield from` calls a part of a process that returns a value.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator
from typing import Any

US = 1_000
MS = 1_000_000
SECOND = 1_000_000_000

Process = Generator["int | Signal", None, Any]


class Signal:
    """Something that processes wait for; each firing wakes all that wait then."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._waiting: list[Process] = []

    def fire(self) -> None:
        """Wake every process that waits, in the order in which they came, now."""
        waiting, self._waiting = self._waiting, []
        for process in waiting:
            self._simulation.start(process)

    def add(self, process: Process) -> None:
        """Let a process wait."""
        self._waiting.append(process)


class Timer:
    """A call in the future that can be cancelled."""

    __slots__ = ("call", "time_ns")

    def __init__(self, time_ns: int, call: Callable[[], object] | None) -> None:
        self.time_ns = time_ns
        self.call = call

    def cancel(self) -> None:
        """Don't call."""
        self.call = None

    @property
    def pending(self) -> bool:
        """Whether it will still be called."""
        return self.call is not None


class Simulation:
    """A clock and what will happen; events at one instant happen in order of scheduling."""

    def __init__(self) -> None:
        self.now = 0
        self._order = itertools.count()
        self._events: list[tuple[int, int, Timer]] = []

    def after(self, delay_ns: int, call: Callable[[], object]) -> Timer:
        """Call something in `delay_ns` nanoseconds."""
        timer = Timer(self.now + max(0, delay_ns), call)
        heapq.heappush(self._events, (timer.time_ns, next(self._order), timer))
        return timer

    def start(self, process: Process, delay_ns: int = 0) -> None:
        """Start a process."""
        self.after(delay_ns, lambda: self.step(process))

    def step(self, process: Process) -> None:
        """Run a process until it sleeps, waits or ends."""
        try:
            wanted = next(process)
        except StopIteration:
            return
        if isinstance(wanted, int):
            self.after(wanted, lambda: self.step(process))
        else:
            wanted.add(process)

    def run(self, until_ns: int = 600 * SECOND) -> None:
        """Run until nothing is left to do."""
        while self._events:
            time_ns, _, timer = heapq.heappop(self._events)
            if time_ns > until_ns:
                raise RuntimeError("the simulation does not come to an end")
            if timer.call is None:
                continue
            call, timer.call = timer.call, None
            self.now = time_ns
            call()
