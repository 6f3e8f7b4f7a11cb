"""Several turns on a terminal, one line at a time: the smallest thing one can talk to.

Not here: an editor, history, commands. Those come with the interactive mode.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from importlib.util import find_spec

from .. import Agent, __version__
from .exit_codes import ExitCode
from .run_command import bring_up, tell_ending, text_view
from .streams import Output, print_note
from .watch import watched_prompt

__all__ = ["converse"]


def converse(agent: Agent) -> ExitCode:
    """Read a line, answer it, until the input ends. Ctrl-C stops an answer, or leaves."""
    output, notes = Output(sys.stdout), Output(sys.stderr)
    if find_spec("readline") is not None:  # editing and history for input()
        import_module("readline")
    name = f"{agent.model.provider}/{agent.model.id}"
    print_note(f"loopwright {__version__}, {name}. Ctrl-C stops an answer, Ctrl-D leaves.")
    with asyncio.Runner() as runner:
        runner.run(bring_up(agent.model))
        while True:
            try:
                line = input("> ")
            except EOFError:
                output.write("\n")
                return ExitCode.DONE
            if not line.strip():
                continue
            result, code = runner.run(watched_prompt(agent, line, text_view(output)))
            tell_ending(result, code, notes)
            if code == ExitCode.TERMINATED:
                return code
