"""A command that an extension brings, run: what it may ask of the program it runs in.

Not here: which commands there are (loopwright.extensions), and showing what comes of one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..loop.run_result import RunResult

if TYPE_CHECKING:
    from ..extensions import Command
    from .live.session import LiveSession

__all__ = ["run_extension_command"]


async def run_extension_command(
    command: Command,
    argument: str,
    live: LiveSession,
    *,
    note: Callable[[str], object],
    set_input: Callable[[str], object],
) -> str | None:
    """What *command* says when it is done. *note* shows the user a text, *set_input* puts one into
    their input.

    Raises whatever the command raises, but for SystemExit, by which a module that was meant for a
    command line would end the whole program: a RuntimeError tells of it.
    """
    try:
        said: Any = command.run(_Context(live, note, set_input), argument)
        if inspect.isawaitable(said):
            said = await said
    except SystemExit as ending:
        raise RuntimeError(f"it called sys.exit({ending.code!r})") from ending
    return None if said is None else str(said)


class _Context:
    """The `loopwright.extensions.CommandContext` of a live session."""

    def __init__(
        self,
        live: LiveSession,
        note: Callable[[str], object],
        set_input: Callable[[str], object],
    ) -> None:
        self._live = live
        self._note = note
        self._set_input = set_input

    @property
    def agent(self) -> Any:
        return self._live.agent

    @property
    def folder(self) -> Path:
        return self._live.folder

    @property
    def session_id(self) -> str | None:
        info = self._live.info
        return None if info is None else info.id

    async def prompt(self, text: str) -> RunResult[Any]:
        return await self._live.prompt(text)

    async def steer(self, text: str) -> None:
        await self._live.steer(text)

    def note(self, text: str) -> None:
        self._note(str(text))

    def set_input(self, text: str) -> None:
        self._set_input(str(text))
