"""Several turns on a terminal that can do nothing but show lines, one line at a time.

Not here: an editor, history, commands (interactive/).
"""

from __future__ import annotations

import asyncio
import functools
import shutil
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
from .run_command import tell_ending, text_view
from .streams import Output, print_error, print_note

__all__ = ["converse"]

LEAST_ROWS = 8
"""Of what is asked about, on however small a terminal."""

ROWS_FOR_QUESTION = 6
"""Left for the question itself."""


def converse(options: RunOptions) -> ExitCode:
    """Answer the prompt, if there is one, then line after line, until the input ends. Ctrl-C stops
    an answer, or leaves."""
    output = Output(sys.stdout)
    with asyncio.Runner() as runner:
        live = runner.run(open_live(options))
        try:
            return _converse(runner, live, options, output)
        finally:
            runner.run(live.aclose())


async def _decide(live: LiveSession, question: Question) -> Answer:
    """Show what would be done, and ask in one line. An answer that is none of the letters is no."""
    # Only now: what draws questions brings the editor with it.
    from .interactive.one_line import one_line
    from .interactive.proposed_change import lines_of
    from .interactive.question import full_text, plain_rows, rule_text

    lines = await lines_of(live.bench, question)
    size = shutil.get_terminal_size()
    rows = plain_rows(lines, size.columns, max(LEAST_ROWS, size.lines - ROWS_FOR_QUESTION))
    title = f"{one_line(question.tool_name)} needs your word: {one_line(question.decision.reason)}"
    notes = Output(sys.stderr)
    notes.write("\n".join([title, *rows, ""]))  # as it is: a note is broken between words
    always = f", a: always {rule_text(question)}" if question.rule is not None else ""
    while True:
        line = await _read(f"y: once{always}, v: all of it, anything else: no> ")
        match line.strip().lower():
            case "y" | "yes":
                return AllowOnce()
            case "a" if question.rule is not None:
                return AllowAlways()
            case "v":
                notes.write(full_text(question, lines) + "\n")
            case _:
                return Deny()


async def _read(prompt: str) -> str:
    """A line, empty at the end of the input. Being cancelled takes no line from whoever reads the
    next one, as a thread that waits for it would."""
    Output(sys.stdout).write(prompt)
    loop, typed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin, typed.set)  # a terminal gives whole lines
    try:
        await typed.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return _typed_line()


def _typed_line() -> str:
    try:
        return input()
    except EOFError:
        return ""


def _converse(
    runner: asyncio.Runner, live: LiveSession, options: RunOptions, output: Output
) -> ExitCode:
    live.on_question = functools.partial(_decide, live)
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
    said = options.prompt if options.prompt.strip() else None
    # What was left unfinished is brought to its end before anything is said.
    if said is None and live.unfinished is None:
        said = _next_line(output)
        if said is None:
            return ExitCode.DONE
    while runner.run(_answer(live, said, output)) != ExitCode.TERMINATED:
        said = _next_line(output)
        if said is None:
            return ExitCode.DONE
    return ExitCode.TERMINATED


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
