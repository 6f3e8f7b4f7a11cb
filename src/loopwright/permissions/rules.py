"""Rules as people write them: `bash(git status:*)`, `edit(src/**)`, `read(~/.ssh/**)`, `*`.  (pure)

A rule allows, denies or asks. It names a tool, with `*` and `?` for any characters, and may narrow
that to a pattern: a command line for `bash`, a path for the tools that work on files. Which rule
counts does not depend on order or on where it stands: deny beats ask, and ask beats allow.

`read` stands for everything that shows what is in a file, so for `grep`, `find` and `ls` too;
`edit` and `write` stand for each other. Whoever may not read a file may not edit it either, since
an edit shows what it changed.

Not here: whether a command or a path fits (command_rules.py, globs.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, cast

from ..errors import ConfigurationError
from .command_rules import command_pattern
from .globs import bad_glob

__all__ = [
    "CHANGING_TOOLS",
    "FILE_TOOLS",
    "READING_TOOLS",
    "Effect",
    "MalformedRule",
    "Rule",
    "parse_rule",
    "parse_rules",
]

Effect = Literal["allow", "deny", "ask"]

EFFECTS: tuple[Effect, ...] = ("allow", "deny", "ask")
READING_TOOLS = frozenset({"read", "grep", "find", "ls"})
CHANGING_TOOLS = frozenset({"edit", "write"})
FILE_TOOLS = READING_TOOLS | CHANGING_TOOLS
_OUR_TOOLS = FILE_TOOLS | {"bash", "task"}

_RULE = re.compile(r"(?P<tool>[^\s()]+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_EXAMPLE = 'write "tool" or "tool(pattern)", such as "bash(git status:*)" or "edit(src/**)"'


class MalformedRule(ConfigurationError):
    """A rule that means nothing, or not what it seems to. Says where it stands."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Made by `parse_rule`, which checks it."""

    effect: Effect
    tool: str
    """A tool's name, in which `*` and `?` stand for any characters."""
    pattern: str | None = None
    """None: every call of the tool."""
    where: str = field(default="", compare=False)
    """The file and key it comes from, for people."""

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    def covers(self, tool: str) -> bool:
        """Whether the rule speaks of *tool*, whatever its pattern."""
        if self.tool == "read":
            # An allowance to read is none to edit; a ban on reading is one on editing.
            return tool in READING_TOOLS or (tool == "edit" and self.effect != "allow")
        if self.tool in CHANGING_TOOLS:
            return tool in CHANGING_TOOLS
        return fnmatchcase(tool, self.tool)


def parse_rule(effect: Effect, text: str, *, where: str = "") -> Rule:
    """The rule that *text* spells. *where* is told in errors. Raises `MalformedRule`."""

    def wrong(what: str, hint: str = _EXAMPLE) -> MalformedRule:
        return MalformedRule(f"{where + ': ' if where else ''}the rule {text!r} {what}", hint=hint)

    if not text.strip():
        raise wrong("is empty")
    found = _RULE.fullmatch(text)
    if found is None:
        raise wrong("is no tool's name, or one with a pattern in ( ) behind it")
    tool, pattern = found["tool"], found["pattern"]
    if tool.lower() in _OUR_TOOLS and tool not in _OUR_TOOLS:
        # Such a ban would ban nothing, and nobody would notice.
        raise wrong(
            f"names {tool!r}, which is no tool", f'tools have small letters: "{tool.lower()}"'
        )
    if "[" in tool:  # fnmatch would take it for a set of characters
        raise wrong("has a [ in the tool's name; only * and ? are special there")
    if pattern is None:
        return Rule(effect, tool, where=where)
    if not pattern.strip() or pattern in ("*", ":*"):
        raise wrong("has a pattern that narrows nothing", f'write "{tool}" for every call of it')
    if tool == "bash":
        fault = command_pattern(pattern).fault(allowing=effect == "allow")
    elif tool in FILE_TOOLS:
        fault = bad_glob(pattern)
    elif set(tool) & set("*?"):
        raise wrong("has a pattern, but not one tool: what is a pattern of?", "name the tool")
    else:
        raise wrong(
            f"has a pattern, but calls of {tool!r} have none",
            f'write "{tool}"; patterns are for bash and for {", ".join(sorted(FILE_TOOLS))}',
        )
    if fault is not None:
        raise wrong(*fault)
    return Rule(effect, tool, pattern, where)


def parse_rules(table: Mapping[str, Any], *, where: str) -> list[Rule]:
    """The rules of a settings table with the lists `allow`, `deny` and `ask`.

    *where* names the file and table, such as `settings.toml: permissions`. Raises `MalformedRule`
    for the first wrong one; an unknown key is wrong too, since `dney` must not be passed over.
    """
    rules: list[Rule] = []
    for key, texts in table.items():
        at = f"{where}.{key}"
        if key not in EFFECTS:
            raise MalformedRule(
                f"{at}: no such list of rules", hint=f"there are {', '.join(EFFECTS)}"
            )
        if not isinstance(texts, Sequence) or isinstance(texts, str):
            raise MalformedRule(f"{at}: is not a list of rules", hint=f'{key} = ["bash"]')
        for number, text in enumerate(cast("Sequence[Any]", texts), start=1):
            if not isinstance(text, str):
                raise MalformedRule(f"{at}[{number}]: {text!r} is no text", hint=_EXAMPLE)
            rules.append(parse_rule(key, text, where=f"{at}[{number}]"))
    return rules
