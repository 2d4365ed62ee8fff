"""What the program settles for its own process: a library must leave these to its user."""

from __future__ import annotations

import gc
import os
from typing import Final

_LARGEST_KEPT: Final = (32 << 20) - (64 << 10)
"""A little under the largest block that glibc's allocator keeps when it is freed
(DEFAULT_MMAP_THRESHOLD_MAX on 64-bit systems, mallopt(3))."""


def one_thread() -> None:
    """Keep NumPy from starting threads; to be called before it is imported.

    They would serve linear algebra, of which there is none here, and they wait busily at first.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def collect_no_garbage() -> None:
    """Leave cycles of garbage alone: there are few, and the process ends soon.

    To look for them means to go through all rows of all tables, again and again.
    """
    gc.disable()


def keep_freed_memory() -> None:
    """Have the memory of freed arrays used again rather than given back to the system.

    Each array of millions of packets would otherwise get fresh pages, which the system must
    clear first: a tenth of all time. glibc settles by the largest block freed so far what it
    gives back (M_MMAP_THRESHOLD in mallopt(3)), so one block is taken and freed, without
    being touched. Elsewhere this changes nothing.
    """
    import numpy as np

    np.empty(_LARGEST_KEPT, np.uint8)
