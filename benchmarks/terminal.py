"""Our program on a terminal: started, listened to, answered as a terminal answers. POSIX only."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["Terminal"]

_ROOT = Path(__file__).parents[1]
_SECONDS = 60.0
"""A program that is silent for so long has failed."""


class Terminal:
    """`python -m loopwright` with *arguments* on a terminal of 80x24 columns and lines."""

    def __init__(self, *arguments: str, folder: Path, env: Mapping[str, str]) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self._main, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        path = os.pathsep.join([str(_ROOT), *[entry for entry in sys.path if entry]])
        self.seen = bytearray()
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loopwright", *arguments],
            cwd=folder,
            env={**os.environ, **env, "PYTHONPATH": path, "TERM": "xterm-256color"},
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )
        os.close(inner)

    @property
    def pid(self) -> int:
        return self._process.pid

    def type(self, text: str) -> None:
        os.write(self._main, text.encode())

    def read_until(self, reached: Callable[[bytearray], bool]) -> float:
        """Read until *reached* holds of all that was seen. Seconds since the program was started.

        Raises `RuntimeError` with what was seen if it ends, or says nothing, before that.
        """
        while not reached(self.seen):
            ready, _, _ = select.select([self._main], [], [], _SECONDS)
            piece = b""
            if ready:
                with contextlib.suppress(OSError):  # Linux: the other side is closed
                    piece = os.read(self._main, 1 << 16)
            if not piece:
                raise RuntimeError(f"the program ended too early: {bytes(self.seen[-2000:])!r}")
            self.seen += piece
            if b"\x1b[6n" in piece:  # where is the cursor?
                os.write(self._main, b"\x1b[1;1R")
        return time.perf_counter() - self.began

    def processor_seconds(self) -> float:
        """What the process has used so far, where the system tells. Else NaN."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return float("nan")
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._main)
