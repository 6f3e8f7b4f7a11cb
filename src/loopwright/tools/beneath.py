"""Opening what lies beneath a folder without following a single link.

A path that was checked may be another one when it is opened: somebody put a link in its place. So a
path is resolved first, checked, and then walked from an open folder, one name at a time, and any
link on the way is refused. Files are opened without waiting (a pipe would wait for ever) and must
be regular ones.

Where the system cannot open relative to a folder (Windows) the path is opened as it is, and checked
once more afterwards.

Not here: which places are allowed (local_workspace.py). Everything here blocks.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = ["Folder", "folder_beneath", "open_regular"]

_BY_FOLDER = {
    os.open,
    os.mkdir,
    os.stat,
    os.rename,
    os.unlink,
} <= os.supports_dir_fd and os.scandir in os.supports_fd
_BINARY = getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
# O_PATH (Linux) opens folders that may be entered but not listed.
_WALK = getattr(os, "O_DIRECTORY", 0) | _NO_LINK | getattr(os, "O_PATH", os.O_RDONLY)


class Folder:
    """An open folder, through which the files in it are reached whatever its path has become."""

    def __init__(self, path: str, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor

    def at(self, name: str) -> tuple[str, int | None]:
        """*name* in this folder, as a path and the `dir_fd` it is relative to."""
        if self._descriptor is None:
            return os.path.join(self.path, name), None
        return name, self._descriptor

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open *name*, never through a link."""
        path, beneath = self.at(name)
        return os.open(path, flags | _NO_LINK | _NO_WAIT | _BINARY, mode, dir_fd=beneath)

    def stat(self, name: str) -> os.stat_result | None:
        """Of *name* itself, link or not; None if there is none."""
        path, beneath = self.at(name)
        try:
            return os.stat(path, dir_fd=beneath, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def replace(self, name: str, by: str) -> None:
        """Let the file *by* take the place of *name*, in one step."""
        (source, beneath), (target, _) = self.at(by), self.at(name)
        if beneath is None:
            os.replace(source, target)
        else:
            os.rename(source, target, src_dir_fd=beneath, dst_dir_fd=beneath)

    def unlink(self, name: str) -> None:
        path, beneath = self.at(name)
        os.unlink(path, dir_fd=beneath)

    @contextmanager
    def scan(self) -> Generator[Iterator[os.DirEntry[str]], None, None]:
        """The entries of this folder, while it is open."""
        if self._descriptor is None:
            with os.scandir(self.path) as entries:
                yield entries
            return
        descriptor = os.open(".", os.O_RDONLY, dir_fd=self._descriptor)
        try:
            with os.scandir(descriptor) as entries:
                yield entries
        finally:
            os.close(descriptor)

    def sync(self) -> None:
        """Make what was renamed in here outlast a power cut, as far as the system offers it."""
        if self._descriptor is None:
            return
        try:
            descriptor = os.open(".", os.O_RDONLY, dir_fd=self._descriptor)
        except OSError:  # a folder that may be written but not read
            return
        try:
            os.fsync(descriptor)
        except OSError:  # some network file systems know no such thing
            pass
        finally:
            os.close(descriptor)


@contextmanager
def folder_beneath(
    anchor: str, path: str, *, create: bool = False
) -> Generator[Folder, None, None]:
    """The folder *path*, a real path that is *anchor* or below it; made with its parents on demand.

    Raises `OSError`, also when a link turned up on the way.
    """
    names = [name for name in path[len(anchor) :].split(os.sep) if name]
    if create:
        os.makedirs(anchor, exist_ok=True)
    if not _BY_FOLDER:
        if create:
            os.makedirs(path, exist_ok=True)
        if os.path.realpath(path) != path:
            raise _moved(path)
        yield Folder(path, None)
        return
    descriptor = os.open(anchor, _WALK)
    try:
        for name in names:
            descriptor = _step(descriptor, name, create=create)
        yield Folder(path, descriptor)
    finally:
        os.close(descriptor)


def _step(descriptor: int, name: str, *, create: bool) -> int:
    """The folder *name* in that of *descriptor*, which is closed only if all went well."""
    try:
        inner = os.open(name, _WALK, dir_fd=descriptor)
    except FileNotFoundError:
        if not create:
            raise
        try:
            os.mkdir(name, dir_fd=descriptor)
        except FileExistsError:  # somebody else was quicker
            pass
        inner = os.open(name, _WALK, dir_fd=descriptor)
    os.close(descriptor)
    return inner


def open_regular(folder: Folder, name: str, flags: int = os.O_RDONLY) -> BinaryIO:
    """The regular file *name* in *folder*, unbuffered.

    Raises `IsADirectoryError` for a folder and `OSError` for a device, a pipe, or a link.
    """
    before = folder.stat(name)
    if before is not None and not stat.S_ISLNK(before.st_mode):
        # Opening alone does things to some devices, and tells whoever writes to a pipe to begin.
        _refuse_irregular(before, name)
    descriptor = folder.open(name, flags)
    try:
        found = os.fstat(descriptor)
        _refuse_irregular(found, name)
        if folder.at(name)[1] is None:  # what was opened is what the checked path still names
            now = os.stat(os.path.join(folder.path, name), follow_symlinks=False)
            if os.path.realpath(folder.path) != folder.path or not os.path.samestat(found, now):
                raise _moved(name)
        return os.fdopen(descriptor, "r+b" if flags & os.O_RDWR else "rb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def _refuse_irregular(found: os.stat_result, name: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, no file", name)


def _moved(path: str) -> OSError:
    return OSError(errno.ELOOP, "a link was put in its place while it was opened", path)
