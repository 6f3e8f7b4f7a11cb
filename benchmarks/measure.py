"""Timing: one pinned core, the contestants in turns, the collector quiet in between.

A shared machine is never quiet, so only what was measured in the same run is compared, and the
least of several rounds stands for each: noise only ever adds. The clock on the wall counts unless
`use_cpu_time` was called; that is for busy machines, and would not notice needless waiting.
Work that talks to a server is timed by the processor time of this process alone (`in_turns`).
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Callable, Mapping

from .subject import Work

__all__ = ["WrongCount", "clock_name", "in_turns", "interleaved", "pin", "use_cpu_time"]

_clock: Callable[[], float] = time.perf_counter


class WrongCount(AssertionError):
    """A contestant did not do what it was timed for."""


def pin() -> str:
    """Stay on one core from here on, children included. Returns what came of it."""
    if not hasattr(os, "sched_setaffinity"):
        return "not pinned: this system cannot"
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return f"pinned to core {core}"


def clock_name() -> str:
    """What the clock is called in the module `time`, for work in other processes."""
    return _clock.__name__


def use_cpu_time() -> None:
    """From here on count the processor time of this process, not what others took in between."""
    global _clock
    _clock = time.process_time


def interleaved(
    contestants: Mapping[str, tuple[Callable[[], Work], int]], rounds: int, *, waits: bool = False
) -> dict[str, float]:
    """The best time of each contestant in seconds: A B C, A B C, ...

    A contestant is what makes its work and how many units that must report. Work that *waits* is
    always timed by the clock on the wall. Raises `WrongCount`.
    """
    clock = time.perf_counter if waits else _clock
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, (make, expected) in contestants.items():
            work = make()
            gc.collect()
            seconds, count = asyncio.run(_timed(work, clock))
            del work
            if count != expected:
                raise WrongCount(f"{name} reported {count} instead of {expected}")
            best[name] = min(seconds, best.get(name, seconds))
    return best


async def in_turns(contestants: Mapping[str, tuple[Work, int]], rounds: int) -> dict[str, float]:
    """The least processor time of each contestant in seconds, all in the running event loop.

    For work that needs open connections: it is to be warm before. Raises `WrongCount`.
    """
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, (work, expected) in contestants.items():
            gc.collect()
            seconds, count = await _timed(work, time.process_time)
            if count != expected:
                raise WrongCount(f"{name} reported {count} instead of {expected}")
            best[name] = min(seconds, best.get(name, seconds))
    return best


async def _timed(work: Work, clock: Callable[[], float]) -> tuple[float, int]:
    await asyncio.sleep(0)
    began = clock()
    count = await work()
    return clock() - began, count
