"""Columns of rows' optional values: an instant that does not exist is NO_TIME, a packet 0."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capture_analyzer.model.column import NO_TIME


def columns(rows: Sequence[object], names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Attributes of rows, two at least, by name.

    Each row is visited once: rows lie all over the memory, and to come to one is what takes time.
    """
    values = zip(*map(attrgetter(*names), rows), strict=True) if rows else ((),) * len(names)
    return dict(zip(names, values, strict=True))


def instants(values: Sequence[int | None]) -> NDArray[np.int64]:
    """A column of instants, durations or offsets."""
    return np.array([NO_TIME if value is None else value for value in values], np.int64)


def packet_column(values: Sequence[int | None]) -> NDArray[np.int32]:
    """A column of packet numbers."""
    return np.array([value or 0 for value in values], np.int32)
