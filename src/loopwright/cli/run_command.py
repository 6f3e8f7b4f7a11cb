"""`loopwright "prompt"`: ask a model once, or several times on a terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from .. import Agent, RunResult
from ..events import AgentEvent
from ..models import Model, Models, default_models
from .exit_codes import ExitCode
from .json_mode import json_line
from .models_file import add_project_models, add_user_models
from .options import Mode, RunOptions
from .render import Answer, ending_note, usage_text
from .settings import model_from_environment, project_models_file, user_models_file
from .standard_input import UnreadableInput, read_piped_input, with_piped_input
from .streams import Output, print_error, print_note
from .watch import watched_prompt
from .which_model import Chosen, choose_model

__all__ = ["bring_up", "json_view", "run", "tell_ending", "text_view"]

View = Callable[[AgentEvent], None]


def run(options: RunOptions) -> ExitCode:
    """Ask once, or converse if there is a terminal and nothing to say yet.

    Raises `ConfigurationError` before anything is run, OSError if the output cannot be written.
    """
    try:
        prompt = with_piped_input(options.prompt, read_piped_input(print_note))
    except UnreadableInput as error:
        print_error(
            f"standard input cannot be read: {error}",
            hint="redirect it from a file, or from /dev/null to go without",
        )
        return ExitCode.USAGE
    if not prompt:
        if not _on_a_terminal() or options.print_only or options.mode == "json":
            print_error(
                "there is nothing to say: no prompt was given and nothing was piped in",
                hint='loopwright "your question", or: some-command | loopwright "about that"',
            )
            return ExitCode.USAGE
        from .conversation import converse

        return converse(build_agent(options))
    return asyncio.run(ask_once(build_agent(options), prompt, options.mode))


def _on_a_terminal() -> bool:
    return (
        sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()
    )  # None: started with `<&-`


def build_agent(options: RunOptions) -> Agent:
    """The agent that the options, the environment and the user's files ask for."""
    models = default_models()
    chosen = _choose(models, options)
    return Agent(
        chosen.model,
        stream_fn=models.stream_simple,
        system_prompt=options.system_prompt,
        thinking_level=options.thinking or chosen.thinking_level,
    )


def _choose(models: Models, options: RunOptions) -> Chosen:
    user_file = user_models_file()
    default = add_user_models(models, user_file)
    add_project_models(models, project_models_file(), print_note)
    return choose_model(
        models,
        option=options.model,
        environment=model_from_environment(),
        default=default,
        user_file=user_file,
    )


async def ask_once(agent: Agent, prompt: str, mode: Mode) -> ExitCode:
    """Say *prompt* and write what comes to standard output. Raises `ConfigurationError`."""
    await bring_up(agent.model)
    output, notes = Output(sys.stdout), Output(sys.stderr)
    result, code = await watched_prompt(
        agent, prompt, json_view(output) if mode == "json" else text_view(output)
    )
    tell_ending(result, code, notes, quiet=mode == "json")
    return code


async def bring_up(model: Model) -> None:
    """Start what serves *model*, where something must be started; what is missing for that is
    then an error of the set-up and not of the run."""
    provider = default_models().get_provider(model.provider)
    if provider is not None and provider.prepare is not None:
        if Output(sys.stderr).is_terminal:
            print_note(f"starting {model.name or model.id} ...")
        await provider.prepare()


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
