"""A real shell in an empty folder, whose only programs write down that they were called.

What the recognizer believes of a line is held against what happens when it is run.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

PROGRAMS = ("git", "evil", "cat", "x", "a", "ls", "npm")
SHELLS = [shell for name in ("bash", "dash") if (shell := shutil.which(name))]


class RealShell:
    """Runs lines, each in an empty folder below *folder*, and tells what they did there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs = folder / "bin"
        self._programs.mkdir(parents=True)
        for name in PROGRAMS:
            file = self._programs / name
            file.write_text(f'#!/bin/sh\necho {name} >> "$CALLED"\n', "utf-8")
            file.chmod(0o755)

    def run(self, line: str, shell: str = SHELLS[0]) -> tuple[set[str], set[str]]:
        """The programs that *line* started and the files that it made."""
        scene = Path(tempfile.mkdtemp(dir=self._folder))
        work, called = scene / "work", scene / "called"
        work.mkdir()
        called.touch()
        ours, theirs = os.pipe()  # closed when the last process that it started is gone
        try:
            process = subprocess.Popen(
                [shell, "-c", "--", line],
                cwd=work,
                env={"PATH": str(self._programs), "HOME": str(work), "CALLED": str(called)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs],
            )
        finally:
            os.close(theirs)
        end = time.monotonic() + 20
        while select.select([ours], [], [], max(0.0, end - time.monotonic()))[0]:
            if not os.read(ours, 1000):
                break
        os.close(ours)
        process.kill()  # only if it waits for ever
        process.wait()
        made = {path.name for path in work.iterdir()}
        started = set(called.read_text("utf-8").split())
        shutil.rmtree(scene)
        return started, made
