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
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from ..errors import ConfigurationError

__all__ = ["TrustFile", "TrustFileUnsafe", "what_needs_trust"]

FORMAT = 1
MOST_BYTES = 4 * 1024 * 1024

PROJECT_FOLDER = ".loopwright"
GIVES_ORDERS = ("settings.toml", "models.toml", "extensions")
"""What in a project's `.loopwright` has a say in what this program runs or where it connects to."""


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
        self._home = os.path.realpath(os.path.expanduser("~") if home is None else home)

    def is_trusted(self, path: str | os.PathLike[str]) -> bool:
        """Whether the folder at *path* is trusted, itself or through one that it lies in.

        Raises `TrustFileUnsafe` if the list cannot be believed.
        """
        trusted = self.folders()
        real = Path(os.path.realpath(path))
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

        Raises `ConfigurationError` if it is no folder, is one that everybody may write to, or holds
        all that the user has, and `TrustFileUnsafe` as `is_trusted` does.
        """
        real = os.path.realpath(path)
        owner = self._checked_owner(real)
        self._make_home()
        with self._alone():
            self._write(self.folders() | {real: owner})
        return Path(real)

    def forget(self, path: str | os.PathLike[str]) -> bool:
        """Trust the folder at *path* no more. False if it was not in the list itself."""
        real = os.path.realpath(path)
        if not os.path.lexists(self.file):
            return False
        with self._alone():
            folders = self.folders()
            if folders.pop(real, None) is None:
                return False
            self._write(folders)
        return True

    def folders(self) -> dict[str, int]:
        """The trusted folders: real paths, and whose each was then. Raises `TrustFileUnsafe`."""
        data = self._read()
        if data is None:
            return {}
        try:
            content: Any = json.loads(data)
            version, folders = content["version"], content["folders"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._unsafe("is not a list of folders") from None
        if version != FORMAT or not isinstance(folders, dict):
            raise self._unsafe(f"is not of version {FORMAT}")
        owners = cast("dict[str, Any]", folders)
        if not all(os.path.isabs(name) and type(uid) is int for name, uid in owners.items()):
            raise self._unsafe("names something that is no absolute path with its owner")
        return owners

    # -- the file ------------------------------------------------------------------------------

    def _read(self) -> bytes | None:
        # O_NONBLOCK: a pipe in its place must not hang us.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        if self.file.is_symlink():
            raise self._unsafe("is a symbolic link")
        try:
            descriptor = os.open(self.file, flags | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unsafe(f"cannot be read: {error.strerror or error}") from error
        try:
            self._check(os.fstat(descriptor), "")
            self._check_home()
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(MOST_BYTES + 1)
        finally:
            os.close(descriptor)
        if len(data) > MOST_BYTES:
            raise self._unsafe("is far too large")
        return data

    def _check(self, found: os.stat_result, whose: str) -> None:
        if not whose and not stat.S_ISREG(found.st_mode):
            raise self._unsafe("is no plain file")
        if not whose and found.st_nlink != 1:
            raise self._unsafe("has a second name somewhere (a hard link)")
        if os.name != "posix":  # there the user's folder has no such bits
            return
        if found.st_uid != os.geteuid():
            raise self._unsafe(f"{whose}belongs to another user")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise self._unsafe(f"{whose}may be written by others", f"chmod go-w {self.file.parent}")

    def _check_home(self) -> None:
        """Whoever may write to the folder may replace the file."""
        self._check(os.stat(self.file.parent), "lies in a folder that ")

    def _make_home(self) -> None:
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_home()
        except OSError as error:
            raise ConfigurationError(
                f"{self.file.parent}: cannot be made: {error.strerror or error}",
                hint="make the folder, so that it can be noted what you trust",
            ) from error

    @contextmanager
    def _alone(self) -> Generator[None, None, None]:
        """Two processes that add a folder at once must not lose one of them."""
        if os.name != "posix":
            yield
            return
        import fcntl

        lock = self.file.with_name(self.file.name + ".lock")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(lock, flags, 0o600)
        except OSError as error:
            raise self._unsafe(
                f"cannot be changed: {lock.name}: {error.strerror}", f"delete {lock}"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self, folders: dict[str, int]) -> None:
        data = (
            json.dumps({"version": FORMAT, "folders": folders}, indent=1, sort_keys=True).encode()
            + b"\n"
        )
        descriptor, name = tempfile.mkstemp(prefix=".trust-", dir=self.file.parent)  # mode 0600
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self.file)
        except BaseException:
            os.unlink(name)
            raise

    def _unsafe(self, what: str, hint: str = "") -> TrustFileUnsafe:
        return TrustFileUnsafe(
            f"{self.file} {what}, so no folder is trusted",
            hint=hint or "look at it, delete it, and say again which folders you trust",
        )

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
