"""A tool on files that also takes its arguments as models know them from other tools.

A call in the words of another tool says plainly what is meant, so it is put in ours instead of being
refused. Paths come out of messages, listings and compilers, with quotes, a line break or a line
number on them.

Done before the arguments are checked, so that hooks and permissions judge the very path and text
that the tool gets. A name of ours always wins, and so does a file that is named just so.

Not here: which names there are (argument_names.py), or what a path may stand for once it is one
(paths.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, ClassVar, ParamSpec

from ..loop.agent_tool import ExecutionMode, Replay
from ..loop.function_tool import FunctionTool
from .argument_names import OTHER_NAMES, rename
from .workspace import Workspace

__all__ = ["FileTool", "cleaned_path", "is_of_windows"]

P = ParamSpec("P")

_AROUND = (
    " \t\n\r\f\v\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    + "".join(map(chr, (*range(0x2000, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A))))
    + "\ufeff"
)
"""Blanks, and marks nobody sees, which come along when a name is copied from a window."""

_LONGEST_PATH = 8192
"""No system takes a longer one, so it need not be looked at."""

_QUOTES = "\"'`"
_IN_SHELL = re.compile(r"\\([^\w./\\])")
"""A character that a shell would take for its own, with the backslash that takes its meaning."""

_OF_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")

_PLACE_IN_FILE = re.compile(r"(?::\d+(?:[:-]\d+)?:?|#L\d+(?:-L?\d+)?)\Z")


class FileTool(FunctionTool[P, Any]):
    """A function tool whose arguments have further names, and whose `path` is cleaned."""

    takes_places: ClassVar[bool] = True
    """A `:12` behind the name of a file that is there is the line that is meant."""

    def __init__(
        self,
        function: Callable[P, Any],
        workspace: Workspace,
        *,
        label: str,
        description: str | None = None,
        execution_mode: ExecutionMode | None = None,
        replay: Replay = "never",
    ) -> None:
        super().__init__(
            function,
            label=label,
            description=description,
            execution_mode=execution_mode,
            replay=replay,
        )
        self._workspace = workspace
        self._other_names = OTHER_NAMES[self.name]

    def prepare_arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """The arguments in our words."""
        rename(args, self._other_names)
        path = args.get("path")
        if isinstance(path, str):
            args["path"] = cleaned_path(path, self._workspace, takes_places=self.takes_places)
        return args


def cleaned_path(path: str, workspace: Workspace, *, takes_places: bool = True) -> str:
    """*path* without what only surrounds it: quotes, blanks, `file://`, backslashes, and, with
    *takes_places*, `:12`.

    Cleaning it once more changes nothing, so that what was judged is what is used.
    """

    def is_there(spelling: str) -> bool:
        # Where files are not on this machine the likeliest reading is taken.
        return workspace.on_disk and os.path.lexists(os.path.join(workspace.root, spelling))

    while "\0" not in path and len(path) < _LONGEST_PATH:
        cleaner = _cleaner(path)
        place = _PLACE_IN_FILE.search(cleaner) if takes_places else None
        if place is not None and not is_there(cleaner) and is_there(cleaner[: place.start()]):
            cleaner = cleaner[: place.start()]
        if not cleaner or cleaner == path or is_there(path):
            break
        path = cleaner
    return path


def is_of_windows(path: str) -> bool:
    """Whether *path* begins with a drive, or names a host as Windows does."""
    return _OF_WINDOWS.match(path) is not None


def _cleaner(path: str) -> str:
    plain = path.strip(_AROUND)
    if len(plain) > 2 and plain[0] == plain[-1] and plain[0] in _QUOTES:
        plain = plain[1:-1]
    if plain[:7].lower() == "file://":
        plain = _of_url(plain)
    if "\\" in plain and os.sep == "/" and not is_of_windows(plain):
        plain = _IN_SHELL.sub(r"\1", plain).replace("\\", "/")
    return plain


def _of_url(url: str) -> str:
    """The path in `file://host/path`, as RFC 8089 has it."""
    from urllib.parse import unquote  # hardly ever needed

    slash = url.find("/", len("file://"))
    path = unquote(url[slash:]) if slash > 0 else ""
    return path[1:] if os.sep == "\\" and is_of_windows(path[1:]) else path
