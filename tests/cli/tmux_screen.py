"""A program in a real terminal: keys go in, and what a person would see comes out.

    screen = tmux("--model", "toy/one")          # the fixture of tests/cli/interactive/conftest.py
    screen.wait_for(">")
    screen.type("Hello")
    screen.keys("Enter")
    screen.wait_for("Hi there.")

Each `Tmux` is a server of its own with a socket of its own, and ends nothing else. Nothing here
sleeps for luck: whatever takes its time is waited for by what it shows.

Not here: what the program should show.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import pytest

__all__ = ["Awaited", "Startable", "Tmux"]

WAIT_SECONDS = 30.0
"""Far beyond what anything takes here; a hang becomes a failure."""

POLL_SECONDS = 0.02

Awaited = str | re.Pattern[str] | Callable[[str], object]
"""Text that stands on the screen, an expression found in it, or what is true of it."""


class Startable(Protocol):
    """What is started: the fixture `program` is one."""

    @property
    def folder(self) -> Path: ...

    @property
    def env(self) -> dict[str, str]: ...

    def command(self, *arguments: str) -> list[str]: ...


class Tmux:
    """*program* with *arguments* in a terminal of *columns* and *rows*.

    Its environment is that of *program* and *env*; TERM is always tmux's own. Skips the test where
    there is no tmux.
    """

    def __init__(
        self,
        program: Startable,
        *arguments: str,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str] | None = None,
    ) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("tmux is not installed")
        self.folder = program.folder
        # Not below the test's own folder: the path of a socket may have about 100 characters.
        self._server = tempfile.mkdtemp(prefix="loopwright-tmux-")
        self._socket = os.path.join(self._server, "socket")
        self._env = {**program.env, **(env or {})}
        self._env.pop("TMUX", None)
        self._env.pop("TMUX_PANE", None)
        self._start(
            *("set-option", "-g", "default-terminal", "tmux-256color", ";"),
            *("set-option", "-g", "history-limit", "100000", ";"),
            *("set-option", "-g", "remain-on-exit", "on", ";"),
            *("set-option", "-gq", "remain-on-exit-format", "", ";"),  # tmux before 3.3 has none
            *("set-option", "-g", "status", "off", ";"),
            *("set-option", "-s", "escape-time", "0", ";"),
            *("new-session", "-d", "-s", "main", "-c", str(program.folder)),
            *("-x", str(columns), "-y", str(rows), "--"),
            *(_escaped(each) for each in program.command(*arguments)),
        )

    # -- a person's hands ------------------------------------------------------------------------

    def keys(self, *names: str) -> None:
        """Press keys by their names in tmux: `Enter`, `Escape`, `C-c`, `M-Enter`, `Up`, `PageUp`."""
        self._ask("send-keys", "-t", "main", *map(_escaped, names))

    def type(self, text: str) -> None:
        """Type *text* as it stands, without Enter."""
        self._ask("send-keys", "-t", "main", "-l", "--", _escaped(text))

    def paste(self, text: str) -> None:
        """Paste *text*, in brackets if the program has asked for them, as terminals do."""
        self._ask("load-buffer", "-b", "pasted", "-", stdin=text)
        self._ask("paste-buffer", "-p", "-d", "-b", "pasted", "-t", "main")

    def resize(self, columns: int, rows: int) -> None:
        """Change the window's size; the program is told by SIGWINCH."""
        self._ask("resize-window", "-t", "main", "-x", str(columns), "-y", str(rows))

    # -- a person's eyes -------------------------------------------------------------------------

    def screen(self, *, colours: bool = False) -> str:
        """The lines that are visible now, without the blanks at their ends; with *colours* as escape
        sequences."""
        return self._ask("capture-pane", "-p", "-t", "main", *(["-e"] if colours else []))

    def history(self, *, colours: bool = False) -> str:
        """Everything since the start: what has scrolled away, then the screen."""
        more = ["-e"] if colours else []
        return self._ask("capture-pane", "-p", "-S", "-", "-E", "-", "-t", "main", *more)

    def wait_for(
        self, awaited: Awaited, seconds: float = WAIT_SECONDS, *, history: bool = False
    ) -> str:
        """The screen, or the whole *history*, as soon as *awaited* holds of it.

        Fails, and shows the screen, after *seconds*, or when the program has ended without it.
        """
        look = self.history if history else self.screen
        deadline = time.monotonic() + seconds
        while True:
            ended = not self.alive  # asked first: what was shown before the end has then arrived
            seen = look()
            if _holds(awaited, seen):
                return seen
            if ended:
                self._fail(f"the program ended ({self._how()}) without showing {_said(awaited)}")
            if time.monotonic() > deadline:
                self._fail(f"after {seconds:g} seconds the screen does not show {_said(awaited)}")
            time.sleep(POLL_SECONDS)

    def wait_for_end(self, seconds: float = WAIT_SECONDS) -> int:
        """The exit code as soon as the program has ended by itself."""
        deadline = time.monotonic() + seconds
        while (code := self.exit_code) is None:
            if time.monotonic() > deadline:
                self._fail(f"after {seconds:g} seconds the program still runs")
            time.sleep(POLL_SECONDS)
        return code

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and row, from 0."""
        column, row = self._tell("#{cursor_x} #{cursor_y}").split()
        return int(column), int(row)

    @property
    def title(self) -> str:
        """The title the program has given its window."""
        return self._tell("#{pane_title}")

    @property
    def alternate(self) -> bool:
        """The program has taken the whole screen, so that nothing scrolls."""
        return self._tell("#{alternate_on}") == "1"

    # -- the process -----------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """Of the program; its process group has the same number."""
        return int(self._tell("#{pane_pid}"))

    @property
    def alive(self) -> bool:
        """The program runs, or has not been seen to the end."""
        return self.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """How the program ended: negative for a signal, None while it runs."""
        dead, code, number, server = self._tell(
            "#{pane_dead},#{pane_dead_status},#{pane_dead_signal},#{pid}"
        ).split(",")
        if dead != "1":
            return None
        if not (code or number):
            # The terminal is closed a moment before the end. And now and then a server misses the
            # signal of it (seen with tmux 3.3), and must be told to look.
            os.kill(int(server), signal.SIGCHLD)
            return None
        return -_signal_number(number) if number else int(code)

    def send_signal(self, number: int) -> None:
        """Send a signal to the program alone, as `kill` does."""
        assert self.alive, "the program has ended"
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End this terminal's server, and with it the program if that still runs."""
        if not os.path.isdir(self._server):
            return
        subprocess.run(
            self._command("kill-server"),
            env=self._env,
            capture_output=True,
            check=False,
            timeout=60,
        )
        shutil.rmtree(self._server, ignore_errors=True)

    # -- tmux ------------------------------------------------------------------------------------

    def _command(self, *arguments: str) -> list[str]:
        return ["tmux", "-S", self._socket, "-f", os.devnull, *arguments]

    def _start(self, *arguments: str) -> None:
        try:
            self._ask("start-server", ";", *arguments)
        except BaseException:
            self.kill()
            raise

    def _ask(self, *arguments: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            self._command(*arguments),
            env=self._env,
            input=None if stdin is None else stdin.encode(),
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            check=False,
            timeout=60,
        )
        said = done.stderr.decode(errors="replace").strip()
        assert done.returncode == 0, f"tmux {arguments[0]}: {said}"
        return done.stdout.decode("utf-8", "replace")

    def _tell(self, format: str) -> str:  # noqa: A002 - tmux's word
        return self._ask("display-message", "-p", "-t", "main", format).removesuffix("\n")

    def _how(self) -> str:
        code = self.exit_code
        return f"exit code {code}" if code is None or code >= 0 else signal.Signals(-code).name

    def _fail(self, message: str) -> None:
        __tracebackhide__ = True
        pytest.fail(f"{message}\n{self.framed()}", pytrace=False)

    def framed(self) -> str:
        """The screen in a frame, with how much has scrolled away, for a report."""
        width, height, above = map(
            int, self._tell("#{pane_width} #{pane_height} #{history_size}").split()
        )
        rule = f"+{'-' * width}+"
        return "\n".join([f"{rule} {width}x{height}, {above} lines above", self.screen(), rule])


def _escaped(argument: str) -> str:
    """tmux takes a semicolon at an argument's end for its own."""
    return f"{argument[:-1]}\\;" if argument.endswith(";") else argument


def _signal_number(name: str) -> int:
    """tmux tells a number, or a name where the system has names."""
    if name.isdigit():
        return int(name)
    return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"].value


def _holds(awaited: Awaited, seen: str) -> bool:
    if isinstance(awaited, str):
        return awaited in seen
    if isinstance(awaited, re.Pattern):
        return awaited.search(seen) is not None
    return bool(awaited(seen))


def _said(awaited: Awaited) -> str:
    if isinstance(awaited, re.Pattern):
        return f"what {awaited.pattern!r} finds"
    return repr(awaited) if isinstance(awaited, str) else "what the test waits for"
