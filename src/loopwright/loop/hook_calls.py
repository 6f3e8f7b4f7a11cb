"""Calling a hook that gives a verdict: in time, off the event loop, and never ending the program.

A verdict that does not come is a no. So a gate has a time limit, by default `VERDICT_SECONDS`; one that
asks a person takes it off. A sync gate runs in a thread, so that other runs go on meanwhile; a thread
that is late is left behind.

Not here: what a verdict means (preflight.py), or the other hooks, which are called as they are (run.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ..errors import Misuse
from .calling import call_blocking, is_async
from .faults import is_group, leaves_of, told
from .hooks import Hook, with_signal

__all__ = [
    "VERDICT_SECONDS",
    "HookExited",
    "NoVerdict",
    "call_foreign",
    "is_hook_fault",
    "raise_as_fault",
    "time_limit",
    "verdict_hook",
    "watching",
]

VERDICT_SECONDS = 600.0
"""How long a gate may take that was given no limit of its own."""

F = TypeVar("F", bound=Callable[..., Any])


class NoVerdict(Exception):
    """A gate took longer than its limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the hook gave no verdict in time; its limit is {seconds:g} seconds")


class HookExited(Exception):
    """A hook raised what would have ended the program, such as `SystemExit`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"it raised {told(error)}")


def time_limit(seconds: float | None) -> Callable[[F], F]:
    """Give a hook *seconds* for its verdict; None lets it take as long as it likes.

        @time_limit(5)
        async def before_tool_call(call): ...

    A call whose hook is late is not run. Raises `Misuse` for a number that is not above 0.
    """
    if seconds is not None and not seconds > 0:
        raise Misuse(f"a time limit is a number of seconds above 0, or None; got {seconds!r}")

    def limited(hook: F) -> F:
        hook.time_limit_seconds = seconds  # pyright: ignore[reportFunctionMemberAccess]
        return hook

    return limited


def watching(hook: F) -> F:
    """Mark *hook* as one that only watches: it is not waited for, and its verdict does not count."""
    hook.only_watches = True  # pyright: ignore[reportFunctionMemberAccess]
    return hook


def verdict_hook(hook: Hook) -> Callable[..., Awaitable[Any]]:
    """*hook* as an async function of a question and the signal, within its time limit.

    It raises `NoVerdict` if *hook* is late, `HookExited` for what is no `Exception` (but neither a
    `KeyboardInterrupt` nor a cancellation), and other exceptions as they are. A hook that only watches runs on its own; the verdict is None.
    """
    call = with_signal(hook)
    seconds: float | None = getattr(hook, "time_limit_seconds", VERDICT_SECONDS)

    async def asked(question: Any, signal: Any) -> Any:
        timer = asyncio.timeout(seconds)
        try:
            async with timer:
                return await call_foreign(hook, call, question, signal)
        except TimeoutError as error:
            if timer.expired() and seconds is not None:
                raise NoVerdict(seconds) from error
            raise
        except BaseException as error:
            if isinstance(error, Exception) or _ends_the_run(error):
                raise
            raise HookExited(error) from error

    if not getattr(hook, "only_watches", False):
        return asked
    watchers: set[asyncio.Task[Any]] = set()

    async def watched(question: Any, signal: Any) -> None:
        task = asyncio.get_running_loop().create_task(asked(question, signal))
        watchers.add(task)
        task.add_done_callback(watchers.discard)
        task.add_done_callback(_forget)

    return watched


async def call_foreign(hook: Hook, call: Callable[..., Any], /, *arguments: Any) -> Any:
    """Call *call*, which is *hook* in a form of ours: here if *hook* is async, else in a thread."""
    if is_async(hook):
        return await call(*arguments)
    return await call_blocking(None, call, *arguments)


def raise_as_fault(error: BaseException) -> None:
    """Raise `HookExited` if *error* is a hook's fault, but no `Exception`."""
    if is_hook_fault(error) and not isinstance(error, Exception):
        raise HookExited(error) from error


def is_hook_fault(error: BaseException) -> bool:
    """It stays within the run: a failure, or a `SystemExit`, alone or in a group."""
    if is_group(error):
        return not _ends_the_run(error)
    return isinstance(error, Exception | SystemExit)


def _ends_the_run(error: BaseException) -> bool:
    """The user, or whoever waits for the run, ends it; a hook cannot. In a group, a cancellation is
    that of a task of the hook's own."""
    if is_group(error):
        return any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves_of(error))
    return isinstance(error, KeyboardInterrupt | asyncio.CancelledError | GeneratorExit)


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # a watcher's fault concerns nobody else
