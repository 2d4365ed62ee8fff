"""Tables that are worked out only when somebody asks for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Self


@dataclasses.dataclass(slots=True)
class Deferred:
    """A table that is empty until `complete` is called: it may have a row for every packet."""

    unfinished: Callable[[Any], None] | None = None  # works its rows out

    def complete(self) -> Self:
        """Work out the rows; cheap the second time."""
        if self.unfinished is not None:
            finish, self.unfinished = self.unfinished, None
            finish(self)
        return self

    def take(self, rows: Self) -> None:
        """Make the columns of another table of this kind one's own."""
        for field in dataclasses.fields(self):
            if field.metadata:
                setattr(self, field.name, getattr(rows, field.name))
