"""The files of a folder that somebody may want to name, found without holding up the screen.

Ignored files are left out as a search leaves them out (tools/ignore_files.py), links are not
followed. What lies near the root is found first, hidden folders last, so that a bound that is met
costs what is least likely to be meant.

Not here: completing what is typed (completion.py).
"""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path

from ...loop.threads import run_in_thread
from ...tools.ignore_files import IgnoreLevel, root_levels

__all__ = ["WorkspaceFiles", "find_files"]

MOST_FILES = 20_000
MOST_SECONDS = 1.0
FRESH_SECONDS = 3.0
"""For so long a list is used again; long enough for a word to be typed."""


class WorkspaceFiles:
    """The list for one folder, kept for a few seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: list[str] = []
        self._found_at: float | None = None

    async def paths(self) -> list[str]:
        """Relative paths with forward slashes, folders with one at the end. Looks in a thread."""
        if self._found_at is None or time.monotonic() - self._found_at > FRESH_SECONDS:
            # Whoever is cancelled leaves the list as it was; the next one looks again.
            self._found = await run_in_thread(find_files, self._folder)
            self._found_at = time.monotonic()
        return self._found


def find_files(
    folder: Path, *, most: int = MOST_FILES, most_seconds: float = MOST_SECONDS
) -> list[str]:
    """Files and folders below *folder*, until there are *most* or the time is over. Blocks."""
    try:
        root = os.path.realpath(folder)
        above = root_levels(root)
    except OSError:
        return []
    until = time.monotonic() + most_seconds
    found: list[str] = []
    waiting = deque([("", above)])
    hidden: deque[tuple[str, IgnoreLevel | None]] = deque()
    while (waiting or hidden) and len(found) < most and time.monotonic() < until:
        path, level = waiting.popleft() if waiting else hidden.popleft()
        for name, is_folder, below in _names(root, path, level):
            found.append(f"{path}{name}/" if is_folder else f"{path}{name}")
            if is_folder:
                (hidden if name.startswith(".") else waiting).append((f"{path}{name}/", below))
    return found[:most]


def _names(
    root: str, path: str, above: IgnoreLevel | None
) -> list[tuple[str, bool, IgnoreLevel | None]]:
    """What is in the folder *path*: each name, whether it is a folder, the rules for below it."""
    full = os.path.join(root, path)
    try:
        with os.scandir(full) as entries:
            listed = list(entries)
    except OSError:  # it may not be read, or is gone by now
        return []
    level = IgnoreLevel(full.rstrip(os.sep) or os.sep, above, [entry.name for entry in listed])
    found: list[tuple[str, bool, IgnoreLevel | None]] = []
    for entry in listed:
        if entry.name == ".git" or not entry.name.isprintable():
            continue
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            wanted = is_folder or entry.is_file()
        except OSError:
            continue
        if wanted and not level.ignores(os.path.join(full, entry.name), is_folder=is_folder):
            found.append((entry.name, is_folder, level))
    found.sort(key=lambda one: (one[0].startswith("."), one[0].casefold()))
    return found
