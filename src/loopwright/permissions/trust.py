"""Folders whose settings, hooks and extensions may run.

A project brings files that give orders to this program. They are passed over until the user says
that the folder is trusted. Trust is kept by the real path, in a file that only the user may write,
and reaches down: what lies in a trusted folder is trusted, what it lies in is not. A folder of
another user within a trusted one is not, unless it was trusted itself.

Not here: asking, and where the file is (settings).
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, cast

from ..errors import ConfigurationError
from .private_file import PrivateFile

__all__ = ["TrustFile", "TrustFileUnsafe", "what_needs_trust"]

FORMAT = 1

PROJECT_FOLDER = ".loopwright"
GIVES_ORDERS = ("settings.toml", "models.toml", "extensions", "SYSTEM.md", "APPEND_SYSTEM.md")
"""What in a project's `.loopwright` has a say in what this program runs, where it connects to, or what
the model takes for this program's own words. The question and the check of owners use this list."""


class TrustFileUnsafe(ConfigurationError):
    """Somebody else may have written the list of trusted folders, so nothing in it counts."""


def what_needs_trust(path: str | os.PathLike[str]) -> list[Path]:
    """The files and folders of the project at *path* that are passed over until it is trusted."""
    folder = Path(path) / PROJECT_FOLDER
    return [folder / name for name in GIVES_ORDERS if os.path.lexists(folder / name)]


class TrustFile:
    """The list of trusted folders, in *file*. Reads it anew for each question."""

    def __init__(
        self, file: str | os.PathLike[str], *, home: str | os.PathLike[str] | None = None
    ) -> None:
        self.file = Path(file)
        self._kept = PrivateFile(
            self.file,
            "so no folder is trusted",
            unsafe=TrustFileUnsafe,
            hint="look at it, delete it, and say again which folders you trust",
        )
        self._home = os.path.realpath(os.path.expanduser("~") if home is None else home)

    def is_trusted(self, path: str | os.PathLike[str]) -> bool:
        """Whether the folder at *path* is trusted, itself or through one that it lies in.

        It is not if what gives orders there is somebody else's to write: a repository can bring a
        link to a file that does not exist yet, in /tmp for one.

        Raises `TrustFileUnsafe` if the list cannot be believed.
        """
        trusted = self.folders()
        real = Path(os.path.realpath(path))
        return self._lies_in(trusted, real) and _foreign_orders(real) is None

    def _lies_in(self, trusted: dict[str, int], real: Path) -> bool:
        for folder in (real, *real.parents):
            if str(folder) in trusted:
                # Another user may have put another folder in its place, in /tmp for one.
                return _owner(folder) == trusted[str(folder)]
            # From the trusted folder down, everything has to be the user's or the superuser's.
            if os.name == "posix" and _owner(folder) not in (os.geteuid(), 0):
                return False
        return False

    def trust(self, path: str | os.PathLike[str]) -> Path:
        """Trust the folder at *path* from now on. Returns its real path.

        Raises `ConfigurationError` if it is no folder, is one that everybody may write to, holds
        all that the user has, or is given orders by files that others may write, and
        `TrustFileUnsafe` as `is_trusted` does.
        """
        real = os.path.realpath(path)
        owner = self._checked_owner(real)
        foreign = _foreign_orders(Path(real))
        if foreign is not None:
            raise ConfigurationError(
                f"{foreign} gives orders and is somebody else's to write, so {real} cannot be trusted",
                hint="look at it and where it leads to (ls -l), and delete it",
            )
        with self._kept.alone():
            self._write(self.folders() | {real: owner})
        return Path(real)

    def forget(self, path: str | os.PathLike[str]) -> bool:
        """Trust the folder at *path* no more. False if it was not in the list itself."""
        real = os.path.realpath(path)
        if not os.path.lexists(self.file):
            return False
        with self._kept.alone():
            folders = self.folders()
            if folders.pop(real, None) is None:
                return False
            self._write(folders)
        return True

    def folders(self) -> dict[str, int]:
        """The trusted folders: real paths, and whose each was then. Raises `TrustFileUnsafe`."""
        data = self._kept.read()
        if data is None:
            return {}
        try:
            content: Any = json.loads(data)
            version, folders = content["version"], content["folders"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._kept.unsafe("is not a list of folders") from None
        if version != FORMAT or not isinstance(folders, dict):
            raise self._kept.unsafe(f"is not of version {FORMAT}")
        owners = cast("dict[str, Any]", folders)
        if not all(os.path.isabs(name) and type(uid) is int for name, uid in owners.items()):
            raise self._kept.unsafe("names something that is no absolute path with its owner")
        return owners

    def _write(self, folders: dict[str, int]) -> None:
        content = {"version": FORMAT, "folders": folders}
        self._kept.replace(json.dumps(content, indent=1, sort_keys=True).encode() + b"\n")

    # -- folders -------------------------------------------------------------------------------

    def _checked_owner(self, real: str) -> int:
        if not os.path.isdir(real):
            raise ConfigurationError(f"{real} is no folder", hint="trust the project's folder")
        if real == os.path.dirname(real) or Path(self._home).is_relative_to(real):
            raise ConfigurationError(
                f"{real} holds more than a project: everything below would be trusted",
                hint="trust the folders of your projects one by one",
            )
        owner = _owner(Path(real))
        if owner is None:
            raise ConfigurationError(
                f"{real} may be written by everybody, so it cannot be trusted",
                hint=f"chmod o-w {real}",
            )
        return owner


def _owner(folder: Path) -> int | None:
    """Whose *folder* is. None if it is gone, or if everybody may write to it."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    if os.name != "posix":
        return 0
    return None if found.st_mode & stat.S_IWOTH else found.st_uid


def _foreign_orders(project: Path) -> Path | None:
    """What gives orders in *project*, and belongs to neither its owner, the user nor the superuser,
    or may be written by everybody. Links are followed."""
    if os.name != "posix":
        return None
    owners = {os.geteuid(), 0, _owner(project)} - {None}
    orders = what_needs_trust(project)
    inner = [path for path in orders if path.name == "extensions" for path in _entries(path)]
    for path in (project / PROJECT_FOLDER, *orders, *inner):
        # Where a link leads to, and who may put something else there.
        places = [path, Path(os.path.realpath(path)).parent] if os.path.islink(path) else [path]
        if any(_is_foreign(place, owners) for place in places):
            return path
    return None


def _is_foreign(place: Path, owners: set[int | None]) -> bool:
    try:
        os.stat(place)
    except PermissionError:  # it lies in a folder that is closed, until its owner opens it
        return True
    except OSError:
        return False
    return _owner(place) not in owners


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # a plain file, or gone
        return []
