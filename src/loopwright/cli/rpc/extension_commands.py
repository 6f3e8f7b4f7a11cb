"""Commands that extensions bring, run for a client.

Not here: running one (cli/extension_command.py), which there are (extensions/loading.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..extension_command import run_extension_command
from .commands import RunCommand
from .line_writer import LineWriter
from .output import Note, to_line
from .requests import LineRefused
from .response_data import CommandDone

if TYPE_CHECKING:
    from ..live.session import LiveSession

__all__ = ["run_command"]


async def run_command(command: RunCommand, live: LiveSession, writer: LineWriter) -> CommandDone:
    """Run a command of an extension. What it raises comes out, whatever it is."""

    def tell(text: str, *, into_input: bool) -> None:
        writer.put(to_line(Note(text, into_input=into_input)))

    wanted = command.name.removeprefix("/")
    for known in live.commands():
        if known.name == wanted:
            said = await run_extension_command(
                known,
                command.argument.strip(),
                live,
                note=lambda text: tell(text, into_input=False),
                set_input=lambda text: tell(text, into_input=True),
            )
            return CommandDone(said)
    names = ", ".join(sorted(one.name for one in live.commands()))
    raise LineRefused(
        "not_found",
        f"no extension has a command {command.name!r}",
        f"there are {names}" if names else "no extension here brings a command",
    )
