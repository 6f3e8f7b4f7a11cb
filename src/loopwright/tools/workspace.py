"""The files a set of tools works on: a seam, so that the tools know nothing of disks.

A workspace has a root, and paths stay inside it, also through links, unless it was told of further
places. Every method checks that again on the path it is given, so a tool that forgets to ask cannot
break out. Files are read by a function that runs beside the event loop and sees a stream, so that a
large file is never in memory as a whole; they are changed one at a time, as a whole or not at all.

Not here: the local file system (local_workspace.py) and the stand-in for tests
(memory_workspace.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, Literal, NamedTuple, Protocol, TypeVar

from ..errors import ToolError
from .paths import PathRefused, shown
from .text_limits import first_bytes

__all__ = ["FileKind", "FileStat", "FolderEntry", "Workspace", "locate", "not_found"]

T = TypeVar("T")

_MOST_PARTS = 20
"""So many names at the end of a path are looked for in the workspace."""

FileKind = Literal["file", "folder", "other"]
"""`other` is a device, a pipe, or a link that leads nowhere or out of the workspace."""


class FileStat(NamedTuple):
    """What is at a path."""

    kind: FileKind
    size: int
    """In bytes; 0 for what is no file."""
    modified: float
    """Seconds since the epoch."""


class FolderEntry(NamedTuple):
    """One name in a folder."""

    name: str
    kind: FileKind
    """Of what a link leads to, if the name is one."""
    is_link: bool
    """Whoever walks a tree does not enter folders that are links: they may lead in a circle."""


class Workspace(Protocol):
    """Where the coding tools read, write and look around.

    Paths given to any method but `resolve` are those `resolve` returned, or a real path below one
    of them. All methods raise `ToolError` in words meant for the model, `PathRefused` for a path
    that leads out. Nothing blocks the event loop.
    """

    @property
    def root(self) -> str:
        """The real path that relative paths start from; commands run here."""
        ...

    @property
    def on_disk(self) -> bool:
        """Whether programs of this machine find the files under the same paths."""
        ...

    async def resolve(self, path: str, *, must_exist: bool = True, writing: bool = False) -> str:
        """The real path meant by *path*, which a model wrote; see `paths.spellings`.

        What does not exist is no error: the path is then where it would be. With *must_exist*
        near spellings are tried as well. Links are followed, a last one that leads nowhere, too.
        """
        ...

    async def stat(self, path: str) -> FileStat | None:
        """What is at *path*; None if there is nothing."""
        ...

    async def list(self, path: str) -> list[FolderEntry]:
        """The names in the folder *path*, in no order, without `.` and `..`."""
        ...

    async def read(self, path: str, reader: Callable[[BinaryIO], T]) -> T:
        """Call *reader* in a thread with the file, which is a regular one; what it returns.

        When the caller is cancelled the next `read` of the file raises, so that a *reader* deep in
        a large file ends.
        """
        ...

    async def write(self, path: str, data: bytes) -> bool:
        """Make *data* the content of *path*, with the folders it needs. True if the file is new.

        The file is the old one or the new one at any instant, also after a crash; mode and owner
        stay. Waits for other changes of the same file, and holds the next ones up until it has
        settled, even if the caller is cancelled meanwhile.
        """
        ...

    async def mutate(self, path: str, change: Callable[[bytes], tuple[bytes, T]]) -> T:
        """Replace the content of the file *path* by what *change* makes of it.

        *change* runs in a thread, under the same lock and with the same promises as `write`; its
        second value is returned. If it raises, the file is as it was.
        """
        ...


async def locate(workspace: Workspace, path: str) -> tuple[str, FileStat]:
    """The real path and kind of *path*, which must exist. Raises `ToolError` with near names."""
    try:
        real = await workspace.resolve(path)
    except PathRefused as refusal:
        inside = await _inside(workspace, path)
        if inside is None:
            raise
        raise PathRefused(refusal.message, hint=f"did you mean {inside!r}?") from None
    found = await workspace.stat(real)
    if found is None:
        raise await not_found(workspace, path, real)
    return real, found


async def _inside(workspace: Workspace, path: str, least: int = 1) -> str | None:
    """What there is in the workspace under the last names of *path*, *least* of them or more.

    Models put the name of the workspace in front, or the folder of one they remember.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not path.startswith("/"):
        parts = parts[1:]  # all of it was tried
    parts = parts[-_MOST_PARTS:]
    for start in range(len(parts) - least + 1):
        try:
            real = await workspace.resolve("/".join(parts[start:]))
            if await workspace.stat(real) is not None:
                return shown(real, workspace.root)
        except ToolError:
            continue
    return None


async def not_found(workspace: Workspace, path: str, real: str) -> ToolError:
    """What to tell a model that named a file which is not there: what it may have meant."""
    # Most calls never come here, and difflib is not small.
    import os
    from difflib import get_close_matches

    name = shown(real, workspace.root)
    message = f"There is no file or folder {first_bytes(name, 500)!r}."
    if os.path.basename(real) != path.rstrip("/").rpartition("/")[2]:
        message += f" That is what {first_bytes(path, 500)!r} leads to."
    inside = await _inside(workspace, path, least=2)
    near: list[str] = [] if inside is None else [inside]
    folder = os.path.dirname(real)
    if not near:
        try:
            names = [entry.name for entry in (await workspace.list(folder))[:5000]]
        except ToolError:
            names = []
        close = get_close_matches(os.path.basename(real), names, n=3, cutoff=0.6)
        near = [shown(os.path.join(folder, each), workspace.root) for each in close]
    if not near:
        inside = await _inside(workspace, path)
        near = [] if inside is None else [inside]
    if not near:
        return ToolError(message, hint="use ls or find to see what there is")
    return ToolError(message, hint=f"did you mean {', '.join(map(repr, near))}?")
