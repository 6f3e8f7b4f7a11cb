"""A workspace that is a folder of this machine.

Not here: how a path is walked (beneath.py), how a file is replaced (replace_file.py).
"""

from __future__ import annotations

import errno
import io
import os
import stat
import threading
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from ..errors import ToolError
from ..loop.threads import run_in_thread
from .beneath import Folder, folder_beneath, open_regular
from .faults import in_words, refused
from .file_locks import FileLocks, GivenUp, GiveUp
from .judged_paths import JudgedPaths
from .paths import is_within, is_within_any, lock_key, odd_folder, shown, spellings
from .replace_file import ChangedMeanwhile, replace_file
from .text_limits import first_bytes, show_size
from .workspace import FileKind, FileStat, FolderEntry

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["MOST_BYTES_CHANGED", "LocalWorkspace"]

T = TypeVar("T")

MOST_BYTES_CHANGED = 256 * 1024 * 1024
"""The largest file `mutate` takes, since it is in memory as a whole."""

_locks = FileLocks()
"""Of the whole process: two agents may work in one folder."""


class LocalWorkspace:
    """The files below *root*; see `Workspace` for what the methods promise."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        allow: Iterable[str | os.PathLike[str]] = (),
        readable: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        """*allow* are further folders or files to read and write, *readable* such to read only.

        All may be reached through links; what they are is settled here. `allow=["/"]` lifts the
        fence. Raises `NotADirectoryError` if *root* is no folder.
        """
        self._root = _real(root)
        if not os.path.isdir(self._root):
            raise NotADirectoryError(errno.ENOTDIR, "the workspace is no folder", os.fspath(root))
        self._home = os.path.expanduser("~")
        self.writable = [self._root, *map(_real, allow)]
        """Real paths at or below which files may be changed; may be added to."""
        self.readable = [_real(path) for path in readable]
        """Further real paths at or below which files may be read; may be added to."""
        self.judged = JudgedPaths()
        """What calls were let through to by whoever judges them; without that, the fence decides."""

    @property
    def root(self) -> str:
        return self._root

    @property
    def on_disk(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"LocalWorkspace({self._root!r})"

    # -- the protocol --------------------------------------------------------------------------

    async def resolve(self, path: str, *, must_exist: bool = True, writing: bool = False) -> str:
        real = await run_in_thread(self._resolve, path, must_exist, writing)
        judged = self.judged.of(path)
        if judged is not None and real not in judged.real:
            raise ToolError(
                f"{first_bytes(path, 500)!r} leads to another file now than when the call was "
                "allowed; nothing was done.",
                hint="repeat the call, so that it is judged as it is now",
            )
        return real

    async def stat(self, path: str) -> FileStat | None:
        return await run_in_thread(self._stat, path)

    async def list(self, path: str) -> list[FolderEntry]:
        return await run_in_thread(self._list, path)

    async def read(self, path: str, reader: Callable[[BinaryIO], T]) -> T:
        stopped = threading.Event()

        def work() -> T:
            with self._telling(path), self._folder(path) as (folder, name):
                source = _Stoppable(open_regular(folder, name), stopped)
                with io.BufferedReader(source) as file:
                    return reader(cast("BinaryIO", file))

        try:
            return await run_in_thread(work)
        finally:
            stopped.set()

    async def write(self, path: str, data: bytes) -> bool:
        def work(give_up: GiveUp) -> bool:
            with self._telling(path), self._folder(path, writing=True) as (folder, name):
                return replace_file(folder, name, data, before_commit=give_up.check)

        return await _locks.run(lock_key(path), work)

    async def mutate(self, path: str, change: Callable[[bytes], tuple[bytes, T]]) -> T:
        def work(give_up: GiveUp) -> T:
            with self._telling(path), self._folder(path, writing=True, create=False) as found:
                folder, name = found
                with open_regular(folder, name) as file:
                    before = os.fstat(file.fileno())
                    if before.st_size > MOST_BYTES_CHANGED:
                        raise _too_large(shown(path, self._root), before.st_size)
                    old = file.read()
                new, told = change(old)
                give_up.check()
                replace_file(folder, name, new, before_commit=give_up.check, expected=before)
                return told

        return await _locks.run(lock_key(path), work)

    # -- in a thread ---------------------------------------------------------------------------

    def _resolve(self, path: str, must_exist: bool, writing: bool) -> str:
        given, plain, *guesses = spellings(path, self._home, guess=must_exist)
        for spelling in dict.fromkeys((given, plain, *guesses)):
            real = self._real(spelling)
            if self._may(real, writing) and os.path.lexists(real):
                return real
        folder = odd_folder(given)
        is_there = folder is not None and os.path.isdir(os.path.join(self._root, folder))
        real = self._real(given if is_there else plain)
        self._check(real, writing, path)
        return real

    def _real(self, path: str) -> str:
        try:
            return os.path.realpath(os.path.join(self._root, path))
        except (OSError, ValueError) as error:  # a loop of links, a name no system takes
            raise ToolError(f"{first_bytes(path, 500)!r} can be no path: {error}.") from None

    def _may(self, path: str, writing: bool) -> bool:
        return (
            is_within_any(path, self.writable)
            or (not writing and is_within_any(path, self.readable))
            or is_within_any(path, self.judged.places(writing=writing))
        )

    def _check(self, path: str, writing: bool, given: str | None = None) -> None:
        if not self._may(path, writing):
            raise refused(given or path, self._root, readable=self._may(path, writing=False))

    @contextmanager
    def _folder(
        self, path: str, *, writing: bool = False, create: bool | None = None
    ) -> Generator[tuple[Folder, str], None, None]:
        """The open folder of *path*, a real path, and its name in there."""
        self._check(path, writing)
        parent, name = os.path.split(path)
        if not name:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        create = writing if create is None else create
        if create and is_within(path, self._root) and not os.path.isdir(self._root):
            raise ToolError(
                f"Nothing was written: the workspace {self._root!r} is gone.",
                hint="tell the user that the folder was moved or deleted",
            )
        anchor = self._anchor(path, writing=writing)
        if anchor == path:  # a single file that is allowed, or the root, which is no file
            anchor = parent
        with folder_beneath(anchor, parent, create=create) as folder:
            yield folder, name

    def _anchor(self, path: str, *, writing: bool) -> str:
        """The folder from which *path* is walked: the nearest allowed one above it."""
        also = [] if writing else self.readable
        allowed = [*self.writable, *also, *self.judged.places(writing=writing)]
        return max((folder for folder in allowed if is_within(path, folder)), key=len)

    def _stat(self, path: str) -> FileStat | None:
        self._check(path, writing=False)
        with self._telling(path):
            try:
                found = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
        kind = _kind(found.st_mode)
        return FileStat(kind, found.st_size if kind == "file" else 0, found.st_mtime)

    def _list(self, path: str) -> list[FolderEntry]:
        self._check(path, writing=False)
        anchor = self._anchor(path, writing=False)
        with (
            self._telling(path),
            folder_beneath(anchor, path) as folder,
            folder.scan() as entries,
        ):
            return [self._entry(path, entry) for entry in entries]

    def _entry(self, folder: str, entry: os.DirEntry[str]) -> FolderEntry:
        kind: FileKind = "other"
        is_link = False
        try:
            is_link = entry.is_symlink()
            inside = not is_link or self._may(
                os.path.realpath(os.path.join(folder, entry.name)), writing=False
            )
            if inside and entry.is_dir():
                kind = "folder"
            elif inside and entry.is_file():
                kind = "file"
        except OSError:  # a link in a circle
            pass
        return FolderEntry(entry.name, kind, is_link)

    @contextmanager
    def _telling(self, path: str) -> Generator[None, None, None]:
        """Faults of the system in words for the model, without what lies above the workspace."""
        name = first_bytes(shown(path, self._root), 500)
        try:
            yield
        except ChangedMeanwhile:
            raise ToolError(
                f"{name!r} was changed by another program just now; it was left as that one made "
                "it.",
                hint="read it again, then repeat the change",
            ) from None
        except GivenUp:
            raise ToolError("Operation aborted") from None
        except OSError as error:
            raise in_words(name, error) from error


class _Stoppable(io.RawIOBase):
    """A file whose next `read` raises once nobody waits for it."""

    def __init__(self, file: BinaryIO, stopped: threading.Event) -> None:
        self._file = file
        self._stopped = stopped

    def readinto(self, buffer: object, /) -> int | None:
        if self._stopped.is_set():
            raise ToolError("Operation aborted")
        return cast("io.FileIO", self._file).readinto(cast("bytearray", buffer))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _real(path: str | os.PathLike[str]) -> str:
    return os.path.realpath(os.path.expanduser(os.fspath(path)))


def _kind(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "other"


def _too_large(name: str, size: int) -> ToolError:
    return ToolError(
        f"{name!r} has {show_size(size)}; files up to {show_size(MOST_BYTES_CHANGED)} can be edited.",
        hint="change it with a command such as sed",
    )
