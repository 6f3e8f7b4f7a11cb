"""The tool `find`: which files of the workspace have a name like this.

Lists files with ripgrep where it is installed, else with our own worker, and picks from them
itself, so that a glob means the same either way. Ignored and hidden files are left out, links not
followed. Where there is no such file, links and folders like the glob are told: silence would mean to
a model that there is nothing.

Not here: globs (globs.py), the process (search_process.py).
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Callable
from typing import IO

import msgspec

from ..errors import ToolError
from ..loop.tool import ToolContext
from ..messages import AgentToolResult, TextContent
from .file_tool import FileTool
from .globs import BadGlob, compile_glob, composed, in_any_folder, wants_hidden
from .ripgrep import find_ripgrep, name_filter, which_files
from .search_process import SearchEnd, SearchRequest, end_notices, run_search, worker
from .searched_folder import searched_folder
from .shown_names import one_line
from .text_limits import MAX_BYTES, NOTICE_BYTES, head
from .workspace import Workspace

__all__ = ["DEFAULT_LIMIT", "find_tool"]

DEFAULT_LIMIT = 1000

MOST_LINKS = 100
"""So many links are shown where no file was found."""

OTHERS_SECONDS = 10.0
"""How long links and folders are looked for then."""

_DESCRIPTION = """\
Find files by a glob, such as "*.py", "src/**/*.ts" or "test_*.{js,ts}".

A glob without a slash is about the name, in whatever folder; one with a slash about the path from the \
searched folder on; one that ends in a slash finds folders. Paths are shown relative to the root of the \
workspace, sorted. Ignored files (.gitignore) are left out, hidden ones too unless the glob or path \
names them."""


def find_tool(workspace: Workspace) -> FileTool[...]:
    """The tool `find` for *workspace*."""

    async def find(
        pattern: str, path: str = ".", limit: int = DEFAULT_LIMIT, *, ctx: ToolContext
    ) -> AgentToolResult:
        """Find files.

        Args:
            pattern: A glob.
            path: The folder to search; the whole workspace if it is left out.
            limit: Show at most so many.
        """
        if limit < 1:
            raise ToolError(f"The limit is {limit}, but it must be at least 1.")
        async with searched_folder(workspace, path) as place:
            if place.file is not None:
                raise ToolError(f"{path!r} is a file; find looks in folders.")
            glob = place.glob(pattern)
            found = _Found(_compiled(pattern, glob), limit, wants_hidden(glob), glob.endswith("/"))
            request = SearchRequest(place.folder, hidden=found.hidden)
            end = await _list(request, glob, found, ctx)
            others = _Others(found.fits)
            if not found.count and not end.timed_out:
                await _list_others(request, others, ctx)
        paths = sorted(one_line(place.shown(each)) for each in found.first())
        if found.folders:
            paths = [f"{each}/" for each in paths]
        links = sorted(one_line(place.shown(each)) for each in others.links)
        return _result(paths or links, found, end, _about(others, found.folders))

    return FileTool(find, workspace, label="Find", description=_DESCRIPTION, replay="safe")


def _compiled(pattern: str, glob: str) -> re.Pattern[str]:
    try:
        return compile_glob(composed(in_any_folder(glob.rstrip("/"))))
    except BadGlob as error:
        raise ToolError(f"The pattern {pattern!r} cannot be used: {error}.") from error


async def _list(request: SearchRequest, glob: str, found: _Found, ctx: ToolContext) -> SearchEnd:
    ripgrep = find_ripgrep()
    if ripgrep is not None:
        command = [ripgrep, "--files", "--null"]
        command += which_files(request)
        if not found.folders:
            command += name_filter(in_any_folder(glob))
        try:
            end = await run_search([*command, "--", "."], request.folder, found.take, ctx.signal)
        except OSError:  # it is there, but cannot be run
            end = SearchEnd(2, "", timed_out=False)
        if end.exit_code != 2 or found.count or end.timed_out:
            return end
    return await run_search(worker(request), request.folder, found.take, ctx.signal)


class _Found:
    """Picks from the files that are listed; runs in a thread."""

    def __init__(self, wanted: re.Pattern[str], limit: int, hidden: bool, folders: bool) -> None:
        self.hidden = hidden
        self.folders = folders
        self.count = 0
        self.limit = limit
        self._wanted = wanted
        self._seen: set[str] = set()
        """Folders that were looked at."""
        self._paths: list[str] = []

    def take(self, output: IO[bytes]) -> bool:
        rest = b""
        while piece := output.read(1 << 16):
            *names, rest = (rest + piece).split(b"\0")
            for name in names:
                path = os.fsdecode(name).removeprefix("./")
                if self.hidden or not _is_hidden(path):
                    self._look_at(path)
        return False

    def _look_at(self, path: str) -> None:
        if not self.folders:
            self._keep(path)
            return
        while (path := path.rpartition("/")[0]) and path not in self._seen:
            self._seen.add(path)
            self._keep(path)

    def fits(self, path: str) -> bool:
        """Whether *path* is like the glob."""
        return self._wanted.match(composed(path)) is not None

    def _keep(self, path: str) -> None:
        if not self.fits(path):
            return
        self.count += 1
        self._paths.append(path)
        if len(self._paths) > 2 * self.limit + 1000:
            self._paths = self.first()

    def first(self) -> list[str]:
        """As many as are wanted, those that come first."""
        return heapq.nsmallest(self.limit, self._paths)


class _Others:
    """Folders and links like the glob, of which the first are kept; runs in a thread."""

    def __init__(self, fits: Callable[[str], bool]) -> None:
        self.links: list[str] = []
        self.has_folder = False
        self._fits = fits

    def take(self, output: IO[bytes]) -> bool:
        rest = b""
        while piece := output.read(1 << 16):
            *names, rest = (rest + piece).split(b"\0")
            for name in names:
                path = os.fsdecode(name)
                if not self._fits(path.rstrip("/")):
                    continue
                if path.endswith("/"):
                    self.has_folder = True
                elif len(self.links) < MOST_LINKS:
                    self.links.append(path)
        return False


async def _list_others(request: SearchRequest, others: _Others, ctx: ToolContext) -> None:
    """What may have been meant when there is no such file: ripgrep does not list it."""
    asked = msgspec.structs.replace(request, others=True)
    await run_search(worker(asked), request.folder, others.take, ctx.signal, OTHERS_SECONDS)


def _about(others: _Others, folders: bool) -> list[str]:
    about: list[str] = []
    if others.links:
        what = "This is a link" if len(others.links) == 1 else "These are links"
        about.append(f"{what}: what is in a linked folder is found with the link as path.")
    if others.has_folder and not folders:
        about.append("A folder has such a name: end the pattern with a slash to find folders.")
    return about


def _is_hidden(path: str) -> bool:
    return path.startswith(".") or "/." in path


def _result(paths: list[str], found: _Found, end: SearchEnd, about: list[str]) -> AgentToolResult:
    cut = head("\n".join(paths), max_lines=1 << 62, max_bytes=MAX_BYTES - NOTICE_BYTES)
    shown = cut.lines if paths else 0
    notices: list[str] = []
    if shown < found.count:
        raise_it = " or raise the limit" if cut.by is None else ""
        notices.append(
            f"The first {shown:,} of {found.count:,} are shown: use a narrower pattern{raise_it}."
        )
    notices += end_notices(end)
    notices += about
    body = cut.text or ("No folders found" if found.folders else "No files found")
    if notices:
        body += "\n\n" + "\n".join(f"[{notice}]" for notice in notices)
    details = {"found": found.count, "truncated": shown < found.count or end.timed_out}
    return AgentToolResult([TextContent(body)], details, end.timed_out)
