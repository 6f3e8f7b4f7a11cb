"""The commands and options of `loopwright`, and what each kind of failure ends with.

Parsing is cyclopts' work: texts of the help come from the docstrings below. What the commands do
is in run_command.py, sessions/command.py and the others, imported when asked for.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from typing import Annotated, Any

import cyclopts
from cyclopts import App, Parameter
from cyclopts.validators import Number

from .. import __version__
from ..errors import ConfigurationError, LoopwrightError, OperationOpen, SessionError
from ..models import ThinkingLevel
from ..permissions.policy import Mode as PermissionMode
from .exit_codes import ExitCode
from .meant_command import meant_command
from .options import Caps, Mode, RunMode, RunOptions, SessionOptions
from .sessions.app import sessions_app
from .settings.app import add_setup_commands
from .streams import help_console, print_error

__all__ = ["run_command_line"]

EPILOGUE = """\
What is piped in comes before the prompt: git diff | loopwright "Is this sound?"
A prompt that starts with a dash, or with the name of a command, goes behind --.

LOOPWRIGHT_MODEL names the model when --model does not. NO_COLOR switches styles
off. Keys stand under their vendors' names, such as OPENAI_API_KEY. Sessions are
kept in ~/.local/share/loopwright, or where LOOPWRIGHT_SESSION_DIR says.

Exit codes: 0 done, 1 the run failed, 2 wrong usage, 3 model, key or package
missing, 4 the session cannot be used, 130 stopped by Ctrl-C.
"""


def run_command_line(arguments: Sequence[str]) -> ExitCode:
    """Do what *arguments* say. Lets BrokenPipeError and KeyboardInterrupt through."""
    if (meant := meant_command(arguments)) is not None:
        print_error(
            f"there is no command `{arguments[0]}`; did you mean `loopwright {meant}`?",
            hint=f"to say it to the model: loopwright -- {shlex.join(arguments)}",
        )
        return ExitCode.USAGE
    try:
        result: Any = _app()(list(arguments))
    except cyclopts.CycloptsError as error:
        _print_usage_error(error)
        return ExitCode.USAGE
    except ConfigurationError as error:
        print_error(error.message, hint=error.hint)
        return ExitCode.CONFIGURATION
    except (SessionError, OperationOpen) as error:
        print_error(error.message, hint=error.hint)
        return ExitCode.SESSION
    except LoopwrightError as error:
        print_error(error.message, hint=error.hint)
        return ExitCode.FAILED
    return result if isinstance(result, ExitCode) else ExitCode.DONE


def _app() -> App:
    app = App(
        name="loopwright",
        help="Ask a model, let it use tools, and see every step.",
        help_epilogue=EPILOGUE,
        help_format="plaintext",
        usage='Usage: loopwright [OPTIONS] ["PROMPT"]\n       loopwright COMMAND ...',
        version=f"loopwright {__version__}",
        version_flags=["--version", "-v"],
        default_parameter=Parameter(negative=(), show_default=False),
        console=help_console(),
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
    )
    app.default(_ask)
    app.command(_demo, name="demo", help_epilogue="")
    app.command(_models, name="models", help_epilogue="")
    keys = App(
        name="keys",
        help="Keep keys in a file that only you can read; LOOPWRIGHT_HOME says where.",
        help_epilogue="",
    )
    keys.command(_set_key, name="set")
    keys.command(_list_keys, name="list")
    keys.command(_remove_key, name="remove")
    app.command(keys)
    app.command(sessions_app())
    add_setup_commands(app)
    app.command(_doctor, name="doctor", help_epilogue="")
    return app


def _ask(
    *prompt: str,
    print_only: Annotated[bool, Parameter(name=["--print", "-p"])] = False,
    model: str | None = None,
    thinking: ThinkingLevel | None = None,
    system_prompt: str = "",
    append_system_prompt: tuple[str, ...] = (),
    continue_last: Annotated[bool, Parameter(name=["--continue", "-c"])] = False,
    resume: Annotated[bool, Parameter(name=["--resume", "-r"])] = False,
    session: str | None = None,
    fork: str | None = None,
    no_session: bool = False,
    name: str | None = None,
    skill: tuple[str, ...] = (),
    no_skills: bool = False,
    no_context_files: bool = False,
    tools: str | None = None,
    permission_mode: PermissionMode | None = None,
    agent: str | None = None,
    extension: tuple[str, ...] = (),
    no_extensions: bool = False,
    max_turns: Annotated[int | None, Parameter(validator=Number(gt=0))] = None,
    max_tokens: Annotated[int | None, Parameter(validator=Number(gt=0))] = None,
    max_cost: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    mode: RunMode = "text",
) -> ExitCode:
    """Ask a model, let it use tools, and see every step.

    On a terminal you stay in a conversation; with -p, or in a pipe, it answers and ends.

    Parameters
    ----------
    prompt
        What to say. Several words need no quotes.
    print_only
        Answer and end, also on a terminal; all but the answer goes to standard error.
    model
        PROVIDER/MODEL[:THINKING]; "local" is a small model that runs on this machine.
    thinking
        How hard the model shall think.
    system_prompt
        What the model is told before everything else, in place of SYSTEM.md.
    append_system_prompt
        What it is told after that; may be given several times.
    continue_last
        Go on with the last session of this folder.
    resume
        Pick a session of this folder to go on with.
    session
        Go on with this session: its id, the beginning of it, or its name.
    fork
        Go on in a copy of this session, which stays as it is.
    no_session
        Keep nothing of this run.
    name
        Give the session a name.
    skill
        A skill, or a folder of them, beside those that are found.
    no_skills
        Look for no skills.
    no_context_files
        Read no AGENTS.md or CLAUDE.md.
    tools
        The tools it may use, with commas: read,grep,ls. "none" for none, "all" for all.
    permission_mode
        What is done without asking: reading (ask), edits too (auto-edit), everything (yolo).
    agent
        Use this Agent of yours: MODULE:VARIABLE, or FILE.py:VARIABLE.
    extension
        Load this extension, beside those installed: MODULE:VARIABLE or FILE.py.
    no_extensions
        Load no extensions.
    max_turns
        The most requests to models in one run.
    max_tokens
        The most tokens of one run, input and output.
    max_cost
        The most US dollars of one run.
    mode
        "json" prints every event of the run, one a line; "rpc" takes commands on standard
        input, one a line.
    """
    from .run_command import run

    return run(
        RunOptions(
            prompt=" ".join(prompt),
            print_only=print_only,
            model=model,
            thinking=thinking,
            system_prompt=system_prompt,
            append_system_prompt=append_system_prompt,
            skills=skill,
            find_skills=not no_skills,
            find_context_files=not no_context_files,
            tools=_tool_names(tools),
            permission_mode=permission_mode,
            agent=agent,
            extensions=extension,
            find_extensions=not no_extensions,
            caps=Caps(max_turns, max_tokens, max_cost),
            mode=mode,
            sessions=SessionOptions(
                continue_last=continue_last,
                pick=resume,
                session=session,
                fork=fork,
                keep=not no_session,
                name=name,
            ),
        )
    )


def _tool_names(said: str | None) -> tuple[str, ...] | None:
    if said is None:
        return None
    names = tuple(name for name in said.replace(",", " ").split() if name != "none")
    if "all" in names:
        from .bench.product_tools import TOOL_NAMES

        return tuple(dict.fromkeys([*TOOL_NAMES, *(name for name in names if name != "all")]))
    return names


def _demo(*, mode: Mode = "text") -> ExitCode:
    """Watch an agent repair a real file, step by step. Needs no key and no network.

    Parameters
    ----------
    mode
        "json" prints every event, one a line.
    """
    from .demo import run_demo

    return asyncio.run(run_demo(mode))


def _models(*search: str, providers: bool = False, mode: Mode = "text") -> ExitCode:
    """List models: their context window, price and abilities, and whether there is a key.

    Parameters
    ----------
    search
        Words that all stand in the vendor, the id or the name.
    providers
        List vendors instead.
    mode
        "json" prints one model a line as JSON.
    """
    from .models.command import list_models, list_providers

    return (list_providers if providers else list_models)(" ".join(search), mode)


def _doctor(*, ask: bool = False, mode: Mode = "text") -> ExitCode:
    """Look whether all is in place: keys, models, tools, sessions, the terminal.

    Parameters
    ----------
    ask
        Ask the model one short question, too; that may cost something.
    mode
        "json" prints one finding a line as JSON.
    """
    from .checkup.command import checkup

    return checkup(ask=ask, mode=mode)


def _set_key(provider: str) -> ExitCode:
    """Keep the key for a provider; it is asked for, or read from standard input.

    Parameters
    ----------
    provider
        Its id, as `loopwright models --providers` shows it.
    """
    from .models.keys import set_key

    return set_key(provider)


def _list_keys() -> ExitCode:
    """List the providers something is kept for, never what."""
    from .models.keys import list_keys

    return list_keys()


def _remove_key(provider: str) -> ExitCode:
    """Forget what is kept for a provider.

    Parameters
    ----------
    provider
        Its id.
    """
    from .models.keys import remove_key

    return remove_key(provider)


def _print_usage_error(error: cyclopts.CycloptsError) -> None:
    message = str(error).strip()
    command = " ".join(("loopwright", *(error.command_chain or ())))
    hint = f"{command} -h lists what there is"
    if isinstance(error, cyclopts.UnusedCliTokensError):
        message = f"too many arguments: {' '.join(error.unused_tokens or ())}"
    elif isinstance(error, cyclopts.UnknownOptionError) and not error.command_chain:
        hint += "; a prompt that starts with a dash goes behind --"
    print_error(message, hint=hint)
