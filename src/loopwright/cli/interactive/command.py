"""A slash command of ours: its name, what it does, what can stand behind it.

Not here: the commands themselves (model_commands.py, session_commands.py, branch_commands.py,
list_commands.py), and which of them a line means (commands.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import ConfigurationError
from .screen import Screen

if TYPE_CHECKING:
    from ..live.session import LiveSession

__all__ = ["BuiltIn", "Run", "Words", "no_such_choice"]

Run = Callable[[str, "LiveSession", Screen], Awaitable[None]]
"""Called with what stands behind the name, without blanks around it. Raises `LoopwrightError`."""

Words = Callable[["LiveSession"], Sequence[tuple[str, str]]]
"""What the argument may be, each with its meaning."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """One command."""

    name: str
    """Without the slash."""
    meaning: str
    """One line, for lists."""
    run: Run
    argument: str = ""
    """How it is called in the help, such as `[name]`; empty if nothing can stand behind it."""
    words: Words | None = None
    at_any_time: bool = False
    """Also during a run."""


def no_such_choice(what: str, given: str, choices: Sequence[str]) -> ConfigurationError:
    """What to say if *given* is none of *choices*."""
    from difflib import get_close_matches

    near = get_close_matches(given.lower(), choices, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(choices)}"
    return ConfigurationError(f"there is no {what} {given!r}", hint=hint)
