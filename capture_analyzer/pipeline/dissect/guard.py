"""Keeps a parser's failure to the connection that caused it."""

from __future__ import annotations

from types import TracebackType
from typing import ClassVar

from capture_analyzer.model.anomalies import Anomaly


class Guard:
    """Turns an exception in ``with guard(connection_no):`` into an anomaly.

    A parser must not raise on any input; if one does, that is our mistake, and the rest of
    the analysis must not be lost to it.

    Attributes:
        raises: failures are raised instead. Tests set it, so that none stays hidden.
        anomalies: one for each failure.
    """

    raises: ClassVar[bool] = False

    def __init__(self) -> None:
        self.anomalies: list[Anomaly] = []
        self._connection_no = -1

    def __call__(self, connection_no: int) -> Guard:
        """Guard what follows, for this connection."""
        self._connection_no = connection_no
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None or self.raises or not isinstance(error, Exception):
            return False
        # The type alone: a message could quote the capture.
        self.anomalies.append(
            Anomaly(
                "parser-failed",
                "analyzer",
                f"a parser failed ({type(error).__name__}); the connection is left unread",
                self._connection_no,
            )
        )
        return True
