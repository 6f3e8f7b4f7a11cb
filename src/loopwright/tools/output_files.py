"""Files for output that is too long to show, and who removes them.

All lie in one folder that only its owner may enter. A file is kept for some days, so that a session
which is resumed tomorrow still finds what it was told of; whoever makes a new one removes those
that are older. That also covers programs that were killed.

Not here: what is written (process_output.py).
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import threading
import time
from collections import deque
from typing import IO

__all__ = ["DEFAULT_KEEP_SECONDS", "MOST_FILE_BYTES", "OutputFiles", "Spool"]

DEFAULT_KEEP_SECONDS = 3 * 24 * 60 * 60.0

MOST_FILE_BYTES = 1 << 30
"""More of one output is not kept: a command that never ends must not fill the disk."""

_PREFIX, _SUFFIX = "output-", ".txt"


class OutputFiles:
    """The folder. It is made when the first file is."""

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        keep_seconds: float = DEFAULT_KEEP_SECONDS,
    ) -> None:
        """*folder* is one of this user's below the system's temporary folder if None."""
        self._folder = None if folder is None else os.path.abspath(folder)
        self._is_own = folder is None
        self._keep_seconds = keep_seconds

    @property
    def folder(self) -> str:
        """Its path, for a workspace that is to let the model read the files. Raises nothing."""
        if self._folder is None:
            self._folder = _own_folder()
        return self._folder

    @property
    def pattern(self) -> str:
        """What the files are called, for a rule that lets the model read them: not the folder, in
        which those of other sessions lie. Nobody guesses their names."""
        return os.path.join(self.folder, f"{_PREFIX}*{_SUFFIX}")

    def create(self) -> IO[bytes]:
        """A new, empty file, open for writing; `name` is its path. Raises `OSError`. Blocks."""
        folder = self.folder
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if self._is_own and not _is_private(folder):
            # It was cleaned away meanwhile, and everybody may make another in its place.
            folder = self._folder = tempfile.mkdtemp(prefix="loopwright-output-")
        self._remove_old(folder)
        descriptor, path = tempfile.mkstemp(_SUFFIX, _PREFIX, folder)
        os.close(descriptor)
        return open(path, "wb", buffering=0)

    def _remove_old(self, folder: str) -> None:
        limit = time.time() - self._keep_seconds
        with os.scandir(folder) as entries:
            for entry in entries:
                if not (entry.name.startswith(_PREFIX) and entry.name.endswith(_SUFFIX)):
                    continue
                try:
                    if entry.stat(follow_symlinks=False).st_mtime < limit:
                        os.unlink(entry.path)
                except OSError:  # another process was quicker, or it is not ours to remove
                    continue


def _own_folder() -> str:
    """This user's folder, which nobody else can have prepared; else a fresh one."""
    name = f"loopwright-output-{os.getuid() if hasattr(os, 'getuid') else 0}"
    try:
        folder = os.path.join(tempfile.gettempdir(), name)
    except OSError:  # nothing can be written anywhere, which is said when a file is needed
        return os.path.join(os.sep, "tmp", name)
    with contextlib.suppress(OSError):  # a file, or a link to nowhere, has the name
        os.makedirs(folder, mode=0o700, exist_ok=True)
    if _is_private(folder):
        return folder
    try:
        return tempfile.mkdtemp(prefix="loopwright-output-")
    except OSError:
        return folder


def _is_private(folder: str) -> bool:
    """Whether *folder* is one, this user's, and nobody else may enter it."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    if os.name != "posix":
        return stat.S_ISDIR(found.st_mode)
    return stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077 and found.st_uid == os.getuid()


class Spool:
    """One output on its way into a file. `add` returns at once; `write` blocks: for a thread.

    `path` is the file once something was written, `problem` why it does not hold everything.
    """

    def __init__(self, files: OutputFiles, most_bytes: int = MOST_FILE_BYTES) -> None:
        self.path: str | None = None
        self.problem: str | None = None
        self._files = files
        self._room = most_bytes
        self._most_bytes = most_bytes
        self._file: IO[bytes] | None = None
        self._pending: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def add(self, data: bytes) -> None:
        """Queue *data*. Dropped once something went wrong."""
        if self.problem is None:
            self._pending.append(data)

    def write(self) -> None:
        """Write what is queued, in order, whichever thread comes first. Raises nothing."""
        with self._lock:
            while self._pending and not self._closed:
                data = self._pending.popleft()
                if self.problem is None:
                    self._write(data)

    def close(self) -> None:
        """Write the rest and close the file. Waits for a `write` that is going on."""
        self.write()
        self.abandon()

    def abandon(self) -> None:
        """Close the file without the rest."""
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._file.close()
                self._file = None

    def _write(self, data: bytes) -> None:
        try:
            if self._file is None:
                self._file = self._files.create()
                self.path = self._file.name
            rest = memoryview(data)[: self._room]
            self._room -= len(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.problem = f"it could not be written: {error.strerror or error}"
        else:
            if self._room < 0:
                self.problem = f"only the first {self._most_bytes >> 20:,} MiB were kept"
