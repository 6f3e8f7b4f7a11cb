"""The tool `bash`: run a command line, show the end of what it prints.

A command runs in the workspace's root, in a session and process group of its own, with nothing to
read and no terminal: what would ask for a password fails at once and can be mended, and no editor
or pager is opened. There is a default timeout, so that what waits for ever ends by itself; a call
may ask for another. What a command leaves running in the background stays alive when the command
has ended by itself, and is killed with the rest on timeout and abort.

The environment is the program's own without the vendors' keys and the secrets of this package; those
in `keep_env` pass. A command of the same user can still read files and other processes: a sandbox
keeps it from that.

Not here: process groups (process_group.py), keeping the output (process_output.py), which commands
are allowed.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from ..errors import ToolError
from ..loop.tool import FunctionTool, ToolContext, tool
from ..messages import AgentToolResult, TextContent
from ..models.vendors import vendor_table
from ..records import clean_text
from .output_files import OutputFiles
from .process_group import Ended, run_group
from .process_output import ProcessOutput, TextFilter
from .text_limits import show_size
from .workspace import Workspace

__all__ = [
    "DEFAULT_TIMEOUT_SECONDS",
    "MAX_TIMEOUT_SECONDS",
    "bash_tool",
    "command_environment",
    "is_our_secret",
    "shell_path",
]

DEFAULT_TIMEOUT_SECONDS = 600.0
MAX_TIMEOUT_SECONDS = 2_147_483.0
"""What fits into 31 bits of milliseconds: the longest wait every event loop can do."""

UPDATE_SECONDS = 0.1

_OUR_SECRET = re.compile(r"LOOPWRIGHT_.*(KEY|TOKEN|SECRET|PASSWORD)", re.IGNORECASE)


def is_our_secret(variable: str) -> bool:
    """Whether *variable* of the environment holds a token or a key of this package."""
    return _OUR_SECRET.fullmatch(variable) is not None


@cache
def _vendors_keys() -> frozenset[str]:
    """The variables in which the known vendors' keys are looked for."""
    table = vendor_table()
    rows = [table.row(name) for name in table.ids()]
    return frozenset(variable for row in rows if row is not None for variable in row.env)


_DESCRIPTION = """\
Run a command in bash, in the root of the workspace, and return what it prints on stdout and stderr.

There is no input and no terminal: use flags such as --yes, -m or --no-pager. Each call is a new shell. \
Of long output the last 2,000 lines or 49 KiB are shown, and all of it is in a file that is named. \
What is started with & goes on after the command; send its output to a file (server > server.log 2>&1 \
&), since nobody reads it any more."""


def bash_tool(
    workspace: Workspace,
    *,
    default_timeout: float | None = DEFAULT_TIMEOUT_SECONDS,
    environment: Mapping[str, str] | None = None,
    files: OutputFiles | None = None,
    clean: Callable[[], TextFilter] | None = None,
    keep_env: Iterable[str] = (),
) -> FunctionTool[..., Any]:
    """The tool `bash` for *workspace*, which must be on disk.

    *default_timeout*, in seconds, holds for calls that name none; None lets them run for ever.
    *environment* replaces what `command_environment` gives, *files* says where long output is kept.
    *keep_env* names variables that commands get although they hold keys.
    *clean* makes, for each command, what its output goes through before it is shown or kept.
    """
    files = files if files is not None else OutputFiles()
    kept = frozenset(keep_env)

    @tool(
        name="bash",
        label="Bash",
        description=_DESCRIPTION,
        replay="never",
        execution_mode="sequential",  # the next call of the reply builds on what it did
    )
    async def bash(
        command: str, timeout: float | None = None, *, ctx: ToolContext
    ) -> AgentToolResult:
        """Run a command.

        Args:
            command: The command line.
            timeout: Seconds after which it is stopped. The default is enough for most builds.
        """
        seconds = default_timeout if timeout is None else _checked(timeout)
        if not workspace.on_disk:
            raise ToolError("No command can be run here: the workspace is not on a disk.")
        if ctx.signal.aborted:
            raise ToolError("Operation aborted")
        shell = shell_path()
        env = (
            dict(environment)
            if environment is not None
            else command_environment(os.environ, keep=kept)
        )
        output = ProcessOutput(files, clean=clean)
        started = time.monotonic()
        progress = _Progress(ctx, output, started)

        def feed(data: bytes) -> None:
            output.feed(data)
            progress.note()

        try:
            ended = await run_group(
                [shell, "-c", "--", clean_text(command)],
                cwd=workspace.root,
                env=env,
                timeout=seconds,
                abort=ctx.signal,
                feed=feed,
                write=output.write,
            )
            output.feed(b"", final=True)
            await output.close()
        except (OSError, ValueError) as error:
            raise _not_started(error, command, workspace.root) from error
        finally:
            progress.stop()
            output.abandon()
        return _result(output, ended, time.monotonic() - started, seconds)

    return bash


_GIT = (("safe.bareRepository", "explicit"), ("core.fsmonitor", "false"))

_NO_TERMINAL = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "HGEDITOR": "true",
    "SVN_EDITOR": "true",
    "JJ_EDITOR": "true",
    "KUBE_EDITOR": "true",
}
"""`true` leaves a text as it is: `git rebase --continue` takes the message that is there, and
`git commit` without one gives up. The user's editor may open a window, and wait for it."""


def command_environment(base: Mapping[str, str], *, keep: Iterable[str] = ()) -> dict[str, str]:
    """*base* without this package's secrets and the known vendors' keys, for a program that has no
    terminal. Variables in *keep* pass all the same.

    git is told to take no orders from a repository that lies among a project's files: it may be
    somebody else's, and `git status` would run what its configuration names (git-config(1),
    safe.bareRepository and core.fsmonitor).

    `cd` goes where it says, without CDPATH. Text is UTF-8, in and out; where the user has another
    encoding, the shell would see other quotes and bars in a command than those that were judged.
    """
    wanted = frozenset(keep)
    kept = {
        name: value
        for name, value in base.items()
        if name in wanted or not (name in _vendors_keys() or is_our_secret(name))
    }
    kept.pop("CDPATH", None)
    if not _speaks_utf8(kept):
        kept["LC_ALL"] = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
    known = kept.get("GIT_CONFIG_COUNT", "0")
    first = int(known) if known.isascii() and known.isdigit() else 0
    for place, (key, value) in enumerate(_GIT, start=first):
        kept[f"GIT_CONFIG_KEY_{place}"], kept[f"GIT_CONFIG_VALUE_{place}"] = key, value
    kept["GIT_CONFIG_COUNT"] = str(first + len(_GIT))
    return kept | _NO_TERMINAL


def _speaks_utf8(env: Mapping[str, str]) -> bool:
    """Whether the shell reads UTF-8, or plain ASCII, of which every byte is itself."""
    locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "C"
    return locale in ("C", "POSIX") or re.search("utf-?8", locale, re.IGNORECASE) is not None


def _checked(timeout: float) -> float:
    if not (math.isfinite(timeout) and 0 < timeout <= MAX_TIMEOUT_SECONDS):
        raise ToolError(
            f"The timeout is {timeout!r}, but it must be a number of seconds above 0 and at most "
            f"{MAX_TIMEOUT_SECONDS:,.0f}. The command was not run."
        )
    return float(timeout)


def shell_path() -> str:
    """The shell that commands are run by. Raises `ToolError` where there is none."""
    if os.name != "posix":
        raise ToolError(
            "Commands can only be run on Linux, macOS and other POSIX systems.",
            hint="on Windows start the program in WSL",
        )
    return shutil.which("bash") or shutil.which("sh") or "/bin/sh"


def _not_started(error: OSError | ValueError, command: str, root: str) -> ToolError:
    if "\0" in command:
        return ToolError("The command holds a NUL character, so it was not run.")
    if isinstance(error, OSError) and not os.path.isdir(root):
        return ToolError(f"The command was not run: the folder {root!r} is gone.")
    size = len(command.encode("utf-8", "replace"))
    reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return ToolError(
        f"The command of {show_size(size)} could not be started: {reason}",
        hint="write a long one to a file and run that" if size > 100_000 else None,
    )


# -- while it runs ---------------------------------------------------------------------------


class _Progress:
    """Shows the output so far, at most ten times a second."""

    def __init__(self, ctx: ToolContext, output: ProcessOutput, started: float) -> None:
        self._ctx = ctx
        self._output = output
        self._started = started
        self._loop = asyncio.get_running_loop()
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def note(self) -> None:
        """Something was printed."""
        if self._timer is None:
            delay = self._next - self._loop.time()
            if delay <= 0:
                self._send()
            else:
                self._timer = self._loop.call_later(delay, self._send)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _send(self) -> None:
        self._timer = None
        self._next = self._loop.time() + UPDATE_SECONDS
        details = _details(self._output, time.monotonic() - self._started)
        text = TextContent(self._output.shown().text)
        self._ctx.update(AgentToolResult([text], details))


# -- when it has ended -----------------------------------------------------------------------


def _result(
    output: ProcessOutput, ended: Ended, seconds: float, timeout: float | None
) -> AgentToolResult:
    """The output, then in brackets what else there is to know, each on a line of its own."""
    notices = [_cut_notice(output)] if output.is_cut else []
    match ended.how:
        case "timeout":
            notices.append(
                f"Stopped: the command ran {seconds:,.1f} seconds, its timeout is {timeout:g}. "
                "Give a longer timeout if it needs more."
            )
        case "abort":
            notices.append(f"Operation aborted: the command ran {seconds:,.1f} seconds.")
        case "exit":
            if ended.exit_code:
                notices.append(_exit_notice(ended.exit_code))
    if ended.left_running is not None:
        notices.append(_background_notice(ended.left_groups))
    text = output.shown().text
    shown = [text.removesuffix("\n")] if text else ["(no output)"]
    if notices:
        shown.append("\n".join(f"[{notice}]" for notice in notices))
    details = _details(output, seconds)
    if ended.how == "exit":
        details["exitCode"] = ended.exit_code
    else:
        details["timedOut" if ended.how == "timeout" else "aborted"] = True
    if ended.left_running is not None:
        details["backgroundGroup"] = ended.left_running
    failed = ended.how != "exit" or ended.exit_code != 0
    content = TextContent("\n\n".join(shown) if notices else (text or shown[0]))
    return AgentToolResult([content], details, failed)


def _background_notice(groups: tuple[int, ...]) -> str:
    which = ", ".join(map(str, groups))
    end = " ".join(f"-{group}" for group in groups)
    one = len(groups) == 1
    # Who prints into a pipe that nobody reads is ended by it (SIGPIPE).
    return (
        f"Still running in the background: process group{'' if one else 's'} {which}. Nobody reads "
        "what is printed from now on, which ends most programs that print: start them with "
        f"> FILE 2>&1. To end {'it' if one else 'them'}: kill -- {end}"
    )


def _exit_notice(code: int) -> str:
    if code > 0:
        # A shell tells so of a program that it has started, in bash(1) "exit status".
        behind = _signal_name(code - 128)
        return f"Exit code {code}" + (f", as after the signal {behind}" if behind else "")
    name = _signal_name(-code)
    return f"Ended by the signal {name}" if name else f"Ended by signal {-code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _cut_notice(output: ProcessOutput) -> str:
    cut = output.shown()
    part = "the end of the last line" if cut.partial else f"the last {cut.lines:,}"
    notice = (
        f"Output cut: {part} of {cut.total_lines:,} lines, {show_size(cut.total_bytes)} in all. "
    )
    if output.path is None:
        return notice + f"The rest was not kept: {output.problem}"
    if output.problem is not None:
        return notice + f"In the file {output.path} is not all of it: {output.problem}"
    return (
        notice
        + f"All of it is in {output.path}; look at parts with read, or in bash (grep, sed -n)."
    )


def _details(output: ProcessOutput, seconds: float) -> dict[str, Any]:
    """For people and programs, in the spelling of our JSON."""
    details: dict[str, Any] = {
        "seconds": round(seconds, 3),
        "totalLines": output.total_lines,
        "totalBytes": output.total_bytes,
        "truncated": output.is_cut,
    }
    if output.path is not None:
        details["fullOutputPath"] = output.path
    return details
