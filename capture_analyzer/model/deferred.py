"""Tables that are worked out only when somebody asks for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.quick_dataclass import quick_dataclass


@quick_dataclass
class Deferred:
    """A table that is empty until `complete` is called: it may have a row for every packet."""

    # Works its rows out: of these connections, or of all. (Analyses are pickled: no closure.)
    unfinished: Callable[[Any, NDArray[np.int64] | None], None] | None = None

    def complete(self) -> Self:
        """Work out the rows; cheap the second time."""
        if self.unfinished is not None:
            finish, self.unfinished = self.unfinished, None
            finish(self, None)
        return self

    def of(self, connection_nos: Iterable[int]) -> Self:
        """The rows of these connections, or more, without working out the others'."""
        if self.unfinished is None:
            return self
        some = type(self)()
        self.unfinished(some, np.array(sorted(set(connection_nos)), np.int64))
        return some

    def take(self, rows: Self) -> None:
        """Make the columns of another table of this kind one's own."""
        for field in dataclasses.fields(self):
            if field.metadata:
                setattr(self, field.name, getattr(rows, field.name))
