"""A command that was mistyped, told from something to say: what is sent to a model may cost money.

Only what nobody would say is taken for a mistake: a word one slip away from a command, alone, or
with what that command takes behind it. "session handling is broken" is something to say.

Not here: the commands (app.py).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

__all__ = ["meant_command"]

_COMMANDS = (
    "completion",
    "config",
    "demo",
    "doctor",
    "keys",
    "models",
    "sessions",
    "trust",
)
_BELOW = {
    "completion": ("bash", "zsh", "fish"),
    "config": ("get", "set", "unset", "path"),
    "keys": ("set", "list", "remove"),
}
_ORDINARY = frozenset(
    {
        "key",
        "modals",
        "model",
        "modes",
        "modules",
        "morels",
        "motels",
        "session",
        "trusts",
        "trusty",
    }
)
"""Words that people write to a model, and that are one slip away from a command."""
_MOST_WORDS = 3


def meant_command(arguments: Sequence[str]) -> str | None:
    """What was meant by *arguments*, behind `loopwright`; None if they are as they shall be."""
    if not arguments or arguments[0] in _COMMANDS:
        return None
    word, rest = arguments[0], arguments[1:]
    if not rest or rest[0].startswith("-"):
        from difflib import get_close_matches

        near = get_close_matches(word, _COMMANDS, n=1, cutoff=0.75)
        return shlex.join([*near, *rest]) if near else None
    words = [each for each in arguments if not each.startswith("-")]
    if len(words) > _MOST_WORDS:
        return None
    command = _near(word, _COMMANDS) or ("sessions" if _is_near(word, "session") else None)
    taken = None if command is None else _taken(command, word, words[1:])
    return None if command is None or taken is None else shlex.join([command, taken, *rest[1:]])


def _taken(command: str, word: str, words: Sequence[str]) -> str | None:
    """The first of *words* as *command* takes it; None if it would not take them."""
    first, *more = words
    if command == "models":  # words to look for
        return first if word not in _ORDINARY and not more else None
    if command == "trust":  # a folder
        return first if ("/" in first or first in (".", "~")) and not more else None
    below = _below(command)
    if word in _ORDINARY:  # "session list" is meant, "session search broken" may be said
        plain = any(each.isalpha() for each in more)
        return first if first in below and not plain else None
    return _near(first, below)


def _below(command: str) -> Sequence[str]:
    if command != "sessions":
        return _BELOW.get(command, ())
    from .sessions.app import sessions_app

    return [name for name in sessions_app() if not name.startswith("-")]


def _near(word: str, names: Sequence[str]) -> str | None:
    """The one of *names* that is *word*, or else is one slip away from it."""
    if word in names:
        return word
    return next((name for name in names if _is_near(word, name)), None)


def _is_near(word: str, name: str) -> bool:
    """Whether *word* is *name* but for one letter too many, too few, or wrong, or two swapped."""
    if abs(len(word) - len(name)) > 1:
        return False
    if len(word) > len(name):
        word, name = name, word
    same = 0
    while same < len(word) and word[same] == name[same]:
        same += 1
    here, there = word[same:], name[same:]
    if len(here) < len(there):
        return here == there[1:]
    swapped = here[1:2] + here[:1] + here[2:]
    return here[1:] == there[1:] or swapped == there
