"""Commands that extensions bring, run for a client.

Not here: which there are (extensions/loading.py).
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...loop.run_result import RunResult
from .answers import place_of
from .commands import RunCommand
from .line_writer import LineWriter
from .output import Note, to_line
from .requests import LineRefused
from .response_data import CommandDone

if TYPE_CHECKING:
    from ..live_session import LiveSession

__all__ = ["run_command"]


async def run_command(command: RunCommand, live: LiveSession, writer: LineWriter) -> CommandDone:
    """Run a command of an extension. What it raises comes out, whatever it is."""
    wanted = command.name.removeprefix("/")
    for known in live.commands():
        if known.name == wanted:
            said = known.run(_Context(live, writer), command.argument.strip())
            text = await said if inspect.isawaitable(said) else said
            return CommandDone(None if text is None else str(text))
    names = ", ".join(sorted(one.name for one in live.commands()))
    raise LineRefused(
        "not_found",
        f"no extension has a command {command.name!r}",
        f"there are {names}" if names else "no extension here brings a command",
    )


class _Context:
    """What a command may ask of us: `loopwright.extensions.CommandContext`."""

    def __init__(self, live: LiveSession, writer: LineWriter) -> None:
        self._live = live
        self._writer = writer

    @property
    def agent(self) -> Any:
        return self._live.agent

    @property
    def folder(self) -> Path:
        return self._live.folder

    @property
    def session_id(self) -> str | None:
        return place_of(self._live).session_id

    async def prompt(self, text: str) -> RunResult[Any]:
        return await self._live.prompt(text)

    async def steer(self, text: str) -> None:
        await self._live.steer(text)

    def note(self, text: str) -> None:
        self._writer.put(to_line(Note(text, into_input=False)))

    def set_input(self, text: str) -> None:
        self._writer.put(to_line(Note(text, into_input=True)))
