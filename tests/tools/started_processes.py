"""Which processes a test has started: those that work in its folder.

Not here: anything that ends them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

needs_proc = pytest.mark.skipif(
    not os.path.exists("/proc/self/stat"), reason="only Linux tells what runs where"
)


def working_in(folder: Path) -> list[int]:
    """The processes whose working folder is *folder* or below, zombies not counted."""
    found: list[int] = []
    for name in os.listdir("/proc") if os.path.exists("/proc/self/stat") else []:
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            if Path(os.readlink(f"/proc/{name}/cwd")).is_relative_to(folder):
                found.append(int(name))
        except OSError:
            continue
    return found


def zombies() -> list[int]:
    """Children of this process that ended and were not waited for."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                state, parent = (
                    Path(f"/proc/{name}/stat").read_text("latin-1").rpartition(")")[2].split()[:2]
                )
            except OSError:
                continue
            if state == "Z" and int(parent) == os.getpid():
                found.append(int(name))
    return found


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for *condition*, and fail if it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)
