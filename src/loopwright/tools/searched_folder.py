"""Where a search looks: a folder on disk, also for a workspace that is not.

Not here: the search.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ..errors import ToolError
from .globs import from_folder
from .paths import shown
from .workspace import Workspace, locate

__all__ = ["SearchedFolder", "searched_folder"]


@dataclass(frozen=True, slots=True)
class SearchedFolder:
    """A folder, or one file in it."""

    folder: str
    """A real path on disk."""
    file: str | None
    """The name of the only file to search."""
    named: str
    """The folder's path in the workspace."""
    root: str

    def glob(self, spelled: str) -> str:
        """*spelled* from this folder on: models write it absolute, with `./`, or from the root of
        the workspace on although they gave the folder, too."""
        glob = from_folder(spelled, self.named)
        above = shown(self.named, self.root)
        if above != "." and glob.startswith(f"{above}/"):
            first = above.partition("/")[0]
            if not os.path.lexists(os.path.join(self.folder, first)):
                glob = from_folder(glob, above)
        return glob

    def shown(self, path: str) -> str:
        """*path*, relative to the folder, as the other tools take it."""
        return shown(os.path.normpath(os.path.join(self.named, path)), self.root)


@asynccontextmanager
async def searched_folder(workspace: Workspace, path: str) -> AsyncGenerator[SearchedFolder]:
    """The place *path* stands for. Raises `ToolError` if it is no folder or file, or leads out.

    What is not on disk is copied there for as long as the block lasts.
    """
    real, found = await locate(workspace, path)
    if found.kind == "other":
        raise ToolError(f"{shown(real, workspace.root)!r} is neither a file nor a folder.")
    folder, file = (real, None) if found.kind == "folder" else os.path.split(real)
    if workspace.on_disk:
        yield SearchedFolder(folder, file, folder, workspace.root)
        return
    with tempfile.TemporaryDirectory(prefix="loopwright-search-") as copy:
        # Ignore files above count, too, so all of the workspace is copied.
        top = _real(copy)
        await _copy(workspace, workspace.root, top)
        below = folder[len(workspace.root) :].strip("/")
        inside = os.path.join(top, below) if below else top
        yield SearchedFolder(inside, file, folder, workspace.root)


def _real(path: str) -> str:
    return os.path.realpath(path)


async def _copy(workspace: Workspace, source: str, target: str) -> None:
    for entry in await workspace.list(source):
        if entry.is_link:
            continue
        below, copy = os.path.join(source, entry.name), os.path.join(target, entry.name)
        if entry.kind == "folder":
            os.mkdir(copy)
            await _copy(workspace, below, copy)
        elif entry.kind == "file":
            data = await workspace.read(below, lambda file: file.read())
            with open(copy, "wb") as file:  # noqa: ASYNC230 - only stand-ins are not on disk
                file.write(data)
