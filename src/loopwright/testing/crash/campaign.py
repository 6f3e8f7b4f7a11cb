"""A crash test: one undisturbed run, then a death at every point, two at a time, and the verdicts.

Not here: a single life (worker), or what counts as sound (comparison).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

import msgspec

from ...errors import Misuse
from ...session.store import SessionStore
from .comparison import compare, compare_effects
from .killing import PointKind, When
from .life import Diary, Scenario
from .report import CrashReport, Death
from .worker import Answer, Job, Left, Setup, Target

__all__ = ["crash_test"]

_log = logging.getLogger("loopwright")

_WORTH_A_WORKER = 6
"""So many deaths take as long as starting one more process to share them with."""

_KINDS: tuple[PointKind, ...] = ("commit", "enqueue", "withdraw", "decide", "effect")


def crash_test(
    scenario: str | Scenario,
    store: str | Callable[[Path], Awaitable[SessionStore]] = "sqlite",
    *,
    kinds: Collection[PointKind] = _KINDS,
    when: Collection[When] = ("after", "before"),
    points: Iterable[int] | None = None,
    twice: Sequence[tuple[int, int]] = (),
    strict: bool = True,
    life_seconds: float = 30.0,
    processes: int | None = None,
) -> CrashReport:
    """Kill *scenario* at each of its points, go on with it, and compare. Blocks until it is done.

    *scenario*: a top-level coroutine function, or `"module:function"`; its module is imported by
    other processes. *store*: `"sqlite"`, `"jsonl"`, a URL of a PostgreSQL database (each death gets
    a schema of its own there, dropped afterwards), or a top-level `async` function that opens a
    store in a folder. *kinds*: what counts as a point; see `PointKind`. *points*: only these, of
    those that the undisturbed run has. *twice*: pairs of a point of the first life and one of the
    second, each killed there. *strict*: if False, what follows an interrupted call may differ from
    the undisturbed run. *life_seconds*: a life that takes longer is a fault. *processes*: how many
    at a time; by default as many as there are processors.

    Raises `Misuse` if the scenario cannot be imported or does not even end well undisturbed.
    """
    unknown = set(kinds) - set(get_args(PointKind)) | set(when) - set(get_args(When))
    if unknown:
        raise Misuse(f"crash_test knows no {', '.join(sorted(map(repr, unknown)))}")
    setup = Setup(
        scenario=_target(scenario),
        store=store if isinstance(store, str) else "",
        open_store=None if isinstance(store, str) else _target(store),
        kinds=sorted(kinds),
    )
    with tempfile.TemporaryDirectory(prefix="loopwright-crash-") as folder:
        campaign = _Campaign(setup, Path(folder), strict, life_seconds)
        return campaign.run(sorted(set(when)), points, twice, processes)


class _Campaign:
    """One call of `crash_test`."""

    def __init__(self, setup: Setup, folder: Path, strict: bool, life_seconds: float) -> None:
        self.setup, self.folder, self.strict = setup, folder, strict
        self.life_seconds = life_seconds
        self.schema = f"loopwright_crash_{secrets.token_hex(4)}"
        self.reference: Left
        self.reference_diary: list[dict[str, Any]] = []
        self.count = 0
        self.lock = threading.Lock()

    def run(
        self,
        when: list[When],
        points: Iterable[int] | None,
        twice: Sequence[tuple[int, int]],
        processes: int | None,
    ) -> CrashReport:
        began = time.monotonic()
        try:
            with _Worker(self.setup) as worker:
                self.live_undisturbed(worker)
                passed = self.reference.points
                chosen = range(1, len(passed) + 1) if points is None else sorted(set(points))
                deaths = [
                    Death(point, moment, self.what(point), second=second)
                    for moment in when
                    for point, second in [*((p, None) for p in chosen), *twice]
                ]
                self.die_all(deaths, worker, processes or os.cpu_count() or 1)
        finally:
            self.drop_schemas()
        return CrashReport(passed, deaths, time.monotonic() - began)

    def what(self, point: int) -> str:
        passed = self.reference.points
        return passed[point - 1] if 0 < point <= len(passed) else "no such point"

    def live_undisturbed(self, worker: _Worker) -> None:
        place = self.place()
        status = worker.live(self.job(place, 1, None, "after"))
        if status != 0:
            raise Misuse(
                f"the scenario does not end well even if nothing happens: {_end(status)}\n"
                f"{_said(place, 1)}"
            )
        self.reference = _left(place, 1)
        self.reference_diary = Diary.read(place / "diary.jsonl")
        found = compare(
            self.reference.snapshot, self.reference.snapshot, self.reference_diary, strict=True
        )
        faults = found.faults + compare_effects(
            self.reference_diary, self.reference_diary, 0, strict=True
        )
        open_ones = [name for name, s in self.reference.snapshot.items() if s["open"]]
        if open_ones:
            faults.append(f"an operation is left open in {', '.join(open_ones)}")
        if faults:
            raise Misuse(f"the scenario is not sound even if nothing happens: {'; '.join(faults)}")

    def die_all(self, deaths: list[Death], first: _Worker, processes: int) -> None:
        left = iter(deaths)

        def work(worker: _Worker) -> None:
            worker.warm = self.reference.modules
            while True:
                with self.lock:
                    death = next(left, None)
                if death is None:
                    return
                self.die(death, worker)

        def work_on_another() -> None:
            with _Worker(self.setup) as worker:
                work(worker)

        others = min(processes - 1, len(deaths) // _WORTH_A_WORKER)
        with ThreadPoolExecutor(others + 1) as pool:
            at_work = [pool.submit(work, first)]
            at_work += [pool.submit(work_on_another) for _ in range(others)]
            for done in at_work:
                done.result()

    def die(self, death: Death, worker: _Worker) -> None:
        """All the lives of one death, and the verdict."""
        began = time.monotonic()
        place = self.place()
        when: When = "before" if death.when == "before" else "after"
        life = 0
        to_come = [death.point, death.second]
        while True:
            life += 1
            at = to_come.pop(0) if to_come else None
            status = worker.live(self.job(place, life, at, when))
            diary = Diary.read(place / "diary.jsonl")
            killed = [line for line in diary if line["life"] == life and "killed" in line]
            if not killed:
                break
            if life == 1:
                death.killed, death.what = True, killed[0]["what"]
            else:
                death.killed_again = True
        if status == 0:
            found = compare(
                self.reference.snapshot, _left(place, life).snapshot, diary, strict=self.strict
            )
            death.interrupted = found.interrupted
            death.faults = found.faults + compare_effects(
                self.reference_diary, diary, found.interrupted, strict=self.strict
            )
        else:
            death.faults = [f"life {life} {_end(status)}\n{_said(place, life)}"]
        death.seconds = time.monotonic() - began

    def place(self) -> Path:
        """A new folder, for all lives up to one verdict."""
        with self.lock:
            self.count += 1
            place = self.folder / str(self.count)
        place.mkdir()
        return place

    def job(self, place: Path, life: int, at: int | None, when: When) -> Job:
        schema = f"{self.schema}_{place.name}"
        return Job(str(place), schema, life, at, when, self.life_seconds)

    def drop_schemas(self) -> None:
        """Of PostgreSQL. In a thread, since the caller may have an event loop running."""
        url = self.setup.store
        if "://" not in url:
            return
        with ThreadPoolExecutor(1) as pool:
            try:
                pool.submit(asyncio.run, _drop_schemas(url, self.schema)).result()
            except Exception as error:  # noqa: BLE001 - it must not hide why the test ended
                _log.warning("the schemas %s_* were left behind: %s", self.schema, error)


async def _drop_schemas(url: str, prefix: str) -> None:
    import asyncpg  # pyright: ignore[reportMissingTypeStubs]

    driver: Any = asyncpg
    connection = await driver.connect(url)
    try:
        found = await connection.fetch(
            "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, $1)", prefix
        )
        for (name,) in found:
            await connection.execute(f'DROP SCHEMA "{name}" CASCADE')
    finally:
        await connection.close()


class _Worker:
    """A process that lives lives; see `worker`."""

    def __init__(self, setup: Setup) -> None:
        self.warm: list[str] = []
        """Modules to import before the next fork."""
        self._setup = setup
        self._process: subprocess.Popen[bytes] | None = None
        self._forks = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def live(self, job: Job) -> int:
        """Live one life. Returns its exit code, or minus the signal that ended it."""
        process = self._process or self._start()
        job.warm, self.warm = self.warm, []
        self._send(process, job)
        if self._forks:
            status = self._answer(process).status
            assert status is not None
            return status
        status = process.wait()
        self._end()
        return status

    def _start(self) -> subprocess.Popen[bytes]:
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            "from loopwright.testing.crash.worker import main; main()"
        )
        process = self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._send(process, self._setup)
        answer = self._answer(process)
        if not answer.ready:
            self._end()
            raise Misuse(
                f"the scenario cannot be imported by another process:\n{answer.error}",
                hint="put it at the top level of a module of its own",
            )
        self._forks = answer.forks
        return process

    def _send(self, process: subprocess.Popen[bytes], line: msgspec.Struct) -> None:
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(line) + b"\n")
        process.stdin.flush()

    def _answer(self, process: subprocess.Popen[bytes]) -> Answer:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker of the crash test has ended: {_end(process.wait())}")
        return msgspec.json.decode(line, type=Answer)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        process.wait()


def _target(function: str | Callable[..., Any]) -> Target:
    if isinstance(function, str):
        module, colon, name = function.partition(":")
        if not colon or not module or not name.isidentifier():
            raise Misuse(f"{function!r} names no function", hint='say "module:function"')
        return Target(module, name)
    module, name = function.__module__, getattr(function, "__qualname__", "")
    file = inspect.getsourcefile(function)
    if not name.isidentifier():
        raise Misuse(
            f"another process cannot import {name or function!r}",
            hint="a scenario is a function at the top level of a module",
        )
    if module == "__main__":
        if file is None or not os.path.exists(file):
            raise Misuse(
                "another process cannot import what was typed in here",
                hint="put the scenario into a file",
            )
        module = f"_main_{Path(file).stem}"  # so that its `if __name__ == "__main__"` is not run
    return Target(module, name, None if file is None else os.path.abspath(file))


def _left(place: Path, life: int) -> Left:
    return msgspec.json.decode((place / f"left-{life}.json").read_bytes(), type=Left)


def _said(place: Path, life: int) -> str:
    """The end of what a life has printed."""
    file = place / f"life-{life}.txt"
    return file.read_text("utf-8", "replace")[-4000:] if file.exists() else ""


def _end(status: int) -> str:
    return f"was ended by signal {-status}" if status < 0 else f"ended with exit code {status}"
