"""Writing the whole content of a file of loopwright's own, such as settings, trust or keys.

The content is written beside the file and renamed over it, so a crash leaves the old one or the new
one. Some files cannot be replaced like that: one that is mounted by itself into a container, or one in
a folder that may not be written. Those are written in place, and get their old content back if
that fails.

Not here: which file, and who may read it (the modules that own it). Everything here blocks.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["NOT_REPLACEABLE", "overwrite", "write_whole_file"]

NOT_REPLACEABLE = frozenset(
    {errno.EBUSY, errno.EXDEV, errno.EROFS, errno.EPERM, errno.EACCES, errno.ETXTBSY}
)
"""What the system says where a file cannot be made or renamed, though the old one may be writable."""


def write_whole_file(
    path: Path, data: bytes, *, prepare: Callable[[int], object] = lambda descriptor: None
) -> None:
    """Make *data* the content of *path*, which must be no link.

    *prepare* gets the descriptor of a new file, whose mode is 0600, before its content is written.
    Raises `OSError`; the old content is there then, unless the error says otherwise.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                prepare(file.fileno())
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        if error.errno not in NOT_REPLACEABLE or not os.path.isfile(path):
            raise
        no_link = getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(path, os.O_RDWR | no_link | getattr(os, "O_BINARY", 0))
        try:
            overwrite(descriptor, data)
        finally:
            os.close(descriptor)


def overwrite(descriptor: int, data: bytes) -> None:
    """Make *data* the content of the open file, which is read first.

    Raises `OSError`; the old content is there then, unless the error says otherwise.
    """
    before = _read_all(descriptor)
    try:
        _fill(descriptor, data)
    except OSError as error:
        try:
            _fill(descriptor, before)
        except OSError:
            reason = f"only a part was written, and the old content is lost: {error.strerror}"
            raise OSError(error.errno, reason) from error
        raise


def _fill(descriptor: int, data: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


def _read_all(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    pieces: list[bytes] = []
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)
