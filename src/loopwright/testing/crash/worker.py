"""The process that lives the lives of a scenario, one after another, each in a fork of itself.

It imports the scenario once, so that a life costs a fork and not a start of Python. It has no event
loop and no thread of its own when it forks. Where a process cannot fork, or a library has started
a thread, it lives one life itself and ends.

    stdin   one line of JSON: Setup; then a Job a line
    stdout  one line of JSON for each: Answer

Not here: which jobs there are (campaign).
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import importlib
import importlib.util
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ...session.store import SessionStore
from .killing import KillingStore, KillPoints, PointKind, When
from .life import Diary, Effects, Life
from .snapshot import snapshot_of

__all__ = ["Answer", "Job", "Setup", "Target", "main", "resolve"]


class Target(msgspec.Struct):
    """A top-level function: by its module, and the file to load it from if it has no such name."""

    module: str
    name: str
    file: str | None = None


class Setup(msgspec.Struct):
    """What all lives of this worker have in common."""

    scenario: Target
    store: str
    """`sqlite`, `jsonl`, or a URL of PostgreSQL."""
    open_store: Target | None
    """Instead: a function that opens a store in a folder."""
    kinds: list[PointKind]


class Job(msgspec.Struct):
    """One life."""

    folder: str
    schema: str
    life: int
    at: int | None
    when: When
    seconds: float
    warm: list[str] = []
    """Modules that a life needs; imported before the fork, so that later ones find them there."""


class Answer(msgspec.Struct):
    """`status`: 0, the exit code, or minus the signal; None where the worker itself lives it."""

    ready: bool = True
    status: int | None = None
    forks: bool = False
    error: str = ""


class Left(msgspec.Struct):
    """What a life that came to its end leaves in `left-<life>.json`."""

    snapshot: dict[str, Any]
    points: list[str]
    modules: list[str]


def main() -> None:
    """Serve until stdin ends."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what the scenario prints does not get between the answers
    jobs = sys.stdin.buffer
    setup = msgspec.json.decode(jobs.readline(), type=Setup)
    try:
        resolve(setup.scenario)
        if setup.open_store is not None:
            resolve(setup.open_store)
    except BaseException:  # noqa: BLE001 - whatever it is, whoever started us has to know
        answers.write(msgspec.json.encode(Answer(False, error=traceback.format_exc())) + b"\n")
        return
    forks = _may_fork()
    answers.write(msgspec.json.encode(Answer(forks=forks)) + b"\n")
    for line in iter(jobs.readline, b""):
        job = msgspec.json.decode(line, type=Job)
        if not forks:
            os._exit(_live(setup, job))
        _warm(job.warm)
        child = os.fork()
        if child == 0:
            os._exit(_live(setup, job))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answers.write(msgspec.json.encode(Answer(status=status, forks=True)) + b"\n")


def resolve(target: Target) -> Callable[..., Any]:
    """The function *target* names. A file that cannot be imported by name is loaded from its path."""
    module = sys.modules.get(target.module)
    if module is None:
        try:
            module = importlib.import_module(target.module)
        except ModuleNotFoundError:
            if target.file is None:
                raise
            module = _load(target)
    found: Any = getattr(module, target.name)
    return found


def _load(target: Target) -> Any:
    assert target.file is not None
    spec = importlib.util.spec_from_file_location(target.module, target.file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[target.module] = module
    spec.loader.exec_module(module)
    return module


def _warm(modules: list[str]) -> None:
    for name in modules:
        if name not in sys.modules and _may_fork():
            try:
                importlib.import_module(name)
            except Exception:  # noqa: BLE001 - a life imports it in its own way, then
                continue
    if modules:
        gc.collect()
        gc.freeze()  # what is there stays shared when a fork collects its own garbage


def _may_fork() -> bool:
    return hasattr(os, "fork") and threading.active_count() == 1


# -- in the fork -----------------------------------------------------------------------------


def _live(setup: Setup, job: Job) -> int:
    """One life; returns the exit code."""
    folder = Path(job.folder)
    with open(folder / f"life-{job.life}.txt", "wb", buffering=0) as said, open(os.devnull) as none:
        os.dup2(none.fileno(), 0)
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    faulthandler.dump_traceback_later(job.seconds, exit=True, file=2)
    try:
        asyncio.run(_run(setup, job, folder))
    except BaseException:  # noqa: BLE001 - this is where the process ends
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


async def _run(setup: Setup, job: Job, folder: Path) -> None:
    diary = Diary(folder / "diary.jsonl", job.life)
    points = KillPoints(setup.kinds, job.at, job.when, diary.note)
    store = await _open(setup, job, folder)
    try:
        killing: Any = KillingStore(store, points)
        life = Life(job.life, killing, folder, Effects(diary, points), diary)
        await resolve(setup.scenario)(life)
    finally:
        await store.aclose()
    store = await _open(setup, job, folder)  # what is there, not what that store remembers
    try:
        left = Left(await snapshot_of(store), points.passed, sorted(sys.modules))
    finally:
        await store.aclose()
    unfinished = folder / "left.tmp"
    unfinished.write_bytes(msgspec.json.encode(left))
    os.replace(unfinished, folder / f"left-{job.life}.json")


async def _open(setup: Setup, job: Job, folder: Path) -> SessionStore:
    if setup.open_store is not None:
        opened: SessionStore = await resolve(setup.open_store)(folder)
        return opened
    if setup.store == "sqlite":
        from ...session.sqlite import SqliteStore

        return await SqliteStore.open(folder / "sessions.db")
    if setup.store == "jsonl":
        from ...session.jsonl import JsonlStore

        return await JsonlStore.open(folder / "sessions")
    from ...session.postgres import PostgresStore

    return await PostgresStore.open(setup.store, schema=job.schema, pool_size=3)
