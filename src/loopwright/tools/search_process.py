"""A search in a process that can be killed: ripgrep where it is, else our own worker.

A regular expression can take for ever, and nothing in a thread could be stopped then. What the
process prints is taken apart in a thread, since there may be much of it.

Not here: what is searched for (grep.py, find.py), the worker's side (grep_fallback.py).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple, cast

import msgspec

from ..errors import ToolError
from ..loop.threads import run_in_thread
from ..signals import AbortSignal
from .faults import in_words

__all__ = ["SEARCH_SECONDS", "SearchEnd", "SearchRequest", "end_notices", "run_search", "worker"]

SEARCH_SECONDS = 60.0
"""How long one search may take. What was found until then is shown."""

_ERROR_BYTES = 64 * 1024

_BOOT = (
    "import sys; sys.path[:] = {path!r}; from loopwright.tools.grep_fallback import main; main()"
)


class SearchRequest(msgspec.Struct, frozen=True):
    """What the worker is told."""

    folder: str
    """A real path; what is found is relative to it."""
    file: str | None = None
    """Search this one in *folder*, whatever the ignore files say."""
    hidden: bool = False
    pattern: str | None = None
    """A regular expression; None lists the files."""
    ignore_case: bool = False
    literal: bool = False
    context: int = 0
    glob: str | None = None
    """Search only these."""
    others: bool = False
    """List folders and links instead of files. Only our own worker can."""


class SearchEnd(NamedTuple):
    """How the process ended."""

    exit_code: int
    """Negative if it was killed, which it is, too, once the consumer has enough."""
    errors: str
    """The beginning of what it printed on stderr."""
    timed_out: bool


def worker(request: SearchRequest) -> list[str]:
    """The command that runs *request* in a process with this program's Python."""
    path = [entry for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
    asked = msgspec.json.encode(request).decode()
    return [sys.executable, "-P", "-c", _BOOT.format(path=path), asked]


def end_notices(end: SearchEnd) -> list[str]:
    """What kept the search from seeing everything."""
    notices: list[str] = []
    if end.timed_out:
        notices.append(
            f"Stopped after {SEARCH_SECONDS:g} seconds, before everything was seen: use a simpler "
            "pattern, or search in fewer files."
        )
    unreadable = sum(1 for line in end.errors.splitlines() if line.startswith("rg: "))
    if end.exit_code == 2 and unreadable:
        what = "1 file or folder" if unreadable == 1 else f"{unreadable:,} files or folders"
        notices.append(f"{what} could not be read.")
    return notices


async def run_search(
    command: Sequence[str],
    folder: str,
    consume: Callable[[IO[bytes]], bool],
    abort: AbortSignal,
    seconds: float = SEARCH_SECONDS,
) -> SearchEnd:
    """Run *command* in *folder* and give its output to *consume*, in a thread.

    The process is killed when *consume* returns True, for it has enough, after *seconds*, when
    *abort* fires and when the caller is cancelled. Raises `OSError` if it cannot be started,
    `ToolError` after an abort and for a *folder* that cannot be entered.
    """
    search = _Search(command, folder, consume)
    loop = asyncio.get_running_loop()
    timer = loop.call_later(seconds, search.stop, True)
    forget = abort.on_abort(search.stop)
    try:
        end = await run_in_thread(search.run)
    except BaseException:
        search.stop()
        raise
    finally:
        timer.cancel()
        forget()
    if abort.aborted:
        raise ToolError("Operation aborted")
    return end


class _Search:
    def __init__(
        self, command: Sequence[str], folder: str, consume: Callable[[IO[bytes]], bool]
    ) -> None:
        self._command = command
        self._folder = folder
        self._consume = consume
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._timed_out = False

    def run(self) -> SearchEnd:
        """In a thread."""
        with tempfile.TemporaryFile() as errors:
            with self._lock:
                if self._stopped:
                    return SearchEnd(-1, "", self._timed_out)
                process = self._process = self._start(errors)
            with process:
                enough = True
                try:
                    enough = self._consume(cast("IO[bytes]", process.stdout))
                finally:
                    if enough:
                        process.kill()
            errors.seek(0)
            text = errors.read(_ERROR_BYTES).decode(errors="replace")
        return SearchEnd(process.returncode, text, self._timed_out)

    def _start(self, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the program, which aborts
            )
        except OSError as error:
            if error.filename == self._folder:  # nobody may enter it, or it has just gone
                raise in_words(os.path.basename(self._folder), error) from error
            raise

    def stop(self, timed_out: bool = False) -> None:
        """From any thread, any number of times."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._timed_out = timed_out
            if self._process is not None:
                self._process.kill()
