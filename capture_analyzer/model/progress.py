"""How long work tells its caller how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called as progress(step, done, total): what is being done, and how much of how much.

Called often enough for a person to see movement (some ten times a second at most is
shown), from the thread that called the analyser.
"""


def silent(step: str, done: int, total: int) -> None:
    """Report nothing."""
