"""What a model may mean by a path: its spelling, and whether it lies where the tools may go.

Models copy paths from many places: with an `@` in front, with spaces that are none, with the
apostrophe of a keyboard where the file name has that of a typesetter. The path as it was given is
always tried first.

Not here: links, which only the file system knows (local_workspace.py). Everything is text.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence

from ..errors import ToolError

__all__ = [
    "PathRefused",
    "is_within",
    "is_within_any",
    "lock_key",
    "odd_folder",
    "shown",
    "spellings",
]


class PathRefused(ToolError):
    """The path leads where the tools may not go. Nothing was read, made or changed."""


SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
"""Everything Unicode calls a space and a keyboard does not have."""

_BEFORE_AM_PM = re.compile(r" (?=[AaPp]\.?[Mm]\b)")


def spellings(path: str, home: str, *, guess: bool) -> list[str]:
    """What *path* may stand for, likeliest first, absolute or relative to the workspace.

    The first is *path* as given. The second has a leading `@` removed, `~` expanded and odd spaces
    made plain; it is the name of a file that is still to be made. With *guess*, for files that must
    be there, the names macOS gives come next: a narrow space before AM or PM, letters and accents
    apart, a typographic apostrophe. Some may be the same.

    Raises `ToolError` for what can be no path.
    """
    if not path:
        raise ToolError("The path is empty.", hint='give a path, such as "src/main.py"')
    if "\0" in path:
        raise ToolError("The path holds a NUL character, which no file name has.")
    plain = SPACES.sub(" ", path.removeprefix("@"))
    if plain == "~" or plain.startswith(("~/", "~" + os.sep)):
        plain = home + plain[1:]
    plain = plain or "."
    if not guess:
        return [path, plain]
    narrow = _BEFORE_AM_PM.sub("\u202f", plain)
    composed = unicodedata.normalize("NFC", plain)
    apart = unicodedata.normalize("NFD", plain)
    narrow_apart = unicodedata.normalize("NFD", narrow)
    curly = [name.replace("'", "\u2019") for name in (plain, apart, narrow_apart)]
    return [path, plain, narrow, composed, apart, narrow_apart, *curly]


def odd_folder(given: str) -> str | None:
    """The folder that *given* begins with, if that has a name `spellings` would change.

    Where there is such a folder, a new file belongs into it: `@scope/new.ts`.
    """
    first, slash, _ = given.removeprefix("./").partition("/")
    return first if slash and (first[:1] in ("@", "~") or SPACES.search(first)) else None


def is_within(path: str, folder: str) -> bool:
    """Whether *path* is *folder* or below it. Both are real paths: absolute, no links, no `..`."""
    return path == folder or path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def is_within_any(path: str, folders: Sequence[str]) -> bool:
    """Whether *path* is one of *folders*, or below one."""
    return any(is_within(path, folder) for folder in folders)


def shown(path: str, root: str) -> str:
    """*path* for people and models: relative to *root* if it lies there, with forward slashes."""
    if path == root:
        return "."
    if is_within(path, root):
        path = path[len(root) :].lstrip(os.sep)
    return path if os.sep == "/" else path.replace(os.sep, "/")


def lock_key(path: str) -> str:
    """One name for all real paths that may be one file.

    File systems that ignore case, or the form of accents, know the same file by several. On those
    that do not, two files share a lock now and then, which costs a moment.
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
