"""The files of a folder that a search looks at, found without ripgrep but as ripgrep finds them.

Ignored files are left out (ignore_files.py), hidden ones too unless they are asked for, links and
all that is no regular file always. Runs in a process of its own (grep_fallback.py), so it may
block.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

from .ignore_files import IgnoreLevel, root_levels

__all__ = ["walk"]

_Kind = Literal["file", "folder", "link"]


def walk(
    folder: str, *, hidden: bool, unreadable: list[str], others: bool = False
) -> Iterator[str]:
    """The paths, relative to *folder* with forward slashes, in the order of their parts' bytes.

    *folder* is a real path. Folders that cannot be read are added to *unreadable*. With *hidden*
    all but `.git` is looked at. With *others* the folders, with a slash, and the links come in place
    of the files.
    """
    levels = [_open(folder, root_levels(folder), "", hidden, unreadable)]
    while levels:
        level, names = levels[-1]
        entry = next(names, None)
        if entry is None:
            levels.pop()
            continue
        path, kind = entry
        is_folder = kind == "folder"
        full = os.path.join(folder, path)
        if level.ignores(full, is_folder=is_folder):
            continue
        if is_folder:
            levels.append(_open(full, level, path, hidden, unreadable))
            if others:
                yield f"{path}/"
        elif others == (kind == "link"):
            yield path


def _open(
    folder: str, above: IgnoreLevel | None, path: str, hidden: bool, unreadable: list[str]
) -> tuple[IgnoreLevel, Iterator[tuple[str, _Kind]]]:
    """The rules of *folder*, and what is in it: each path, and what it is."""
    found: list[tuple[bytes, str, _Kind]] = []
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                names.append(name)
                if name.startswith(".") and (not hidden or name == ".git"):
                    continue
                kind = _kind(entry)
                if kind is not None:
                    found.append((os.fsencode(name), name, kind))
    except OSError:
        unreadable.append(path or ".")
    found.sort()
    prefix = f"{path}/" if path else ""
    paths: list[tuple[str, _Kind]] = [(prefix + name, kind) for _, name, kind in found]
    return IgnoreLevel(folder, above, names), iter(paths)


def _kind(entry: os.DirEntry[str]) -> _Kind | None:
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    if entry.is_file(follow_symlinks=False):
        return "file"
    return "link" if entry.is_symlink() else None
