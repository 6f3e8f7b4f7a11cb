"""A workspace in memory, for tests of tools and of agents that use them.

It behaves as the local one does, links and their refusal included; tests/tools/test_workspace.py
runs the same tests on both. There is nothing outside the process in it, so no command can be run.
"""

from __future__ import annotations

import errno
import io
import posixpath
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import BinaryIO, TypeVar, cast

from ..errors import ToolError
from ..loop.threads import run_in_thread
from .faults import in_words, refused
from .file_locks import FileLocks, GivenUp, GiveUp
from .paths import is_within_any, lock_key, odd_folder, shown, spellings
from .workspace import FileStat, FolderEntry

__all__ = ["MemoryWorkspace"]

T = TypeVar("T")

MOST_LINKS = 40


class MemoryWorkspace:
    """Files in a dictionary; see `Workspace` for what the methods promise."""

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        *,
        links: Mapping[str, str] | None = None,
        root: str = "/workspace",
        allow: Iterable[str] = (),
        readable: Iterable[str] = (),
    ) -> None:
        """*files* maps paths, relative to *root* or absolute, to content; *links* to targets.

        Text is stored as UTF-8. Folders are where files are; a path that ends in `/` makes an
        empty one.
        """
        self._root = posixpath.normpath(root)
        self._lock = threading.Lock()
        self._locks = FileLocks()
        self._files: dict[str, tuple[bytes, float]] = {}
        self._links: dict[str, str] = {}
        self._folders = {"/", self._root}
        for path, target in (links or {}).items():
            self._links[self._absolute(path)] = target
            self._make_folders(posixpath.dirname(self._absolute(path)))
        for path, content in (files or {}).items():
            if path.endswith("/"):
                self._make_folders(self._absolute(path))
            else:
                self._put(self._absolute(path), content)
        self.writable = [self._root, *allow]
        self.readable = list(readable)

    @property
    def root(self) -> str:
        return self._root

    @property
    def on_disk(self) -> bool:
        return False

    @property
    def files(self) -> dict[str, bytes]:
        """A copy of all files, by path as a model would see it."""
        with self._lock:
            return {shown(path, self._root): data for path, (data, _) in self._files.items()}

    # -- the protocol --------------------------------------------------------------------------

    async def resolve(self, path: str, *, must_exist: bool = True, writing: bool = False) -> str:
        given, plain, *guesses = spellings(path, "/srv/user", guess=must_exist)
        for spelling in dict.fromkeys((given, plain, *guesses)):
            real = self._real(spelling)
            if self._may(real, writing) and self._stat(real) is not None:
                return real
        folder = odd_folder(given)
        is_there = folder is not None and posixpath.join(self._root, folder) in self._folders
        real = self._real(given if is_there else plain)
        self._check(real, writing, path)
        return real

    async def stat(self, path: str) -> FileStat | None:
        self._check(path, writing=False)
        return self._stat(path)

    async def list(self, path: str) -> list[FolderEntry]:
        self._check(path, writing=False)
        found = self._stat(path)
        if found is None:
            raise self._fault(path, errno.ENOENT)
        if found.kind != "folder":
            raise self._fault(path, errno.ENOTDIR)
        with self._lock:
            below = path.rstrip("/") + "/"
            known = [*self._files, *self._folders, *self._links]
        names = {each[len(below) :].split("/", 1)[0] for each in known if each.startswith(below)}
        return [self._entry(posixpath.join(path, name)) for name in names if name]

    async def read(self, path: str, reader: Callable[[BinaryIO], T]) -> T:
        self._check(path, writing=False)
        data = self._data(path)
        stopped = threading.Event()
        try:
            return await run_in_thread(reader, cast("BinaryIO", _Stoppable(data, stopped)))
        finally:
            stopped.set()

    async def write(self, path: str, data: bytes) -> bool:
        def work(give_up: GiveUp) -> bool:
            found = self._stat(path)
            if found is not None and found.kind == "folder":
                raise self._fault(path, errno.EISDIR)
            self._commit(path, data, give_up)
            return found is None

        self._check(path, writing=True)
        return await self._locks.run(lock_key(path), work)

    async def mutate(self, path: str, change: Callable[[bytes], tuple[bytes, T]]) -> T:
        def work(give_up: GiveUp) -> T:
            new, told = change(self._data(path))
            self._commit(path, new, give_up)
            return told

        self._check(path, writing=True)
        return await self._locks.run(lock_key(path), work)

    # -- inside --------------------------------------------------------------------------------

    def _absolute(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self._root, path))

    def _put(self, path: str, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        self._make_folders(posixpath.dirname(path))
        self._files[path] = (data, time.time())

    def _make_folders(self, path: str) -> None:
        missing: list[str] = []
        while path not in self._folders:
            if path in self._files:
                raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", path)
            missing.append(path)
            path = posixpath.dirname(path)
        self._folders.update(missing)

    def _commit(self, path: str, data: bytes, give_up: GiveUp) -> None:
        with self._lock:
            try:
                give_up.check()
            except GivenUp:
                raise ToolError("Operation aborted") from None
            try:
                self._put(path, data)
            except NotADirectoryError:
                raise self._fault(path, errno.ENOTDIR) from None

    def _real(self, path: str) -> str:
        """As `os.path.realpath` does it: links followed one by one, `..` after them."""
        rest = posixpath.join(self._root, path).split("/")[::-1]
        real = "/"
        followed = 0
        while rest:
            name = rest.pop()
            if name in ("", "."):
                continue
            if name == "..":
                real = posixpath.dirname(real)
                continue
            here = posixpath.join(real, name)
            target = self._links.get(here)
            if target is None:
                real = here
                continue
            followed += 1
            if followed > MOST_LINKS:
                raise self._fault(path, errno.ELOOP)
            if target.startswith("/"):
                real = "/"
            rest += target.split("/")[::-1]
        return real

    def _stat(self, path: str) -> FileStat | None:
        with self._lock:
            if path in self._files:
                data, modified = self._files[path]
                return FileStat("file", len(data), modified)
            return FileStat("folder", 0, 0.0) if path in self._folders else None

    def _entry(self, path: str) -> FolderEntry:
        name = posixpath.basename(path)
        is_link = path in self._links
        try:
            real = self._real(path)
        except ToolError:
            return FolderEntry(name, "other", is_link)
        found = self._stat(real) if self._may(real, writing=False) else None
        return FolderEntry(name, "other" if found is None else found.kind, is_link)

    def _data(self, path: str) -> bytes:
        found = self._stat(path)
        if found is None:
            raise self._fault(path, errno.ENOENT)
        if found.kind != "file":
            raise self._fault(path, errno.EISDIR)
        return self._files[path][0]

    def _may(self, path: str, writing: bool) -> bool:
        return is_within_any(path, self.writable) or (
            not writing and is_within_any(path, self.readable)
        )

    def _check(self, path: str, writing: bool, given: str | None = None) -> None:
        if not self._may(path, writing):
            raise refused(given or path, self._root, readable=self._may(path, writing=False))

    def _fault(self, path: str, number: int) -> ToolError:
        return in_words(shown(path, self._root), OSError(number, errno.errorcode[number]))


class _Stoppable(io.BytesIO):
    """Raises when it is read after nobody waits any more."""

    def __init__(self, data: bytes, stopped: threading.Event) -> None:
        super().__init__(data)
        self._stopped = stopped

    def read(self, size: int | None = -1, /) -> bytes:
        if self._stopped.is_set():
            raise ToolError("Operation aborted")
        return super().read(size)
