"""What the program settles for its own process: a library must leave these to its user."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import Final, NoReturn

_LARGEST_BLOCK: Final = 32 << 20
"""Largest block that glibc's allocator can be told to take from its heap on 64-bit systems
(DEFAULT_MMAP_THRESHOLD_MAX, mallopt(3)); larger ones always come from the system and go back."""

_M_TRIM_THRESHOLD: Final = -1  # numbers of mallopt's parameters: <malloc.h> of glibc
_M_MMAP_THRESHOLD: Final = -3


def settle_numpy() -> None:
    """Settle what NumPy takes from the environment; to be called before it is imported.

    No threads: they would serve linear algebra, of which there is none here, and they wait busily
    at first. No big pages: the system may have to move others' memory about to find one, which
    takes longer than they save.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")


def collect_no_garbage() -> None:
    """Leave cycles of garbage alone: there are few, and the process ends soon.

    To look for them means to go through all rows of all tables, again and again.
    """
    gc.disable()


def keep_freed_memory() -> None:
    """Have the memory of freed arrays used again.

    Arrays of millions of packets come and go. Each would get fresh pages from the system,
    which must clear them first and hand them out one by one: a tenth of all time. Without glibc
    nothing happens.
    """
    import ctypes  # NumPy has loaded it already

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is None:
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def end(code: int) -> NoReturn:
    """End the process with this exit code, what it printed being written.

    At once, without taking everything apart first: to free millions of objects one by one takes
    a tenth of all time, and the system frees them anyway. Nothing here waits for the
    interpreter's end: files are closed where they are used, and temporary ones have no name.
    """
    with contextlib.suppress(OSError):  # nobody can be told
        sys.stderr.flush()
    os._exit(code)
