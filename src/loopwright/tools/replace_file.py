"""Replacing the content of a file in one step, so that no crash leaves half of it.

The new content is written to another file in the same folder, made to last, and renamed over the
old one. Mode, owner, group and extended attributes (access lists among them) are those of the old
file.

The file is written in place where it has other names (hard links), which would keep the old content;
where its owner cannot be kept; where it is mounted by itself; and where its folder may not be written.
To give a file to another user without a word would be worse than the small risk of a crash in that
moment.

Not here: locks and allowed places (local_workspace.py). Everything here blocks.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable

from ..whole_file import NOT_REPLACEABLE, overwrite
from .beneath import Folder, open_regular

__all__ = ["ChangedMeanwhile", "replace_file"]


class ChangedMeanwhile(Exception):
    """Another program changed the file between our reading and our writing it."""


class _KeepInPlace(Exception):
    """Inside this module: the file must not be replaced by another one."""


def replace_file(
    folder: Folder,
    name: str,
    data: bytes,
    *,
    before_commit: Callable[[], object],
    expected: os.stat_result | None = None,
) -> bool:
    """Make *data* the content of *name* in *folder*. True if there was no such file.

    *before_commit* is called last, when a raise still leaves everything as it was. *expected* is
    what the file was like when it was read; raises `ChangedMeanwhile` if it is not like that any
    more. Raises `OSError` for anything but a regular file that may be written.
    """
    old = folder.stat(name)
    if old is not None:
        _refuse_unwritable(folder, name, old)
    try:
        temporary = _written_beside(folder, data, old, name)
    except (_KeepInPlace, OSError) as error:
        if old is None or (isinstance(error, OSError) and error.errno not in NOT_REPLACEABLE):
            raise
        before_commit()
        _check_unchanged(folder, name, expected)
        _write_in_place(folder, name, data)
        return False
    try:
        before_commit()
        _check_unchanged(folder, name, expected)
    except BaseException:
        folder.unlink(temporary)
        raise
    try:
        folder.replace(name, temporary)
    except OSError as error:
        folder.unlink(temporary)
        if old is None or error.errno not in NOT_REPLACEABLE:
            raise
        _write_in_place(folder, name, data)
        return False
    folder.sync()
    return old is None


def _refuse_unwritable(folder: Folder, name: str, old: os.stat_result) -> None:
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, "it is a link, a device or a pipe, no file", name)
    # A rename would not ask: it needs no right to write the file it replaces.
    path, beneath = folder.at(name)
    effective = os.access in os.supports_effective_ids
    if not os.access(path, os.W_OK, dir_fd=beneath, effective_ids=effective):
        raise PermissionError(errno.EACCES, "the file is write-protected", name)


def _written_beside(folder: Folder, data: bytes, old: os.stat_result | None, name: str) -> str:
    """The name of a new file in *folder* with *data* in it and all that *old* is kept for."""
    temporary = f".loopwright-{secrets.token_hex(8)}.tmp"
    mode = 0o666 if old is None else 0o600  # private until it is as the old one was
    descriptor = folder.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            if old is not None:
                _take_after(folder, name, file.fileno(), old)
            _write_all(file.fileno(), data)
            os.fsync(file.fileno())
    except BaseException:
        folder.unlink(temporary)
        raise
    return temporary


def _take_after(folder: Folder, name: str, descriptor: int, old: os.stat_result) -> None:
    """Give the new file owner, attributes and mode of the old one. Raises `_KeepInPlace`."""
    if old.st_nlink > 1:
        raise _KeepInPlace
    new = os.fstat(descriptor)
    if hasattr(os, "fchown") and (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except OSError:
            raise _KeepInPlace from None
    if hasattr(os, "listxattr"):
        _copy_attributes(folder, name, descriptor)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _copy_attributes(folder: Folder, name: str, descriptor: int) -> None:
    try:
        with open_regular(folder, name) as source:
            for attribute in os.listxattr(source.fileno()):
                try:
                    os.setxattr(descriptor, attribute, os.getxattr(source.fileno(), attribute))
                except OSError:  # some belong to the system, which sets them itself
                    continue
    except OSError:  # a file that may be written but not read, or a system without attributes
        return


def _check_unchanged(folder: Folder, name: str, expected: os.stat_result | None) -> None:
    if expected is None:
        return
    now = folder.stat(name)
    if now is None or _identity(now) != _identity(expected):
        raise ChangedMeanwhile


def _identity(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _write_in_place(folder: Folder, name: str, data: bytes) -> None:
    with open_regular(folder, name, os.O_RDWR) as file:
        overwrite(file.fileno(), data)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
