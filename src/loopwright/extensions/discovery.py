"""Where extensions may be: installed packages that announce some, and the files of a project.

Looking runs nothing of what is found.

Not here: loading them (loading.py).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "Announced", "announced", "extensions_folder", "project_files"]

GROUP = "loopwright.extensions"
"""The group of entry points in which packages announce extensions."""


class Announced(NamedTuple):
    """An entry point, and the package that has it."""

    name: str
    package: str
    entry_point: EntryPoint


def announced(*, but_not_in: Path | None = None) -> tuple[list[Announced], list[str]]:
    """The extensions of installed packages, by name, and what was wrong with some packages.

    *but_not_in* is a folder that may be on `sys.path` and whose word does not count: with
    `python -m loopwright` it is the working folder, which may be anybody's.

    The folders of `sys.path` are searched for our group by hand. importlib.metadata takes 40 times
    as long to say that there is none, mostly for being imported.
    """
    found: list[Announced] = []
    faults: list[str] = []
    seen: set[str] = set()
    for folder in sys.path:
        if but_not_in is not None and _same(folder or os.curdir, but_not_in):
            continue
        for package, info in _packages(folder or os.curdir):
            if package in seen:  # as with modules, the first on the path is the one there is
                continue
            seen.add(package)
            if not _mentions_us(info):
                continue
            try:
                found += _entry_points(package, info)
            except Exception as error:  # noqa: BLE001 - a file of somebody's, in any state
                faults.append(f"the entry points of the package {package} cannot be read: {error}")
    return sorted(found, key=lambda each: (each.name, each.package)), faults


def _packages(folder: str) -> Iterator[tuple[str, Path]]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # a zip file, or a folder that is not there
        return
    for name in names:
        if name.endswith((".dist-info", ".egg-info")):
            package = re.split(r"-\d", name.rpartition(".")[0])[0]
            yield re.sub(r"[-_.]+", "-", package).lower(), Path(folder, name)


def _mentions_us(info: Path) -> bool:
    try:
        return GROUP.encode() in (info / "entry_points.txt").read_bytes()
    except OSError:  # it has none, as most
        return False


def _entry_points(package: str, info: Path) -> list[Announced]:
    from importlib.metadata import PathDistribution

    of_ours = PathDistribution(info).entry_points.select(group=GROUP)
    return [Announced(point.name, package, point) for point in of_ours]


def _same(folder: str, other: Path) -> bool:
    try:
        return os.path.samefile(folder, other)
    except OSError:
        return False


def extensions_folder(project: Path) -> Path:
    """Where a project keeps extensions of its own."""
    return project / ".loopwright" / "extensions"


def project_files(project: Path) -> tuple[list[Path], list[str]]:
    """The files of *project* that are extensions: `*.py`, and `__init__.py` one folder below.

    Names that begin with `_` or `.` are left out. So are, with a fault, files and folders of other
    users: that a project is trusted is the word of one user.
    """
    folder = extensions_folder(project)
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    except OSError as error:
        return [], [f"{folder} cannot be listed: {error.strerror or error}"]
    files: list[Path] = []
    faults: list[str] = []
    for name in names:
        path = folder / name
        file = path if name.endswith(".py") else path / "__init__.py"
        if name.startswith(("_", ".")) or not os.path.lexists(file):
            continue
        if stranger := _of_another_user(file, up_to=project):
            faults.append(f"extension {file} was not loaded: {stranger} is another user's")
        else:
            files.append(file)
    return files, faults


def _of_another_user(file: Path, *, up_to: Path) -> Path | None:
    """The first of *file* and the folders it lies in that is neither the user's nor root's."""
    if os.name != "posix":  # strangers are kept out by other means there
        return None
    for path in (file, *file.parents):
        if path == up_to:
            return None
        for found in (os.lstat(path), os.stat(path)) if path.exists() else (os.lstat(path),):
            if found.st_uid not in (os.geteuid(), 0):
                return path
    return None
