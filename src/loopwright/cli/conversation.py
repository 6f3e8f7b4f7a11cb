"""Several turns on a terminal, one line at a time: the smallest thing one can talk to.

Not here: an editor, history, commands. Those come with the interactive mode.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from importlib.util import find_spec

from .. import __version__
from ..errors import LoopwrightError
from .exit_codes import ExitCode
from .options import RunOptions
from .run_command import tell_ending, text_view
from .streams import Output, print_error, print_note
from .talk import Talk, begin

__all__ = ["converse"]


def converse(options: RunOptions) -> ExitCode:
    """Read a line, answer it, until the input ends. Ctrl-C stops an answer, or leaves."""
    output = Output(sys.stdout)
    with asyncio.Runner() as runner:
        talk = runner.run(begin(options))
        if find_spec("readline") is not None:  # editing and history for input()
            import_module("readline")
        model = talk.agent.model
        print_note(
            f"loopwright {__version__}, {model.provider}/{model.id}. "
            "Ctrl-C stops an answer, Ctrl-D leaves."
        )
        if talk.greeting is not None:
            print_note(talk.greeting)
        line: str | None = None
        if not runner.run(talk.unfinished()):
            line = _next_line(output)
            if line is None:
                return ExitCode.DONE
        while True:
            if runner.run(_answer(talk, line, output)) == ExitCode.TERMINATED:
                return ExitCode.TERMINATED
            line = _next_line(output)
            if line is None:
                return ExitCode.DONE


def _next_line(output: Output) -> str | None:
    """What the user says next; None if that is all."""
    while True:
        try:
            line = input("> ")
        except EOFError:
            output.write("\n")
            return None
        if line.strip():
            return line


async def _answer(talk: Talk, line: str | None, output: Output) -> ExitCode:
    """One turn. What a session or a store refuses is told, and the conversation goes on."""
    try:
        prompt = None if line is None else talk.expand(line)
        done = await talk.turn(prompt, text_view(output))
    except LoopwrightError as error:
        print_error(error.message, hint=error.hint)
        return ExitCode.FAILED
    if done is None:
        return ExitCode.DONE
    result, code = done
    tell_ending(result, code, Output(sys.stderr))
    return code
