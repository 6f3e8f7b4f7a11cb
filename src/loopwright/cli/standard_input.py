"""What was piped in, to be said together with the prompt."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable

__all__ = ["UnreadableInput", "read_piped_input", "with_piped_input"]

PATIENCE_SECONDS = 2.0
"""After so long without a byte, the user is told what is being waited for."""

WAITING = (
    "waiting for standard input, which is an open pipe; "
    "to go without it, start the command with `< /dev/null`"
)


class UnreadableInput(Exception):
    """Standard input is there and cannot be read."""


def read_piped_input(tell: Callable[[str], None]) -> str:
    """All of standard input; empty if it is a terminal, closed or empty.

    An open pipe is waited for without limit, since a slow command may stand before it: answering
    without its output would be worse than waiting. *tell* is given a note when that takes long.
    Bytes that are no UTF-8 become U+FFFD, and *tell* is given a note. Raises `UnreadableInput`.
    """
    stream = sys.stdin
    if stream is None or stream.closed or stream.isatty():  # None: started with `<&-`
        return ""
    try:
        if not _something_comes(stream.fileno()):
            tell(WAITING)
        data = stream.buffer.read()
    except OSError as error:
        raise UnreadableInput(error.strerror or str(error)) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        tell(f"standard input is not UTF-8 (first at byte {error.start}); such bytes become \ufffd")
        return data.decode("utf-8-sig", "replace")


def _something_comes(file: int) -> bool:
    """Whether reading from *file* gives something, or its end, before patience runs out."""
    mode = os.fstat(file).st_mode
    if sys.platform == "win32" or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return True
    import select

    poller = select.poll()
    poller.register(file, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(PATIENCE_SECONDS * 1000))


def with_piped_input(prompt: str, piped: str) -> str:
    """One text for the model: what was piped in comes first, the question about it last."""
    return "\n\n".join(part for part in (piped.strip("\n"), prompt.strip("\n")) if part.strip())
