"""`loopwright "prompt"`: ask a model once, or several times on a terminal."""

from __future__ import annotations

import asyncio
import sys

from .. import RunResult
from ..events import AgentEvent
from .exit_codes import ExitCode
from .json_mode import json_line, session_line
from .options import Mode, RunOptions
from .render import Answer, ending_note, usage_text
from .session_choice import NothingPicked
from .standard_input import UnreadableInput, read_piped_input, with_piped_input
from .streams import Output, print_error, print_note
from .talk import SessionView, View, begin

__all__ = ["json_view", "run", "tell_ending", "text_view"]


def run(options: RunOptions) -> ExitCode:
    """Ask once, or converse if there is a terminal and nothing to say yet.

    Raises `ConfigurationError` and `SessionError` before anything is run, OSError if the output
    cannot be written.
    """
    if contradiction := options.sessions.contradiction():
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
        piped = read_piped_input(print_note)
    except UnreadableInput as error:
        print_error(
            f"standard input cannot be read: {error}",
            hint="redirect it from a file, or from /dev/null to go without",
        )
        return ExitCode.USAGE
    says_nothing = not with_piped_input(options.prompt, piped)
    conversing = _on_a_terminal() and not options.print_only and options.mode == "text"
    try:
        if says_nothing and conversing:
            from .conversation import converse

            return converse(options)
        if says_nothing and not options.sessions.goes_on:
            return _nothing_to_say("there is nothing to say")
        return asyncio.run(_ask_once(options, piped, says_nothing=says_nothing))
    except NothingPicked:
        return ExitCode.DONE


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
    talk = await begin(options)
    output, notes = Output(sys.stdout), Output(sys.stderr)
    typed = options.prompt
    prompt = None
    if not says_nothing:  # what is piped in is content, and never a call of a template
        prompt = with_piped_input(talk.expand(typed) if typed.strip() else "", piped)
    as_json = options.mode == "json"
    show = json_view(output) if as_json else text_view(output)
    done = await talk.turn(prompt, show, _session_view(output, options.mode))
    if done is None:
        return _nothing_to_say("the session has nothing unfinished, and there is nothing to say")
    result, code = done
    tell_ending(result, code, notes, quiet=as_json)
    return code


def _session_view(output: Output, mode: Mode) -> SessionView | None:
    if mode == "text":
        return None
    return lambda info: output.write_line_of_bytes(session_line(info))


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
