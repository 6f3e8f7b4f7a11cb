"""What goes wrong with files, in words a model can act on.

Not here: faults of one tool, which that tool words itself.
"""

from __future__ import annotations

import errno

from ..errors import ToolError
from .paths import PathRefused
from .text_limits import first_bytes

__all__ = ["in_words", "refused"]

_LONGEST_NAME = 500
"""Bytes of a path that are shown: a model may send any amount."""

_WORDS: dict[int, tuple[str, str | None]] = {
    errno.ENOENT: ("There is no file {name!r}.", "use ls or find to see what there is"),
    errno.EISDIR: ("{name!r} is a folder, not a file.", "use ls to see what is in it"),
    errno.ENOTDIR: ("{name!r}: it, or a part of the path, is no folder.", None),
    errno.EACCES: ("{name!r} may not be accessed: {reason}.", None),
    errno.EPERM: ("{name!r} may not be accessed: {reason}.", None),
    errno.ENOSPC: ("The disk is full; {name!r} is as it was.", None),
    errno.EDQUOT: ("The disk quota is used up; {name!r} is as it was.", None),
    errno.EROFS: ("{name!r} is on a file system that is mounted read-only.", None),
    errno.ENAMETOOLONG: ("The path {name!r} is too long for the system.", None),
    errno.ELOOP: ("{name!r}: its links lead in a circle, or one turned up just now.", None),
}


def in_words(name: str, error: OSError) -> ToolError:
    """*error*, met at the path *name*."""
    reason = (error.strerror or str(error)).lower()
    text, hint = _WORDS.get(error.errno or 0, ("{name!r}: {reason}.", None))
    return ToolError(text.format(name=first_bytes(name, _LONGEST_NAME), reason=reason), hint=hint)


def refused(given: str, root: str, *, readable: bool) -> PathRefused:
    """The refusal of the path *given*, which leads out of *root*; *readable*: only not for writing."""
    given = first_bytes(given, _LONGEST_NAME)
    if readable:
        return PathRefused(
            f"{given!r} may be read but not changed.",
            hint="write to a file inside the workspace instead",
        )
    return PathRefused(
        f"{given!r} leads out of the workspace {root!r}, directly or through a link.",
        hint="use a path inside the workspace",
    )
