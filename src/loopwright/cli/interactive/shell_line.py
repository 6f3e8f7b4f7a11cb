"""A line that begins with `!` is a command for the shell; behind `!!` the model is not told.  (pure)

Not here: running it (live/user_command.py).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MARK", "ShellLine", "as_text", "shell_line"]

MARK = "!"


class ShellLine(NamedTuple):
    """What is to be run."""

    command: str
    """Empty if nothing stood behind the mark."""
    told: bool
    """The model is shown it."""


def shell_line(line: str) -> ShellLine | None:
    """What *line* asks for; None if it is no command."""
    if not line.startswith(MARK):
        return None
    told = not line.startswith(MARK * 2)
    return ShellLine(line.removeprefix(MARK if told else MARK * 2).strip(), told)


def as_text(said: str) -> str:
    """*said* so that it is no command once it stands in the input again."""
    return f" {said}" if said.startswith(MARK) else said
