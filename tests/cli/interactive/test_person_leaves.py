"""As a person would: leaving, and going on in the shell from which the program was started."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.conftest import Program
from tests.cli.interactive.acting_vendor import ActingVendor
from tests.cli.interactive.person_scene import WAIT_SECONDS, is_idle, say
from tests.cli.tmux_screen import Tmux

AT_SHELL = "at the shell:"


@dataclass
class Shell:
    """An interactive bash where *program* can be started by a name."""

    program: Program

    @property
    def folder(self) -> Path:
        return self.program.folder

    @property
    def env(self) -> dict[str, str]:
        return {**self.program.env, "PS1": f"{AT_SHELL} ", "HISTFILE": ""}

    def command(self, *arguments: str) -> list[str]:
        script = self.folder / "start"
        script.write_text(f"echo $$ > pid; exec {shlex.join(self.program.command())}\n")
        return ["bash", "--norc", "--noprofile", "-i"]


@pytest.fixture
def shell(program: Program) -> Iterator[Tmux]:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    screen = Tmux(Shell(program))
    yield screen
    print(screen.framed())
    screen.kill()


def ctrl_c_twice(screen: Tmux) -> None:
    screen.keys("C-c")
    screen.wait_for("Ctrl-C again leaves")
    screen.keys("C-c")


def ctrl_d(screen: Tmux) -> None:
    screen.keys("C-d")


def sigterm(screen: Tmux) -> None:
    os.kill(int((screen.folder / "pid").read_text()), signal.SIGTERM)


def quit_command(screen: Tmux) -> None:
    say(screen, "/quit")


@pytest.mark.parametrize(
    ("leave", "is_answering", "code"),
    [
        (ctrl_c_twice, False, 0),
        (ctrl_c_twice, True, 0),
        (ctrl_d, False, 0),
        (quit_command, True, 0),
        (sigterm, True, 143),
    ],
)
def test_the_terminal_is_left_as_it_was(
    shell: Tmux,
    actor: ActingVendor,
    leave: Callable[[Tmux], None],
    is_answering: bool,
    code: int,
) -> None:
    shell.wait_for(AT_SHELL)
    say(shell, "stty -a > before; sh start; echo code $?; stty -a > after")
    shell.wait_for(is_idle, WAIT_SECONDS)

    if is_answering:
        actor.will_answer("Half an answer", threading.Event(), " and more")
        say(shell, "Tell me.")
        shell.wait_for("Half an answer")
    leave(shell)
    shell.wait_for(f"\ncode {code}\n", WAIT_SECONDS)
    shell.wait_for(lambda seen: seen.rstrip().endswith(AT_SHELL))
    say(shell, "read -r -p 'word: ' line; echo got $line")
    shell.wait_for("\nword:")
    shell.type("typed and seen")
    shell.wait_for("\nword: typed and seen\n")
    shell.keys("Enter")
    told = shell.wait_for("\ngot typed and seen\n")

    assert (shell.folder / "after").read_text() == (shell.folder / "before").read_text()
    assert " echo " in (shell.folder / "after").read_text()
    assert shell._tell("#{cursor_flag} #{alternate_on} #{mouse_any_flag}") == "1 0 0"
    assert "Traceback" not in told
    assert "ask something" not in told
    assert "Enter sends" not in told
    if is_answering:
        assert told.count("Half an answer") == 1
        assert "to go on with this session: loopwright --session" in told
