"""The commands of a line of bash, as far as they are known.                                 (pure)

Not here: how they are found (shell_command.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Command", "CommandLine", "Redirect", "Words"]

Words = tuple[str | None, ...]
"""A program's name and what it is given. None is a word that is only known when it runs."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """A file that is read or written without any program asking for it."""

    kind: Literal["read", "write"]
    path: str | None
    """None: only known when it runs."""


@dataclass(frozen=True, slots=True)
class Command:
    """One program (or builtin) and what it is given. No words: assignments or redirects only."""

    words: Words
    """What is run in the end: of `timeout 5 make` it is `make`. None is a word not known yet."""
    spoken: Words
    """As it stands there."""
    redirects: tuple[Redirect, ...] = ()
    unclear: str = ""
    """Why no pattern may allow it. Empty: it is what it looks like."""
    bare: bool = True
    """Nothing is assigned before it."""
    names: tuple[str, ...] = ()
    """What it is given that may be the name of a file, `~` and `*` as they stand there."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """All commands of a line, those in substitutions included, in the order in which they end."""

    commands: tuple[Command, ...]
    unclear: str = ""
    """Why there may be other commands than these. Empty: these are all."""
