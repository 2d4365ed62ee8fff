"""Progress of long work on standard error, for a person who waits at a terminal."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_S: Final = 1.0  # who waits less needs no bar


class ProgressBar:
    """A bar that appears once work has taken `PATIENCE_S`, and leaves nothing behind.

    Called as a `model.progress.Progress`. Silent where standard error is no terminal.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        terminal = sys.stderr.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}
        self._silent = quiet or not terminal
        self._begin = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, step: str, done: int, total: int) -> None:
        """Show that `done` of `total` of a step is done."""
        if self._silent or (self._bar is None and time.monotonic() - self._begin < PATIENCE_S):
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(step)
            self._bar.start()
        assert self._task is not None
        self._bar.update(self._task, description=step, completed=done, total=max(total, 1))
