"""The programs that tools use, and the terminal."""

from __future__ import annotations

import codecs
import os
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from ..extras import install_command
from ..streams import Output
from .lines import Checked, Learned

__all__ = ["check_terminal", "check_tools"]

SMALLEST = (80, 24)
"""Columns and lines of a terminal for which the interactive mode is made."""


def check_tools(_learned: Learned) -> Iterator[Checked]:
    """bash, ripgrep, git, Pillow."""
    bash = shutil.which("bash")
    if bash is not None:
        yield Checked("tools", "ok", f"bash: {bash}")
    elif (shell := shutil.which("sh")) is not None:
        hint = "install bash: models write commands for it"
        yield Checked("tools", "warning", f"there is no bash; commands run in {shell}", hint)
    else:
        yield Checked("tools", "problem", "there is no shell for the tool `bash`", "install bash")
    ripgrep = shutil.which("rg")
    if ripgrep is not None:
        yield Checked("tools", "ok", f"ripgrep: {ripgrep}")
    else:
        yield Checked(
            "tools",
            "note",
            "there is no ripgrep (rg); grep and find take the slower way, with the same results",
            "install ripgrep",
        )
    git = shutil.which("git")
    if git is not None:
        yield Checked("tools", "ok", f"git: {git}")
    else:
        hint = "install git: it is the way back from a change you do not want"
        yield Checked("tools", "warning", "there is no git", hint)
    if find_spec("PIL") is not None:
        yield Checked("tools", "ok", "pillow: large images are made smaller")
    else:
        yield Checked(
            "tools",
            "note",
            "there is no pillow; images that are too large for a model are refused",
            install_command("images"),
        )


def check_terminal(_learned: Learned) -> Iterator[Checked]:
    """What standard output is, and what it can show."""
    output = Output(sys.stdout)
    encoding = sys.stdout.encoding or "ascii"
    if not _is_utf8(encoding):
        yield Checked(
            "terminal",
            "warning",
            f"its encoding is {encoding}; what that lacks is shown as an escape",
            "set LANG to a locale with UTF-8, such as C.UTF-8",
        )
    if not output.is_terminal:
        yield Checked("terminal", "note", "standard output is no terminal")
        return
    name = os.environ.get("TERM", "")
    size = shutil.get_terminal_size()
    if not name or name == "dumb":
        yield Checked(
            "terminal",
            "warning",
            f"TERM is {name or 'not set'}, so nothing can be drawn",
            "set it to what your terminal is, such as xterm-256color",
        )
    colours = output.console.color_system if output.console is not None else None
    why = " (NO_COLOR is set)" if os.environ.get("NO_COLOR") else ""
    yield Checked(
        "terminal",
        "ok",
        f"{name or 'unknown'}, {size.columns}x{size.lines}, "
        f"colours: {colours or 'none'}{why}, {encoding}",
    )
    if size.columns < SMALLEST[0] or size.lines < SMALLEST[1]:
        wanted = f"{SMALLEST[0]}x{SMALLEST[1]}"
        yield Checked("terminal", "note", f"it is small; {wanted} shows more")


def _is_utf8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        return False
