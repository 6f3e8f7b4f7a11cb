"""Reading the small text files that people leave for an agent, and what is said of the others.

Such a file may come with anybody's project. So only regular files are opened (a pipe would wait for
ever), never more than a bound is read, and what cannot be used becomes a `Diagnostic`; nothing here
raises out of loading, and nothing that is read is ever executed.

Not here: where the files are looked for (places.py), or what they mean.
"""

from __future__ import annotations

import codecs
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["Diagnostic", "DiagnosticCode", "ReadText", "Unreadable", "read_text"]

DiagnosticCode = Literal[
    "not-found",  # a path that was given explicitly leads nowhere
    "unreadable",  # no rights, no regular file, an error of the disk
    "not-text",  # not UTF-8
    "too-large",  # not loaded for its size
    "cut",  # loaded up to a bound
    "too-many-files",  # a search was ended early
    "outside-project",  # a link in a project leads out of it
    "not-ours",  # above the project, and another user's
    "not-trusted",  # replaces or extends the prompt, in a folder that the user does not trust
    "bad-frontmatter",  # no YAML mapping between the fences
    "no-description",  # a skill without one is not loaded
    "bad-field",  # a field is of the wrong kind and was not used
    "misnamed",  # not loaded, though the name is nearly that of a file that would be
    "bad-name",  # loaded, though the name breaks the rules
    "long-description",  # loaded, and cut where it is listed
    "name-collision",  # another one of that name was found first
    "bad-ignore-pattern",  # a line of an ignore file was not used
]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something about a file that its author should know. Never a reason to stop."""

    code: DiagnosticCode
    message: str
    """What is wrong and what was done about it, without the path."""
    path: Path

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class ReadText:
    """The beginning of a file, or all of it."""

    text: str
    size: int
    """Bytes of the whole file."""
    cut: bool
    """The text ends before the file does."""


class Unreadable(Exception):
    """Inside this layer only: why a file gives no text. It becomes a diagnostic."""

    def __init__(self, code: DiagnosticCode, message: str) -> None:
        super().__init__(message)
        self.code: DiagnosticCode = code

    def of(self, path: Path) -> Diagnostic:
        return Diagnostic(self.code, str(self), path)


def read_text(path: Path, *, most_bytes: int) -> ReadText:
    """At most *most_bytes* of *path*, which is UTF-8 and may start with a byte order mark.

    CRLF becomes LF, so that the same project gives the same prompt on every machine. Raises
    `Unreadable`.
    """
    try:
        # Opened without waiting and looked at while open: what is checked is what is read.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise Unreadable("unreadable", "no regular file; left out")
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise Unreadable("unreadable", f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a path that no system takes
        raise Unreadable("unreadable", f"cannot be read: {error}") from error
    cut = len(data) > most_bytes
    try:
        # `final=False` forgives the half of a character where the text is cut.
        text = codecs.getincrementaldecoder("utf-8")().decode(data[:most_bytes], final=not cut)
    except UnicodeDecodeError as error:
        raise Unreadable(
            "not-text", f"is not UTF-8 (byte {error.start}); left out, save it as UTF-8"
        ) from error
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    return ReadText(text, max(found.st_size, len(data)), cut)
