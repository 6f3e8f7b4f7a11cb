"""What the tests "as a person would" share: how one begins, says something, and reads it again.

    screen = at_work(tmux, "--permission-mode", "yolo", columns=200, rows=60)
    say(screen, "Which colour?")
    answered(screen, "Blue.")

Not here: the terminal (tests/cli/tmux_screen.py), the vendor (acting_vendor.py).
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cli.tmux_screen import Tmux

__all__ = [
    "WAIT_SECONDS",
    "Start",
    "answered",
    "asked_about",
    "at_work",
    "both_sizes",
    "in_order",
    "is_gone",
    "is_idle",
    "say",
    "wait_until",
    "words",
    "write_settings",
]

Start = Callable[..., Tmux]

WAIT_SECONDS = 45.0
"""Far beyond what anything takes here; a hang becomes a failure."""

both_sizes = pytest.mark.parametrize(
    ("columns", "rows"), [(80, 24), (200, 60)], ids=["80x24", "200x60"]
)


def at_work(tmux: Start, *arguments: str, **more: Any) -> Tmux:
    """The program, as soon as something can be said to it."""
    screen = tmux(*arguments, **more)
    screen.wait_for(is_idle, WAIT_SECONDS)
    return screen


def is_idle(seen: str) -> bool:
    """The input is there, it is empty, and nothing goes on."""
    return "> ask something" in seen and "Esc interrupts" not in seen


def say(screen: Tmux, text: str) -> None:
    """Type *text*, and Enter."""
    screen.type(text)
    screen.keys("Enter")


def answered(screen: Tmux, text: str) -> str:
    """All there is to read, as soon as *text* is part of it and nothing goes on any more."""
    screen.wait_for(lambda seen: words(text) in words(seen), WAIT_SECONDS, history=True)
    screen.wait_for(is_idle, WAIT_SECONDS)
    return screen.history()


def asked_about(tool: str, what: str) -> Callable[[str], bool]:
    """The question whether *tool* may do *what* is on the screen."""
    return lambda seen: words(f"{tool} needs your word {what} ") in words(seen) + " "


def words(text: str) -> str:
    """*text* without its line ends and margins, for what may be broken anywhere."""
    return " ".join(text.split())


def in_order(text: str, parts: Sequence[str]) -> bool:
    """Each of *parts* stands in *text* once, one behind the other."""
    text = words(text)
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places) and all(text.count(p) == 1 for p in parts)


def wait_until(reached: Callable[[], object], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Return as soon as *reached* is true; fail with *what* was waited for."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"after {seconds:g} seconds still not: {what}"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """No process *pid* does anything any more. One that nobody has asked about its end is gone."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    told = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return told.stdout.strip()[:1] in ("", "Z")


def write_settings(folder: Path, text: str) -> None:
    """The user's own settings, for a program that works in *folder*."""
    file = folder / "config" / "loopwright" / "settings.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
