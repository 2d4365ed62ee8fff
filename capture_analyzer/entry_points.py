"""What other installed packages add to this one, by their entry points."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_USUAL_FINDER: Final = "_frozen_importlib_external"
"""Module of the finder that looks through the folders of `sys.path`."""


def entry_points(group: str) -> Iterable[EntryPoint]:
    """The entry points of a group, as `importlib.metadata` gives them.

    That module takes longer to load than a small capture to analyse, and mostly for nothing:
    it is left alone where no installed package names the group.
    """
    if not may_exist(group):
        return ()
    from importlib import metadata

    return metadata.entry_points(group=group)


def may_exist(group: str) -> bool:
    """Whether an installed package may have entry points of a group; False is certain."""
    for finder in sys.meta_path:
        if hasattr(finder, "find_distributions") and finder.__module__ != _USUAL_FINDER:
            return True
    return any(_may_have(folder or os.curdir, group) for folder in sys.path)


def _may_have(folder: str, group: str) -> bool:
    """Whether a package in a folder may have entry points of a group."""
    try:
        packages = list(os.scandir(folder))
    except FileNotFoundError:
        return False
    except OSError:  # an archive
        return True
    for package in packages:
        if package.name.endswith((".dist-info", ".egg-info")):
            try:
                points = Path(package.path, "entry_points.txt").read_bytes()
            except OSError:
                continue
            if group.encode() in points:
                return True
        elif package.name.endswith(".egg"):  # what is in it lies deeper, or is packed
            return True
    return False
