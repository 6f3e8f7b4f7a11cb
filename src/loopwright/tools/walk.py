"""The files of a folder that a search looks at, found without ripgrep but as ripgrep finds them.

Ignored files are left out (ignore_files.py), hidden ones too unless they are asked for, links and
all that is no regular file always. Runs in a process of its own (grep_fallback.py), so it may
block.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from .ignore_files import IgnoreLevel, root_levels

__all__ = ["walk"]


def walk(folder: str, *, hidden: bool, unreadable: list[str]) -> Iterator[str]:
    """The paths, relative to *folder* with forward slashes, in the order of their parts' bytes.

    *folder* is a real path. Folders that cannot be read are added to *unreadable*. With *hidden*
    all but `.git` is looked at.
    """
    levels = [_open(folder, root_levels(folder), "", hidden, unreadable)]
    while levels:
        level, names = levels[-1]
        entry = next(names, None)
        if entry is None:
            levels.pop()
            continue
        path, is_folder = entry
        full = os.path.join(folder, path)
        if level.ignores(full, is_folder=is_folder):
            continue
        if is_folder:
            levels.append(_open(full, level, path, hidden, unreadable))
        else:
            yield path


def _open(
    folder: str, above: IgnoreLevel | None, path: str, hidden: bool, unreadable: list[str]
) -> tuple[IgnoreLevel, Iterator[tuple[str, bool]]]:
    """The rules of *folder*, and the files and folders in it: each path, and whether a folder."""
    found: list[tuple[bytes, str, bool]] = []
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                names.append(name)
                if name.startswith(".") and (not hidden or name == ".git"):
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder or entry.is_file(follow_symlinks=False):
                    found.append((os.fsencode(name), name, is_folder))
    except OSError:
        unreadable.append(path or ".")
    found.sort()
    prefix = f"{path}/" if path else ""
    return (
        IgnoreLevel(folder, above, names),
        iter([(prefix + name, is_folder) for _, name, is_folder in found]),
    )
