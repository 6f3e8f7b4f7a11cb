"""Which command a line means, and running it.

A line is a command if its first character is a slash and its first word names one. It is text, to
be sent, if that word names a template or a skill, holds another slash (`/etc/hosts is odd`), is
something that is there (`/tmp is full`), or is no word at all (`// a comment`). Any other `/word`
is an error that names what is near: nobody's mistyped command is sent to a model. A blank in front
makes text of anything.

Not here: what the commands do (model_commands.py, session_commands.py, branch_commands.py,
list_commands.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import LoopwrightError
from ..extension_command import run_extension_command
from . import branch_commands, list_commands, model_commands, session_commands
from .command import BuiltIn
from .screen import Screen

if TYPE_CHECKING:
    from ...extensions import Command
    from ..live.session import LiveSession

__all__ = ["BUILT_IN", "argument_words", "command_words", "run_command"]

_WORD = re.compile(r"/(?P<name>\S*)(?:\s+(?P<argument>.*))?\Z", re.DOTALL)
_NAME = re.compile(r"[A-Za-z][\w-]*(?::[\w.-]*)?\Z", re.ASCII)
SKILL = "skill:"


async def _show_help(argument: str, live: LiveSession, screen: Screen) -> None:
    more = [(f"/{command.name}", command.description) for command in _of_extensions(live).values()]
    screen.note(list_commands.help_text(BUILT_IN.values(), more))


_COMMANDS = (
    BuiltIn(
        "model",
        "choose the model",
        model_commands.choose_model,
        "[vendor/id]",
        words=model_commands.model_words,
        at_any_time=True,
    ),
    BuiltIn(
        "thinking",
        "choose how hard it thinks",
        model_commands.choose_thinking,
        "[level]",
        words=model_commands.thinking_words,
        at_any_time=True,
    ),
    BuiltIn(
        "permissions",
        "choose what it may do without asking",
        model_commands.choose_permissions,
        "[mode]",
        words=model_commands.mode_words,
        at_any_time=True,
    ),
    BuiltIn(
        "compact", "replace what is old by a summary", session_commands.compact, "[what to heed]"
    ),
    BuiltIn("tree", "go on from an earlier place of this session", branch_commands.tree),
    BuiltIn("fork", "go on in a copy of this session", branch_commands.fork),
    BuiltIn("resume", "go on in another session", session_commands.resume, "[id or name]"),
    BuiltIn("new", "go on in a new session", session_commands.new_session),
    BuiltIn(
        "name", "give the session a name", session_commands.name_session, "[name]", at_any_time=True
    ),
    BuiltIn(
        "session",
        "tell what is known of this session",
        session_commands.show_session,
        at_any_time=True,
    ),
    BuiltIn(
        "copy",
        "put the last reply on the clipboard",
        session_commands.copy,
        at_any_time=True,
    ),
    BuiltIn(
        "export",
        "write the session to a file (.html .md .json .jsonl)",
        session_commands.export,
        "[file or format]",
        at_any_time=True,
    ),
    BuiltIn("templates", "list the templates", list_commands.show_templates, at_any_time=True),
    BuiltIn("skills", "list the skills", list_commands.show_skills, at_any_time=True),
    BuiltIn(
        "theme",
        "choose the colours",
        list_commands.choose_theme,
        "[name]",
        words=list_commands.theme_words,
        at_any_time=True,
    ),
    BuiltIn(
        "thinking-display",
        "show the model's thinking, or fold it",
        list_commands.toggle_thinking,
        at_any_time=True,
    ),
    BuiltIn("help", "list commands and keys", _show_help, at_any_time=True),
    BuiltIn("quit", "leave", list_commands.quit_program, at_any_time=True),
    BuiltIn("exit", "leave", list_commands.quit_program, at_any_time=True),
)

BUILT_IN: dict[str, BuiltIn] = {command.name: command for command in _COMMANDS}
"""Our commands, by name, in the order of the help."""


async def run_command(line: str, live: LiveSession, screen: Screen) -> bool:
    """Run the command that *line* is. False: it is none, send it as text.

    *line* is what was typed, blanks in front included. What goes wrong is shown on *screen*, never
    raised.
    """
    found = _WORD.match(line)
    if found is None:
        return False
    name, argument = found["name"], (found["argument"] or "").strip()
    try:
        if name in BUILT_IN:
            screen.said(line)
            await _run_built_in(BUILT_IN[name], argument, live, screen)
            return True
        command = _of_extensions(live).get(name)
        if command is not None:
            screen.said(line)
            await _run_of_extension(command, argument, live, screen)
            return True
    except LoopwrightError as error:
        screen.error(error.message, error.hint)
        return True
    if _is_text(name, live):
        return False
    screen.said(line)
    screen.error(f"there is no command /{name}", _near(name, live))
    return True


def _is_text(name: str, live: LiveSession) -> bool:
    resources = live.bench.resources
    if any(template.name == name for template in resources.templates):
        return True
    if name.startswith(SKILL):
        return any(f"{SKILL}{skill.name}" == name for skill in resources.skills)
    return _NAME.match(name) is None or os.path.lexists(f"/{name}")


def _near(name: str, live: LiveSession) -> str:
    from difflib import get_close_matches

    resources = live.bench.resources
    if name.startswith(SKILL):
        names = [f"{SKILL}{skill.name}" for skill in resources.skills]
        if not names:
            return "there are no skills; .loopwright/skills/NAME/SKILL.md makes one"
    else:
        names = [*BUILT_IN, *_of_extensions(live), *(one.name for one in resources.templates)]
    near = get_close_matches(name.lower(), names, 3, 0.5)
    # A beginning is near as well, however short it is.
    near += [one for one in names if one.startswith(name.lower()) and one not in near]
    meant = f"did you mean {' or '.join([f'/{one}' for one in near[:3]])}? " if near else ""
    return f"{meant}/help lists all; with a blank in front it is sent as text"


async def _run_built_in(command: BuiltIn, argument: str, live: LiveSession, screen: Screen) -> None:
    if argument and not command.argument:
        screen.error(
            f"/{command.name} is followed by nothing",
            "with a blank in front the line is sent as text",
        )
        return
    if live.working and not command.at_any_time:
        screen.note(
            f"/{command.name} has to wait: the model is at work; esc interrupts it, "
            "and what you type without a slash steers it"
        )
        return
    await command.run(argument, live, screen)


# -- extensions --------------------------------------------------------------------------------


def _of_extensions(live: LiveSession) -> dict[str, Command]:
    """By name; the first of a name counts, and ours come before all."""
    found: dict[str, Command] = {}
    for command in live.commands():
        if command.name not in BUILT_IN:
            found.setdefault(command.name, command)
    return found


async def _run_of_extension(
    command: Command, argument: str, live: LiveSession, screen: Screen
) -> None:
    try:
        said = await run_extension_command(
            command, argument, live, note=screen.note, set_input=screen.set_input
        )
    except LoopwrightError:
        raise
    except Exception as error:  # noqa: BLE001 - foreign code; the program goes on
        screen.error(f"/{command.name} failed: {type(error).__name__}: {error}")
        return
    if said is not None:
        screen.note(said)


# -- for completion ----------------------------------------------------------------------------


def command_words(live: LiveSession) -> list[tuple[str, str]]:
    """Every `/name` that can begin a line, with its meaning."""
    resources = live.bench.resources
    words = [(f"/{command.name}", command.meaning) for command in BUILT_IN.values()]
    words += [(f"/{name}", command.description) for name, command in _of_extensions(live).items()]
    taken = {name for name, _ in words}
    words += [
        (f"/{template.name}", template.description)
        for template in resources.templates
        if f"/{template.name}" not in taken
    ]
    return words + [(f"/{SKILL}{skill.name}", skill.description) for skill in resources.skills]


def argument_words(live: LiveSession, name: str, typed: str) -> Sequence[tuple[str, str]]:
    """What can stand behind the command *name* (without slash), of which *typed* is there."""
    if name in BUILT_IN:
        words = BUILT_IN[name].words
        return [] if words is None else words(live)
    command = _of_extensions(live).get(name)
    if command is None or command.complete is None:
        return []
    try:
        return [(str(word), "") for word in command.complete(typed)]
    except (Exception, SystemExit):  # noqa: BLE001 - foreign code; nothing to complete then
        return []
