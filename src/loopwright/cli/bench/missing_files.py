"""Files that a prompt names and that are not there: only said of words that are meant as paths.

A handle, an address, a decorator or a package begins with the same sign, and nobody wants to be
told that it is no file.

Not here: the files that are there (prompt_message.py).
"""

from __future__ import annotations

import os
import re
from itertools import islice

from ...errors import ToolError
from ...loop.threads import run_in_thread
from ...tools.paths import PathRefused
from ...tools.workspace import Workspace

__all__ = ["MissingFiles", "is_decorator"]

MOST_NAMED = 3
"""A text with more is likely to be code; they are counted only."""

_NO_PATH = re.compile(r"[@()=<>{}|$]|://")
"""What an address, a call or a link has, and hardly any path."""

_SUFFIX = re.compile(
    r"[^.].*\.(?:[A-Za-z][A-Za-z0-9]{0,3}|gradle|graphql|ipynb|jsonl|patch|proto|scala|svelte|swift)\Z"
)
"""Longer ones are rather the second part of somebody's name."""

_DECORATED = re.compile(r"[^\n]*\n[ \t]*(?:@|(?:async[ \t]+)?def[ \t]|class[ \t]|export[ \t])")


def is_decorator(text: str, start: int, end: int) -> bool:
    """Whether what stands between *start* and *end* begins a line of *text* and has below it what
    it decorates."""
    line = text.rfind("\n", 0, start) + 1
    return not text[line:start].strip() and _DECORATED.match(text, end) is not None


class MissingFiles:
    """Those of one text."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._paths: dict[str, None] = {}

    async def hear(self, word: str) -> None:
        """*word* leads to nothing in the workspace."""
        if await self._is_path(word) and not await run_in_thread(self._is_there, word):
            self._paths[word] = None

    def notes(self) -> list[str]:
        """What the user should be told. Has their words in it: neutralize."""
        notes = [f"there is no file {path}" for path in islice(self._paths, MOST_NAMED)]
        if (more := len(self._paths) - MOST_NAMED) > 0:
            notes.append(f"nor are there {more} more that are named")
        return notes

    async def _is_path(self, word: str) -> bool:
        """Whoever writes *word* means a file. A package (`@scope/name`) has a slash as well, so
        without a suffix the folder before it must be there."""
        if _NO_PATH.search(word):
            return False
        if word.startswith("/"):  # in JavaScript `@/components/x` is no path of the machine
            top = f"/{word[1:].partition('/')[0]}"
            return await run_in_thread(self._is_there, top)
        name = word.rpartition("/")[2][-100:]
        if _SUFFIX.match(name) or word.startswith(("./", "../", "~/")):
            return True
        first, slash, _ = word.partition("/")
        if not slash or not first:
            return False
        try:
            status = await self._workspace.stat(await self._workspace.resolve(first))
        except (PathRefused, ToolError):
            return False
        return status is not None and status.kind == "folder"

    def _is_there(self, path: str) -> bool:
        """Outside of the workspace as well: a folder there is left out, and is not missing."""
        try:
            return os.path.lexists(os.path.join(self._workspace.root, os.path.expanduser(path)))
        except ValueError:
            return False
