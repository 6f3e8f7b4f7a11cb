"""A small file that the program keeps for the user, and that nobody else may have a say in.

Mode 0600, replaced in one step, changed by one process at a time. If it is a link, has a second
name, belongs to somebody else, or others may write to it or to its folder, it is not believed.

Not here: what is in it (trust.py, and what front ends keep).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ..errors import ConfigurationError
from ..whole_file import write_whole_file

__all__ = ["PrivateFile"]

MOST_BYTES = 4 * 1024 * 1024


class PrivateFile:
    """The file at *path*. All methods raise *unsafe* if it cannot be believed; *consequence* says
    what follows, such as "so no rule in it counts", and *hint* what to do. `ConfigurationError` is
    raised if it cannot be used for another reason."""

    def __init__(
        self,
        path: Path,
        consequence: str,
        *,
        unsafe: type[ConfigurationError] = ConfigurationError,
        hint: str = "look at it, or delete it",
    ) -> None:
        self.path = path
        self._consequence = consequence
        self._unsafe = unsafe
        self._hint = hint

    def read(self) -> bytes | None:
        """What it holds; None if it is not there."""
        if os.path.islink(self.path):
            raise self.unsafe("is a symbolic link")
        # O_NONBLOCK: a pipe in its place must not hang us.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            descriptor = os.open(self.path, flags | getattr(os, "O_CLOEXEC", 0))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self.unsafe(f"cannot be read: {error.strerror or error}") from None
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise self.unsafe("is no plain file")
            if found.st_nlink != 1:
                raise self.unsafe("has a second name somewhere (a hard link)")
            self._check_rights(found, "")
            self._check_rights(os.stat(self.path.parent), "lies in a folder that ")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise self.unsafe(f"cannot be read: {error.strerror or error}") from None
        finally:
            os.close(descriptor)
        if len(data) > MOST_BYTES:
            raise self.unsafe("is far too large")
        return data

    @contextmanager
    def alone(self) -> Generator[None, None, None]:
        """Whoever reads and then replaces does both inside, or loses what another process wrote."""
        self._make_folder()
        if os.name != "posix":
            yield
            return
        import fcntl

        lock = self.path.with_name(self.path.name + ".lock")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(lock, flags, 0o600)
        except OSError as error:
            raise self.unsafe(
                f"cannot be changed: {lock.name}: {error.strerror}", f"delete {lock}"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def replace(self, data: bytes) -> None:
        """Make *data* its content. A crash leaves the old one or the new one."""
        try:
            write_whole_file(self.path, data)
        except OSError as error:
            raise ConfigurationError(
                f"{self.path} cannot be written: {error.strerror or error}",
                hint="free some space, or look at the rights of its folder",
            ) from None

    def unsafe(self, what: str, hint: str = "") -> ConfigurationError:
        """An error that says *what* is wrong with it."""
        return self._unsafe(f"{self.path} {what}, {self._consequence}", hint=hint or self._hint)

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = os.stat(self.path.parent)
        except OSError as error:
            raise ConfigurationError(
                f"{self.path.parent} cannot be made: {error.strerror or error}",
                hint="make the folder",
            ) from None
        self._check_rights(found, "lies in a folder that ")

    def _check_rights(self, found: os.stat_result, whose: str) -> None:
        if os.name != "posix":  # there the user's folder has no such bits
            return
        if found.st_uid != os.geteuid():
            raise self.unsafe(f"{whose}belongs to another user")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            place = self.path.parent if whose else self.path
            raise self.unsafe(f"{whose}may be written by others", f"chmod go-w {place}")
