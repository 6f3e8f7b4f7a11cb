"""Whether a command of a command line fits the pattern of a rule for `bash`.                (pure)

`git status:*` is these words and any others behind them; anything else is exactly that command.
An allowance must fit to the letter, and never fits what is unclear. A ban reaches further: it sees
through a path before the name and through programs that start others, and says "maybe" where only
running it would tell: when a program that is not known to keep to itself is given such a command.

Not here: taking a command line apart (shell_command.py), what follows from a match (policy.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from .command_line import Command, Words
from .launchers import may_pass_on, program, runs_others
from .shell_command import parse_command_line

__all__ = ["CommandPattern", "Match", "command_pattern"]

Match = Literal["yes", "maybe", "no"]

MOST_WORDS = 200
"""Behind `sudo` and its kind, a command is looked for at each of so many words."""


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A pattern, taken apart."""

    text: str
    """The command line that it is, or begins with."""
    words: tuple[str, ...] | None
    """None: it is not one plain command, so that only the very same text fits."""
    is_prefix: bool

    def fault(self, *, allowing: bool) -> tuple[str, str] | None:
        """What is wrong with it in a rule, and what to do about it."""
        if self.is_prefix and self.words is None:
            return (
                "begins with more than one plain command",
                "a pattern with :* is a program and its first arguments",
            )
        if self.words is None and not allowing:
            return (
                "would catch no other spelling of this, since it is not one plain command",
                'name the program and its first arguments, then :*, as in "rm -rf:*"',
            )
        if self.is_prefix and self.words and allowing:
            reason = runs_others(self.words)
            if reason:
                return (
                    f"would allow nothing: {reason}, so what it starts is asked for each time",
                    "name the command that it starts, or write the whole command without :*",
                )
        return None

    def equals(self, text: str) -> bool:
        """Whether *text* is this very command line."""
        return not self.is_prefix and self.text == text

    def allows(self, command: Command) -> bool:
        """Whether *command* is, beyond doubt, one of those that are meant."""
        if command.unclear or self.words is None or not command.words:
            return False
        if not self.is_prefix:
            return command.words == self.words
        return command.words[: len(self.words)] == self.words

    def catches(self, command: Command) -> Match:
        """Whether *command* is, or may turn out to be, one of those that are meant."""
        if self.words is None:
            return "no"
        found: Match = "no"
        for words in _ways_to_see(command):
            match = self._catch(self.words, words)
            if match == "yes":
                return match
            if match == "maybe":
                found = match
        if found == "no" and may_pass_on(command.words) and self._is_passed_on(command.words[1:]):
            return "maybe"
        return found

    def _is_passed_on(self, arguments: Words) -> bool:
        """Whether one of those that are meant begins in *arguments*, or stands in one of them."""
        assert self.words is not None
        for at, word in enumerate(arguments):
            if word is None:
                continue
            if (
                _same_program(self.words[0], word)
                and self._catch(self.words, arguments[at:]) != "no"
            ):
                return True
            if any(blank in word for blank in " \t\n"):
                line = _parsed(word)
                if any(self.catches(command) != "no" for command in line.commands):
                    return True
                if line.unclear and _says(word, self.words[0]):
                    return True
        return False

    def _catch(self, wanted: tuple[str, ...], words: Words) -> Match:
        if not words:
            return "no"
        if words[0] is None:
            return "maybe"
        if not _same_program(wanted[0], words[0]):
            return "no"
        if self.is_prefix:
            return _begins(wanted[1:], words[1:])
        if None in words:
            return "no" if _begins(wanted[1:], words[1:]) == "no" else "maybe"
        return "yes" if wanted == (wanted[0], *words[1:]) else "no"


_parsed = lru_cache(maxsize=64)(parse_command_line)
"""Every ban looks at the same texts."""


def _ways_to_see(command: Command) -> list[Words]:
    ways = [command.words, command.spoken]
    if command.unclear and len(command.spoken) > MOST_WORDS:
        ways.append((None,))
    elif command.unclear:  # perhaps `sudo`, and the command is somewhere in its arguments
        # One that is not known could be anything; that is said once, not for every argument.
        ways += [w for i in range(1, len(command.spoken)) if (w := command.spoken[i:])[0]]
    return ways


def _begins(wanted: Words, words: Words) -> Match:
    """Whether *words* begin with those *wanted*, options in between making that a maybe."""
    sure = True
    at = 0
    for want in wanted:
        while at < len(words) and words[at] != want:
            word = words[at]
            if word is None:  # may be any word, or several, or none
                return "maybe"
            if sure and not word.startswith("-"):
                return "no"
            sure = False
            at += 1
        if at == len(words):
            return "no"
        at += 1
    return "yes" if sure else "maybe"


def _same_program(wanted: str, name: str) -> bool:
    if wanted == name:
        return True
    if "/" in wanted:
        return False
    return program(name).casefold() == wanted.casefold()  # some file systems ignore case


def _says(text: str, name: str) -> bool:
    """Whether *name* stands in *text* as a word of its own: `rm`, and not `format`."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


@lru_cache(maxsize=1024)
def command_pattern(pattern: str) -> CommandPattern:
    """*pattern* of a rule, taken apart. `CommandPattern.fault` says whether it makes sense."""
    text = pattern.removesuffix(":*")
    is_prefix = text != pattern
    line = parse_command_line(text)
    words: tuple[str, ...] | None = None
    if not line.unclear and len(line.commands) == 1:
        (command,) = line.commands
        known = tuple(word for word in command.words if word is not None)
        if known and len(known) == len(command.words) and not command.redirects and command.bare:
            words = known
    return CommandPattern(text, words, is_prefix)
