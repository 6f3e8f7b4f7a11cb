"""Several turns on a terminal that can do nothing but show lines, one line at a time.

Not here: an editor, history, commands (interactive/).
"""

from __future__ import annotations

import asyncio
import sys

from .. import __version__
from ..errors import LoopwrightError
from ..permissions.gate import AllowAlways, AllowOnce, Answer, Deny, Question
from .bench.command_names import COMMAND_NAMES
from .exit_codes import ExitCode
from .live.opening import greeting, open_live, tell_of_start
from .live.session import LiveSession
from .one_turn import one_turn
from .options import RunOptions
from .render import call_text
from .run_command import tell_ending, text_view
from .streams import Output, print_error, print_note

__all__ = ["converse"]


def converse(options: RunOptions) -> ExitCode:
    """Read a line, answer it, until the input ends. Ctrl-C stops an answer, or leaves."""
    output = Output(sys.stdout)
    with asyncio.Runner() as runner:
        live = runner.run(open_live(options))
        try:
            return _converse(runner, live, options, output)
        finally:
            runner.run(live.aclose())


async def _decide(question: Question) -> Answer:
    """Ask in one line. An answer that is none of the letters is no."""
    why = question.decision.reason
    print_note(f"{call_text(question.tool_name, question.args)}: {why}")
    always = f", a: always {question.rule}" if question.rule is not None else ""
    line = await asyncio.to_thread(_read, f"y: once{always}, anything else: no> ")
    match (line or "").strip().lower():
        case "y" | "yes":
            return AllowOnce()
        case "a" if question.rule is not None:
            return AllowAlways()
        case _:
            return Deny()


def _read(prompt: str) -> str | None:
    try:
        return input(prompt)
    except EOFError:
        return None


def _converse(
    runner: asyncio.Runner, live: LiveSession, options: RunOptions, output: Output
) -> ExitCode:
    live.on_question = _decide
    tell_of_start(live)
    runner.run(live.bench.bring_up())
    model = live.agent.model
    print_note(
        f"loopwright {__version__}, {model.provider}/{model.id}. "
        "Ctrl-C stops an answer, Ctrl-D leaves."
    )
    told = greeting(live, forked=options.sessions.fork is not None)
    if told is not None:
        print_note(told)
    if live.unfinished is not None and runner.run(_answer(live, None, output)) == (
        ExitCode.TERMINATED
    ):
        return ExitCode.TERMINATED
    while (line := _next_line(output)) is not None:
        if runner.run(_answer(live, line, output)) == ExitCode.TERMINATED:
            return ExitCode.TERMINATED
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


async def _answer(live: LiveSession, line: str | None, output: Output) -> ExitCode:
    """One turn. What a session or a store refuses is told, and the conversation goes on."""
    try:
        said, images = (None, []) if line is None else await live.bench.expand(line)
        if line is not None and line[1:] in COMMAND_NAMES and line[0] == "/" and said == line:
            print_error(f"{line} needs a terminal that can move its cursor")
            return ExitCode.FAILED
        done = await one_turn(live, said, text_view(output), images=tuple(images))
    except LoopwrightError as error:
        print_error(error.message, hint=error.hint)
        return ExitCode.FAILED
    if done is None:
        return ExitCode.DONE
    result, code = done
    tell_ending(result, code, Output(sys.stderr))
    return code
