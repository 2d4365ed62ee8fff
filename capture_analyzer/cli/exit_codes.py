"""Exit codes of the program; scripts rely on them."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
MISSED: Final = 1  # a finding at the level of --fail-on, or above
USAGE: Final = 2  # the command line can't be carried out as it stands
UNREADABLE: Final = 3  # an input can't be read
INTERNAL: Final = 4  # a mistake in this program
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells count
