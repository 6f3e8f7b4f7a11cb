"""Files with names, gathered from several places: the first of a name wins, the others are reported.

Not here: the order of the places, or what the files mean (skills.py, templates.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from .framing import one_line
from .places import Place
from .resource_files import Diagnostic, Unreadable

__all__ = ["FirstWins", "Named"]


class Named(Protocol):
    """What a file gives: something with a name."""

    @property
    def name(self) -> str: ...

    @property
    def file(self) -> Path: ...


T = TypeVar("T", bound=Named)


class FirstWins(Generic[T]):
    """What was found so far, by name, and what is to be told about the rest."""

    def __init__(self, read: Callable[[Path, Place, list[Diagnostic]], T]) -> None:
        """*read* makes one of a file; it may note things, and raises `Unreadable` for a file that
        gives nothing."""
        self.found: dict[str, T] = {}
        self.notes: list[Diagnostic] = []
        self._read = read
        self._seen: set[Path] = set()

    def add_explicit(self, path: Path, add_folder: Callable[[Place], None]) -> None:
        """Add a file, or all that *add_folder* finds in a folder, because somebody gave its path."""
        if os.path.isdir(path):
            add_folder(Place(path, "explicit"))
        elif os.path.exists(path):
            self.add(path, Place(path.parent, "explicit"))
        else:
            self.notes.append(Diagnostic("not-found", "there is no such file or folder", path))

    def add(self, file: Path, place: Place) -> None:
        """Add *file*, found in *place*. The same real file by another way is no news."""
        try:
            real = place.check(file)
            if real in self._seen:
                return
            self._seen.add(real)
            new = self._read(file, place, self.notes)
        except Unreadable as error:
            self.notes.append(error.of(file))
            return
        first = self.found.setdefault(new.name, new)
        if first is not new:
            told = f"the name {one_line(new.name)!r} is taken by {first.file}; left out"
            self.notes.append(Diagnostic("name-collision", told, file))
