"""Which folders speak to an agent that works in some folder, and how far each is believed.

A project reaches from the working folder up to the root of its repository. Above that, or where
there is no repository, the folders up to the user's home (or the root of the file system) count
too, but only with files that this user or the superuser owns: anybody may put things into a shared
folder such as /tmp. What lies in a project may be read, but a link in it leads no further than the
project: whoever wrote it does not choose which of the user's other files a vendor gets to see.

Not here: what is looked for in those folders.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .resource_files import Unreadable

__all__ = ["Place", "Scope", "all_places", "project_places", "real_path"]

Scope = Literal["explicit", "project", "user"]
"""Who asked for a file: this call, the project, or the user's own folder."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in which files for an agent may lie."""

    folder: Path
    scope: Scope
    bound: Path | None = None
    """The real folder that no link found here may lead out of; None: they may lead anywhere."""
    only_ours: bool = False
    """Only files of this user or the superuser count."""

    def below(self, *names: str) -> Place:
        """A folder in this one, believed as far."""
        return Place(self.folder.joinpath(*names), self.scope, self.bound, self.only_ours)

    def check(self, path: Path) -> Path:
        """The real path of *path*. Raises `Unreadable` if it may not be read from here."""
        real = real_path(path)
        if self.bound is not None and not real.is_relative_to(self.bound):
            raise Unreadable(
                "outside-project",
                f"a link that leads out of {self.bound}; left out, give its path to use it",
            )
        if self.only_ours and not (_is_ours(path) and _is_ours(real)):
            raise Unreadable("not-ours", "lies above the project and is another user's; left out")
        return real


def project_places(cwd: Path, home: Path | None) -> list[Place]:
    """The folders from *cwd* upwards, nearest first; *cwd* and *home* are real paths, absolute and
    without links, as `load_resources` makes them.

    They end at the root of the repository if *cwd* is in one, else below *home*, else at the root
    of the file system. Home itself counts only if *cwd* is it.
    """
    root = _root(cwd, home)
    places: list[Place] = []
    for place in all_places(cwd, home):
        if places and (place.folder == home or places[-1].folder in (root, home)):
            break
        places.append(place)
    return places


def all_places(cwd: Path, home: Path | None) -> list[Place]:
    """As `project_places`, but always up to the root of the file system, home included."""
    root = _root(cwd, home)
    inside = cwd if root is None else root
    return [
        Place(folder, "project", bound=inside)
        if folder.is_relative_to(inside)
        else Place(folder, "project", bound=folder, only_ours=True)
        for folder in (cwd, *cwd.parents)
    ]


def _root(cwd: Path, home: Path | None) -> Path | None:
    """The root of the repository that *cwd* is in. Like git, believe only one that is ours."""
    for folder in (cwd, *cwd.parents):
        if folder != cwd and folder == home:
            return None  # dotfiles under version control make no project of everything below
        mark = folder / ".git"
        if os.path.lexists(mark) and (folder == cwd or _is_ours(mark)):
            return folder
    return None


def real_path(path: Path) -> Path:
    """*path* without links. Raises `Unreadable` for a link that leads in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a loop, before 3.13
        raise Unreadable("unreadable", f"cannot be followed: {error}") from error


def _is_ours(path: Path) -> bool:
    if not hasattr(os, "getuid"):
        return True  # Windows keeps strangers out of folders by other means
    try:
        return os.lstat(path).st_uid in (os.getuid(), 0)
    except OSError:
        return False
