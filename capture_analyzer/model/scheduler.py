"""Who does work that falls into independent units: the interface, and its plainest form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Unit = TypeVar("Unit")
Result = TypeVar("Result")


class Scheduler(Protocol):
    """Has units of work done. The results are the same whoever does it, and where."""

    def map(self, work: Callable[[Unit], Result], units: Sequence[Unit]) -> Iterator[Result]:
        """Do all units.

        Args:
            work: does one. It may run in another process: what it writes is seen only if it
                lies in shared memory (see `Room`), and its result must be possible to pickle.
            units: the units.

        Returns:
            Their results, in the order of the units. Work begins when the first is asked for.

        Raises:
            WorkerError: a worker died or failed.
        """
        ...


class InProcess:
    """Does one unit after the other, in the caller's process."""

    def map(self, work: Callable[[Unit], Result], units: Sequence[Unit]) -> Iterator[Result]:
        """As in `Scheduler`; what `work` raises is raised as it is."""
        return map(work, units)
