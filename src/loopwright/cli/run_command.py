"""`loopwright "prompt"`: which mode is meant, and asking once.

Not here: the interactive mode (interactive/run.py), the rpc mode (rpc/server.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import RunResult
from ..errors import ConfigurationError
from ..events import AgentEvent
from .exit_codes import ExitCode
from .json_mode import json_line, session_line
from .options import RunOptions
from .places import working_folder
from .render import Answer, ending_note, usage_text
from .sessions.choice import NothingPicked
from .standard_input import UnreadableInput, read_piped_input, with_piped_input
from .streams import Output, check_output, print_error, print_note

if TYPE_CHECKING:
    from .live.session import LiveSession
    from .one_turn import View

__all__ = ["json_view", "run", "tell_ending", "text_view"]


def run(options: RunOptions) -> ExitCode:
    """Converse on a terminal, obey a program in the mode `rpc`, or ask once.

    Raises `ConfigurationError` and `SessionError` before anything is run, OSError if the output
    cannot be written.
    """
    if contradiction := options.contradiction():
        print_error(contradiction, hint="leave one of them out")
        return ExitCode.USAGE
    if options.sessions.pick and not _can_be_asked():
        print_error(
            "--resume asks which session is meant, and there is no terminal to ask at",
            hint="name it: --session ID; `loopwright sessions list` shows the ids\n"
            "or --continue for the last one of this folder",
        )
        return ExitCode.USAGE
    try:
        if options.mode == "rpc":
            return _serve(options)
        if options.mode == "text" and not options.print_only and _on_a_terminal():
            return _converse(options)
        return _ask(options)
    except NothingPicked:
        return ExitCode.DONE


def _converse(options: RunOptions) -> ExitCode:
    if os.environ.get("TERM", "dumb") in ("dumb", ""):  # it cannot move the cursor
        from .conversation import converse

        return converse(options)
    from .interactive.run import run_interactive

    _ask_for_trust()
    known = None
    if options.sessions.pick:  # a list to choose from, while the terminal still reads lines
        from .sessions.choice import choose_session

        known = asyncio.run(choose_session(options.sessions, str(working_folder())))

    async def open_session(note: Callable[[str], object]) -> LiveSession:
        # Only now: the prompt is on the screen, and what this needs takes a moment to import.
        from .live.opening import open_known, open_live

        if known is None:
            return await open_live(options, note=note)
        return await open_known(options, working_folder(), known, note=note)

    return run_interactive(options, open_session)


def _ask_for_trust() -> None:
    """Before anything of the project's counts. Whoever says no is asked again the next time."""
    from pathlib import Path

    from .settings.trust import is_trusted, trust_folder, trust_question

    folder = Path()
    question = None if is_trusted(folder) else trust_question(folder)
    if question is None:
        return
    print_note(question)
    try:
        answer = input("Trust this folder? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() in ("y", "yes"):
        try:
            trust_folder(None)
        except ConfigurationError as error:  # home, for one: the project is passed over
            print_error(error.message, hint=error.hint)


def _serve(options: RunOptions) -> ExitCode:
    from .live.opening import open_live
    from .rpc.server import serve

    check_output()
    stdin = None if sys.stdin is None else sys.stdin.buffer  # None: started with `<&-`
    return asyncio.run(serve(lambda: open_live(options), stdin, sys.stdout.buffer))


def _ask(options: RunOptions) -> ExitCode:
    check_output()
    try:
        piped = read_piped_input(print_note)
    except UnreadableInput as error:
        print_error(
            f"standard input cannot be read: {error}",
            hint="redirect it from a file, or from /dev/null to go without",
        )
        return ExitCode.USAGE
    says_nothing = not with_piped_input(options.prompt, piped)
    if says_nothing and not options.sessions.goes_on:
        return _nothing_to_say("there is nothing to say")
    return asyncio.run(_ask_once(options, piped, says_nothing=says_nothing))


def _nothing_to_say(what: str) -> ExitCode:
    print_error(
        f"{what}: no prompt was given and nothing was piped in",
        hint='loopwright "your question", or: some-command | loopwright "about that"',
    )
    return ExitCode.USAGE


def _on_a_terminal() -> bool:
    return (
        sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()
    )  # None: started with `<&-`


def _can_be_asked() -> bool:
    return sys.stderr.isatty() and sys.stdin is not None and sys.stdin.isatty()


async def _ask_once(options: RunOptions, piped: str, *, says_nothing: bool) -> ExitCode:
    """Say the prompt and write what comes to standard output."""
    from .live.opening import open_live, tell_of_start
    from .one_turn import one_turn

    live = await open_live(options)
    try:
        output, notes = Output(sys.stdout), Output(sys.stderr)
        as_json = options.mode == "json"
        prompt, images = None, []
        if not says_nothing:  # what is piped in is content, and never a call of a template
            typed = options.prompt
            said, images = await live.bench.expand(typed) if typed.strip() else ("", [])
            prompt = with_piped_input(said, piped)
        tell_of_start(live)
        await live.bench.bring_up()

        def opened() -> None:
            if as_json and live.keeps and live.info is not None:
                output.write_line_of_bytes(session_line(live.info))

        show = json_view(output) if as_json else text_view(output)
        # What tools and extensions print is no part of the answer, and would break the lines.
        with contextlib.redirect_stdout(sys.stderr):
            done = await one_turn(live, prompt, show, images=tuple(images), opened=opened)
        if done is None:
            return _nothing_to_say(
                "the session has nothing unfinished, and there is nothing to say"
            )
        result, code = done
        tell_ending(result, code, notes, quiet=as_json)
        return code
    finally:
        await live.aclose()


def json_view(output: Output) -> View:
    return lambda event: output.write_line_of_bytes(json_line(event))


def text_view(output: Output) -> View:
    """What writes the answer to *output* while it comes, and notes about it to standard error."""
    answer = Answer()

    def show(event: AgentEvent) -> None:
        shown = answer.of(event)
        if shown.answer:
            output.write(shown.answer)
        if shown.note:
            print_note(shown.note)

    return show


def tell_ending(result: RunResult, code: ExitCode, notes: Output, *, quiet: bool = False) -> None:
    """Say on standard error what the answer does not: a failure, an abort, the tokens used."""
    if code in (ExitCode.ABORTED, ExitCode.TERMINATED):
        print_note("aborted")
    elif code == ExitCode.FAILED:
        message, _, hint = (result.error_message or "the run failed").partition("\nhint: ")
        print_error(message, hint=hint or None)
    elif not quiet:
        note = ending_note(result)
        if note:
            print_note(note)
    if notes.is_terminal and not quiet:
        print_note(usage_text(result.usage))
