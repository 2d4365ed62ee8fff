"""Standard output when nobody reads it any more, or when it finds no place."""

from __future__ import annotations

import os
import sys


def drop() -> None:
    """Say nothing more: whoever read the pipe has seen enough, or the disk is full.

    Python would otherwise complain when it flushes standard output at its end.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
