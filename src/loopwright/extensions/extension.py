"""What an extension is: tools, commands, hooks, providers, skills, templates, a word to the model.

An extension is a value. Making one does nothing, and what is wrong with it is raised where it is
written: `Misuse`, with the name of the extension and of the field.

Not here: where extensions are found (loading.py), how the hooks of several work together
(combining.py), what runs a command (the front ends).
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, cast

from ..errors import Misuse
from ..loop.agent import Agent
from ..loop.hooks import (
    AfterToolCallHook,
    BeforeToolCallHook,
    FinishTurnHook,
    PrepareRequest,
    TransformContext,
)
from ..loop.listeners import Listener
from ..loop.run_result import RunResult
from ..loop.tool import as_tool, check_names
from ..models.provider import Provider

__all__ = ["Command", "CommandContext", "Extension", "Hooks"]

_NAME = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*")
_COMMAND_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LONGEST_NAME = 64


class CommandContext(Protocol):
    """What a command may ask of the program it runs in. To be used on the event loop's thread."""

    @property
    def agent(self) -> Agent[Any]:
        """The agent of the session: its transcript, its tools, its model."""
        ...

    @property
    def folder(self) -> Path:
        """Where the agent works."""
        ...

    @property
    def session_id(self) -> str | None:
        """None: a new session, which is made with the first prompt."""
        ...

    async def prompt(self, text: str) -> RunResult[Any]:
        """Say *text* to the model as the user, and wait for the end of the run. Raises
        `LoopwrightError` if it is refused: during another run, for one."""
        ...

    async def steer(self, text: str) -> None:
        """Say *text* in the middle of the run that is going on."""
        ...

    def note(self, text: str) -> None:
        """Show *text* to the user. The model does not see it."""
        ...

    def set_input(self, text: str) -> None:
        """Put *text* into the user's input, to be changed and sent by them."""
        ...


RunCommand = Callable[[CommandContext, str], "str | Awaitable[str | None] | None"]
CompleteArgument = Callable[[str], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command: `/name argument`."""

    name: str
    """Without the slash; 1 to 64 letters, digits, `_`, `.` or `-`."""
    description: str
    """One line, for the list of commands."""
    run: RunCommand
    """`run(context, argument)`, sync or async. *argument* is what stands behind the name, without
    blanks around it. What it returns is shown to the user; None shows nothing."""
    complete: CompleteArgument | None = None
    """What the argument may be, given its beginning. Called while the user types: be quick."""

    def __post_init__(self) -> None:
        name: Any = self.name
        if isinstance(name, str) and name.startswith("/"):
            raise Misuse(f"the command {name!r} is named with its slash", hint=f"{name[1:]!r}")
        if not _matches(_COMMAND_NAME, name):
            raise Misuse(
                f"{name!r} cannot be the name of a command",
                hint=f"1 to {_LONGEST_NAME} letters, digits, '_', '.' or '-'",
            )
        _demand_text(self, f"command {name!r}", "description")
        for what in ("run", "complete"):
            value = getattr(self, what)
            if not callable(value) and not (what == "complete" and value is None):
                raise Misuse(
                    f"command {name!r}: {what} is a {type(value).__name__}, not a function"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Where an extension steps in. As in `Agent`: sync or async, and the signal may be left out."""

    before_tool_call: BeforeToolCallHook | None = None
    """May block a call, change its arguments, or want it approved. It is asked before the
    permissions are, and cannot allow what they do not. If it raises, the call is blocked."""
    after_tool_call: AfterToolCallHook | None = None
    """May change a result. If it raises, that is reported and the result stays."""
    prepare_request: PrepareRequest | None = None
    """May replace system prompt, messages and tools from here on. If it raises, the run ends."""
    finish_turn: FinishTurnHook | None = None
    """May end the run, or ask the model once more. If it raises, the run ends."""
    transform_context: TransformContext | None = None
    """May change the messages of one request; nothing is written back. If it raises, the run
    ends."""
    on_event: Listener | None = None
    """Hears every event; the run waits for it. If it raises, that is reported."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and not callable(value):
                raise Misuse(f"{each.name} is a function or None, not {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class Extension:
    """What somebody adds to the product. Raises `Misuse` for a field that cannot be used."""

    name: str
    """1 to 64 lower case letters, digits and single '-', '_' or '.' between them."""
    _: KW_ONLY
    version: str = ""
    description: str = ""
    """One line, for people."""
    tools: Sequence[Any] = ()
    """For the model: functions, `@tool` functions or `AgentTool`s; kept as `AgentTool`s."""
    commands: Sequence[Command] = ()
    """For the user."""
    hooks: Hooks = field(default_factory=Hooks)
    providers: Sequence[Provider] = ()
    """Vendors whose models can be asked by name."""
    skills: Sequence[str | os.PathLike[str]] = ()
    """Folders of skills, or their Markdown files; absolute paths."""
    templates: Sequence[str | os.PathLike[str]] = ()
    """Folders of prompt templates, or their files; absolute paths."""
    system_prompt: str = ""
    """Added to the system prompt."""

    def __post_init__(self) -> None:
        name: Any = self.name
        if not _matches(_NAME, name):
            raise Misuse(
                f"{name!r} cannot be the name of an extension",
                hint=f"1 to {_LONGEST_NAME} of a-z and 0-9, with single '-', '_' or '.' between",
            )
        here = f"extension {name!r}"
        _demand_text(self, here, "version", "description", "system_prompt")
        if not isinstance(cast("Any", self.hooks), Hooks):
            raise Misuse(f"{here}: hooks is a {type(self.hooks).__name__}", hint="Hooks(...)")
        tools = tuple(as_tool(each) for each in _listed(self, here, "tools"))
        check_names(tools)
        object.__setattr__(self, "tools", tools)
        _demand_kind(self, here, "commands", Command)
        _demand_kind(self, here, "providers", Provider)
        _demand_unique(here, "commands", [command.name for command in self.commands])
        _demand_unique(here, "providers", [provider.id for provider in self.providers])
        for what in ("skills", "templates"):
            _demand_paths(self, here, what)


def _matches(pattern: re.Pattern[str], name: Any) -> bool:
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and bool(pattern.fullmatch(name))


def _demand_text(thing: Any, here: str, *names: str) -> None:
    for name in names:
        value = getattr(thing, name)
        if not isinstance(value, str):
            raise Misuse(f"{here}: {name} is a {type(value).__name__}, not text")


def _listed(extension: Extension, here: str, name: str) -> tuple[Any, ...]:
    """The field *name* as a tuple: it shall not change behind our back."""
    value = getattr(extension, name)
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise Misuse(f"{here}: {name} is a {type(value).__name__}, not a list")
    return tuple(cast("Iterable[Any]", value))


def _demand_kind(extension: Extension, here: str, name: str, kind: type) -> None:
    values = _listed(extension, here, name)
    for value in values:
        if not isinstance(value, kind):
            raise Misuse(
                f"{here}: there is a {type(value).__name__} among its {name}",
                hint=f"each is a {kind.__name__}(...)",
            )
    object.__setattr__(extension, name, values)


def _demand_unique(here: str, what: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise Misuse(f"{here}: two of its {what} are named {name!r}")


def _demand_paths(extension: Extension, here: str, name: str) -> None:
    values = _listed(extension, here, name)
    for value in values:
        if not isinstance(value, str | os.PathLike):
            raise Misuse(f"{here}: there is a {type(value).__name__} among its {name}, not a path")
        path = os.fsdecode(cast("str | os.PathLike[str]", value))
        if not os.path.isabs(path):
            raise Misuse(
                f"{here}: the path {path!r} among its {name} is not absolute",
                hint=f"Path(__file__).parent / {path!r}",
            )
    object.__setattr__(extension, name, values)
