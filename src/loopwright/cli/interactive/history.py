"""What the user typed before, kept in a file that only they can read.

One JSON string a line, so that a prompt of several lines stays one. Several programs may add to the
file at once: each writes whole lines at its end. When it has grown too long, the newest part is
written anew.

Not here: searching in it (the editor of prompt_toolkit does that).
"""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit.history import History

__all__ = ["PromptHistory"]

KEPT = 1_000
"""So many prompts are offered again."""

LONGEST_FILE_BYTES = 2_000_000
LONGEST_PROMPT_CHARACTERS = 20_000
"""A longer one is most likely a pasted file, and is not kept."""


class PromptHistory(History):
    """The history of an editor. A file that cannot be used is done without: nobody wants to be
    kept from asking by it."""

    def __init__(
        self, file: Path | None, *, whole: Callable[[str], str] = lambda typed: typed
    ) -> None:
        """*file* None keeps nothing beyond this program. *whole* makes of what stood in the input
        what is written to the file: `Pastes.whole`."""
        super().__init__()
        self._file = file
        self._whole = whole

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        if self._file is None:
            return
        try:
            with _open(self._file, os.O_RDONLY) as stream:
                size = os.fstat(stream.fileno()).st_size
                stream.seek(max(0, size - LONGEST_FILE_BYTES))
                lines = stream.read().split(b"\n")
        except OSError:
            return
        if size > LONGEST_FILE_BYTES:
            lines = lines[1:]  # most likely torn
        found = [text for line in lines if (text := _decoded(line)) is not None][-KEPT:]
        if size > LONGEST_FILE_BYTES or len(lines) > 2 * KEPT:
            self._write_anew(found)
        yield from reversed(found)

    def append_string(self, string: str) -> None:
        """Add *string*, unless it is what was said last."""
        if not string.strip() or (self._loaded_strings and self._loaded_strings[0] == string):
            return
        super().append_string(string)

    def store_string(self, string: str) -> None:
        """Write it to the file's end."""
        string = self._whole(string)
        if self._file is None or len(string) > LONGEST_PROMPT_CHARACTERS:
            return
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as stream:
                stream.write(_encoded(string))
        except OSError:
            return

    def _write_anew(self, strings: list[str]) -> None:
        assert self._file is not None
        staged = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            with _open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as stream:
                stream.write(b"".join(map(_encoded, strings)))
            staged.replace(self._file)
        except OSError:
            staged.unlink(missing_ok=True)


def _encoded(string: str) -> bytes:
    # Escaped to ASCII, which also takes lone surrogates.
    return json.dumps(string).encode("ascii") + b"\n"


def _decoded(line: bytes) -> str | None:
    try:
        found: object = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, str) and found.strip() else None


def _open(file: Path, flags: int) -> io.FileIO:
    """Open *file* for its owner alone, and never through a link that somebody put there."""
    nofollow = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    # O_NONBLOCK: a pipe in its place must not hang us.
    nofollow |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(file, flags | nofollow, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(file))
        if hasattr(os, "fchmod") and os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
        return os.fdopen(descriptor, "rb" if flags & 0o3 == os.O_RDONLY else "wb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise
