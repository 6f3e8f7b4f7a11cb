"""How long a person waits for the command: its version, and the first prompt on a terminal.

As multiples of an empty Python process in the same run, since what a process costs is the
machine's affair. The targets stand for 150 ms and 400 ms on a machine of two cores that starts an
empty process in 13.5 ms.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ..report import Row
from ..sizes import Sizes
from ..subject import Peer
from ..terminal import Terminal

__all__ = ["measure"]

_PAINTED = b"\x1b[?2004h"
"""Pasted text is to come in brackets: asked for together with the first paint of the input."""

_MODELS = (
    'default = "toy/one"\n[providers.toy]\nbase_url = "http://127.0.0.1:9/v1"\nmodels = ["one"]\n'
)


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    empty: list[float] = []
    version: list[float] = []
    prompt: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _first_prompt(folder)  # reads the disk and may compile
        for _ in range(sizes.processes):
            empty.append(_process("-c", "pass"))
            version.append(_process("-m", "loopwright", "--version"))
            prompt.append(_first_prompt(folder))
    return [
        _row("`loopwright --version`", version, empty, 11),
        _row("first prompt painted on a terminal", prompt, empty, 30),
    ]


def _row(work: str, taken: list[float], empty: list[float], most: float) -> Row:
    ours, least = statistics.median(taken), statistics.median(empty)
    return Row(
        work,
        "empty processes",
        {"loopwright": ours / least},
        at_most=most,
        note=f"{ours * 1000:.0f} ms, least {min(taken) * 1000:.0f}; empty {least * 1000:.1f} ms",
        digits=1,
    )


def _process(*arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    return time.perf_counter() - began


def _first_prompt(folder: Path) -> float:
    """For a user who has one server, in a folder with nothing in it."""
    config = folder / "config" / "loopwright"
    project = folder / "project"
    if not config.is_dir():
        config.mkdir(parents=True)
        project.mkdir()
        (config / "models.toml").write_text(_MODELS)
    env = {
        "HOME": str(folder / "home"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "LOOPWRIGHT_MODEL": "",
    }
    terminal = Terminal(folder=project, env=env)
    try:
        return terminal.read_until(lambda seen: _PAINTED in seen)
    finally:
        terminal.close()
